#ifndef MUSTER_COMMON_CHECKPOINT_CHECKPOINT_NAME_H_
#define MUSTER_COMMON_CHECKPOINT_CHECKPOINT_NAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The name that people give a checkpoint: JOB@CLOCK, JOB@best for the one of that job's best
// evaluation, or JOB for its last one.
struct CheckpointName {
  std::string job_id;
  // Absent: the last one, or the best.
  std::optional<uint64_t> clock;
  // True only without a clock.
  bool best = false;
};

// Parses a name. InvalidArgument says what is wrong with the text.
absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_CHECKPOINT_NAME_H_
