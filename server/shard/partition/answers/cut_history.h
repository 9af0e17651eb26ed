#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_CUT_HISTORY_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_CUT_HISTORY_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/partition/journal/journal_writer.h"

namespace muster {

namespace v1 {
class PartitionState;
}  // namespace v1

// The last two cuts of a partition whose files are written, so that repeats are answered, also
// after a recovery. A slot that is taken over in mid-close is one cut behind where a cut follows at
// the next clock, and asks for the earlier one again. Not thread-safe.
class CutHistory {
 public:
  struct Cut {
    uint64_t clock = 0;
    std::string path;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
  };

  // Returns null where the cut was not taken, or is not known any more.
  const Cut* Find(uint64_t clock) const;

  // Makes it durable that a cut has its file, then knows the cut. Errors as JournalWriter::Write.
  absl::Status Add(Cut cut, JournalWriter& log);
  // Takes a cut from its log record. DATA_LOSS: the record cannot be read.
  absl::Status Replay(const ExchangeCall& record);

  void Save(v1::PartitionState& state) const;
  void Restore(const v1::PartitionState& state);

 private:
  void Keep(Cut cut);

  // The later first.
  std::deque<Cut> cuts_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_CUT_HISTORY_H_
