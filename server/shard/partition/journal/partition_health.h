#ifndef MUSTER_SERVER_SHARD_PARTITION_JOURNAL_PARTITION_HEALTH_H_
#define MUSTER_SERVER_SHARD_PARTITION_JOURNAL_PARTITION_HEALTH_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

// The health of a partition: it serves, or refuses everything with one error. All parts of the
// partition read the health, and the part that meets an error closes it. Not thread-safe.
class PartitionHealth {
 public:
  // The source from which a partition can be read back after a failure.
  enum class ReadBack { kFromFiles, kNever };

  // The tables, which give the names for errors, and the crash point must outlive it.
  // `refuse_waiting` is called once, as soon as the partition is closed; it refuses the calls that
  // wait, and needs no memory.
  PartitionHealth(const PartitionTables& tables, ReadBack read_back, CrashPoint& crash_point,
                  std::function<void()> refuse_waiting);

  // Returns whether the partition serves.
  bool ok() const { return status_.ok(); }
  // Returns the error with which everything is refused; OK while the partition serves.
  const absl::Status& status() const { return status_; }

  // Closes the partition with `status`, unless it is closed already.
  void Close(absl::Status status);
  // Closes the partition since half of an operation may be done: it has to be read back from its
  // files (UNAVAILABLE), or its values are lost (DATA_LOSS). Needs no memory.
  void Fail(absl::string_view why);

  // Returns whether a test has stopped the engine: nothing is written or answered any more.
  bool crashed() const { return crash_point_.crashed(); }
  // Passes a crash point; see CrashPoint::Pass.
  bool Pass(absl::string_view point) { return crash_point_.Pass(point); }

 private:
  absl::Status FailedSince(absl::string_view why) const;

  const PartitionTables& tables_;
  const ReadBack read_back_;
  CrashPoint& crash_point_;
  const std::function<void()> refuse_waiting_;
  // The error of Fail for when there is no memory left to say why.
  const absl::Status out_of_memory_;
  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_JOURNAL_PARTITION_HEALTH_H_
