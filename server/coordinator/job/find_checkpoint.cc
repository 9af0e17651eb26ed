#include "server/coordinator/job/find_checkpoint.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/coordinator/job/job_state_machine.h"

namespace muster {

bool IsSound(const v1::JobRecord& record, const v1::CheckpointRecord& checkpoint) {
  const v1::CheckpointRecord* at = &checkpoint;
  while (at->damage().empty()) {
    if (!at->has_base_clock()) return true;
    const uint64_t base = at->base_clock();
    at = nullptr;
    for (const v1::CheckpointRecord& other : record.checkpoints()) {
      if (other.clock() == base && base < checkpoint.clock()) at = &other;
    }
    if (at == nullptr) return false;
  }
  return false;
}

const v1::CheckpointRecord* LastSound(const v1::JobRecord& record) {
  for (auto it = record.checkpoints().rbegin(); it != record.checkpoints().rend(); ++it) {
    if (IsSound(record, *it)) return &*it;
  }
  return nullptr;
}

uint64_t LastSoundClock(const v1::JobRecord& record, uint64_t otherwise) {
  const v1::CheckpointRecord* last = LastSound(record);
  return last == nullptr ? otherwise : last->clock();
}

absl::StatusOr<const v1::CheckpointRecord*> FindCheckpoint(const v1::JobRecord& record,
                                                           std::optional<uint64_t> clock) {
  if (record.checkpoints().empty()) {
    if (!IsFinal(record.state())) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", record.job_id(), " has no checkpoint yet; wait for its first"));
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", record.job_id(), " has ended as ", v1::JobState_Name(record.state()),
        " and has no checkpoint", record.message().empty() ? "" : ": ", record.message()));
  }
  if (!clock.has_value()) {
    // If all are damaged, return the last: its reader is told what is wrong with it.
    const v1::CheckpointRecord* last = LastSound(record);
    return last != nullptr ? last : &*record.checkpoints().rbegin();
  }
  std::string clocks;
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    if (checkpoint.clock() == *clock) return &checkpoint;
    absl::StrAppend(&clocks, clocks.empty() ? "" : ", ", checkpoint.clock());
  }
  return absl::NotFoundError(absl::StrCat("job ", record.job_id(), " has no checkpoint at clock ",
                                          *clock, "; it has those at ", clocks));
}

}  // namespace muster
