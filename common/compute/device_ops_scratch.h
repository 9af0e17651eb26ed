#ifndef MUSTER_COMMON_COMPUTE_DEVICE_OPS_SCRATCH_H_
#define MUSTER_COMMON_COMPUTE_DEVICE_OPS_SCRATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/kernels/device/device_sizes.h"

namespace muster {

// The largest extents that DeviceOps is called with. Letters as in op_arrays.h.
struct DeviceOpsExtents {
  int64_t rows = 0;    // N
  int64_t width = 0;   // C
  int64_t heads = 0;   // H
  int64_t normed = 0;  // columns of the widest norm of queries or keys
  int64_t biased = 0;  // columns of the widest layer that has a bias
  int64_t logit_rows = 0;
};

// Bytes of scratch of each row of logits: the loss, and whether the row was predicted right.
constexpr size_t kDeviceLossScratch = sizeof(float) + sizeof(int32_t);

// Returns how many bytes of device memory DeviceOps works in. All operations use the same bytes,
// one after the other. For those who plan memory and launch nothing. Does not fall as extents grow.
constexpr size_t DeviceOpsScratch(const DeviceOpsExtents& extents) {
  const int64_t floats = std::max({DeviceNormBackwardScratch(extents.rows, extents.width),
                                   DeviceHeadNormBackwardScratch(extents.rows, extents.normed),
                                   DeviceAttentionBackwardScratch(extents.rows, extents.heads),
                                   DeviceRowSumsScratch(extents.rows, extents.biased),
                                   DeviceRouteBackwardScratch(extents.rows)});
  return std::max(floats * sizeof(float), extents.logit_rows * kDeviceLossScratch);
}

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_DEVICE_OPS_SCRATCH_H_
