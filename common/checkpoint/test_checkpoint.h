#ifndef MUSTER_COMMON_CHECKPOINT_TEST_CHECKPOINT_H_
#define MUSTER_COMMON_CHECKPOINT_TEST_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/loss_scale.h"
#include "common/checkpoint/storage.h"

namespace muster {

// A small model for tests of checkpoints: tensors "a" (shape 4 x 6), "b" (5) and "s" (a scalar),
// sparse tables "e" (dim 3) and "f" (dim 1, no rows), optimizer slots "m" and "v". Every value says
// where it belongs.

// Value of element `i` of a tensor; slot 0 is the weights.
float TestElement(absl::string_view tensor, int slot, uint64_t i);
// Value `i` of the row of a key of table "e"; 0 to 2 are the weights, then the two slots, three
// each.
float TestRowValue(uint64_t key, int i);
inline constexpr uint32_t kTestRowWidth = 9;
// Keys of table "e" are 1000 * k for k in [0, kTestRows).
inline constexpr uint64_t kTestRows = 10;

// Of slots 0 and 1, in the last partition's file.
LossScale TestLossScale(uint32_t slot);

// Writes the model as a complete checkpoint of job "job-1" at clock 7 in `folder`, over
// `partitions` partitions: elements and keys are dealt in order, so that tensors cross files.
absl::Status WriteTestCheckpoint(CheckpointStorage& storage, absl::string_view folder,
                                 uint32_t partitions);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_TEST_CHECKPOINT_H_
