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
// sparse tables "e" (dim 3) and "f" (dim 1, no rows), state arrays "m" and "v". Every value says
// where it belongs.

// Returns element `i` of an array of a tensor; array 0 is the weights, then come "m" and "v".
float TestElement(absl::string_view tensor, int array, uint64_t i);
// Returns value `i` of the row of a key of table "e": three weights, then three values of each
// state array.
float TestRowValue(uint64_t key, int i);
inline constexpr uint32_t kTestRowWidth = 9;
// Keys of table "e" are 1000 * k for k in [0, kTestRows).
inline constexpr uint64_t kTestRows = 10;

// Returns the loss scale of slot 0 or 1, which the last partition's file has.
LossScale TestLossScale(uint32_t slot);

// A folder for it.
inline constexpr char kTestFolder[] = "/checkpoints/job-1/7";

// Writes the model as a complete checkpoint of job "job-1" at clock 7 in `folder`, over
// `partitions` partitions: each gets consecutive elements and keys, so that tensors cross files.
absl::Status WriteTestCheckpoint(CheckpointStorage& storage, absl::string_view folder,
                                 uint32_t partitions);

}  // namespace muster

#endif  // MUSTER_COMMON_CHECKPOINT_TEST_CHECKPOINT_H_
