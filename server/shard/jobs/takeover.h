#ifndef MUSTER_SERVER_SHARD_JOBS_TAKEOVER_H_
#define MUSTER_SERVER_SHARD_JOBS_TAKEOVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/jobs/shard_resources.h"
#include "server/shard/partition/partition.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

// How a generation goes on with the tables of an earlier one in place, with other slots
// (OpenTablesRequest.takes_over_generation). The ended partitions are open still, or stored. First
// each of them is prepared, which changes nothing but that missing closes of the last clock are
// made; so whatever refuses the generation leaves the ended one to another attempt. Then each
// becomes one of the new generation: values, log and memory go on, and ledger, clocks and sums are
// made anew for the new slots. A stored one changes its generation with the write of an image's
// state, so that a crash leaves the one or the other.
class Takeover {
 public:
  // `ended` is the job as it is open under an earlier generation; null if it is not. The arguments
  // outlive the object, and the caller has the job's turn.
  Takeover(std::shared_ptr<const JobTables> next, OpenJob* ended, const ShardResources& resources);

  // Makes the partition wait for its new generation at the start clock. Thread-safe.
  // FAILED_PRECONDITION: it is not here, or of an older generation than may be taken over.
  // DATA_LOSS: it has another clock. INVALID_ARGUMENT: the tables are others. UNAVAILABLE: its
  // files cannot be read or written yet, or it moves; try again.
  absl::Status Prepare(uint32_t partition);

  // Returns the partition under the new generation, durable where the job is. After an error it is
  // to be found in its files alone. REQUIRES: Prepare has succeeded.
  absl::StatusOr<std::unique_ptr<Partition>> Take(uint32_t partition,
                                                  std::shared_ptr<Executor> strand);

 private:
  absl::Status PrepareOpen(PartitionExecutor& executor, bool& whole);
  absl::Status PrepareStored(uint32_t partition);
  // Ends the partition if it is not ended, and brings it to the start clock.
  absl::Status BringToStart(Partition& partition) const;
  // Returns the tables of an earlier generation.
  absl::StatusOr<std::shared_ptr<const JobTables>> Earlier(uint64_t generation, uint32_t slots);
  // Returns the error of a partition that cannot be found.
  absl::Status Lost(uint32_t partition, absl::string_view why) const;

  const std::shared_ptr<const JobTables> next_;
  OpenJob* const ended_;
  const ShardResources& resources_;
  absl::Mutex mutex_;
  // Tables by generation and number of slots.
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<const JobTables>> earlier_
      ABSL_GUARDED_BY(mutex_);
  // Prepared partitions that were stored.
  std::map<uint32_t, std::unique_ptr<Partition>> recovered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_TAKEOVER_H_
