#ifndef MUSTER_COMMON_CHECKPOINT_CHECKPOINT_NAME_H_
#define MUSTER_COMMON_CHECKPOINT_CHECKPOINT_NAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The name that people give a checkpoint: JOB@CLOCK, or JOB for that job's last one.
struct CheckpointName {
  std::string job_id;
  // Absent: the last one.
  std::optional<uint64_t> clock;
};

// Parses a name. InvalidArgument says what is wrong with the text.
absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_CHECKPOINT_NAME_H_
