#include "server/coordinator/find_checkpoint.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<const v1::CheckpointRecord*> FindCheckpoint(const v1::JobRecord& record,
                                                           std::optional<uint64_t> clock) {
  if (record.checkpoints().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", record.job_id(), " has no checkpoint yet; wait for its first"));
  }
  if (!clock.has_value()) return &*record.checkpoints().rbegin();
  std::string clocks;
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (checkpoint.clock() == *clock) return &checkpoint;
    absl::StrAppend(&clocks, clocks.empty() ? "" : ", ", checkpoint.clock());
  }
  return absl::NotFoundError(absl::StrCat("job ", record.job_id(), " has no checkpoint at clock ",
                                          *clock, "; it has those at ", clocks));
}

}  // namespace muster
