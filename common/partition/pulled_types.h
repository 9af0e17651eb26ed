#ifndef MUSTER_COMMON_PARTITION_PULLED_TYPES_H_
#define MUSTER_COMMON_PARTITION_PULLED_TYPES_H_

#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

// In which type workers that compute need the values of each tensor, by its index: its own
// (TensorSpec::compute) where all of its unit and optimizer group, and all that are tied to these,
// have the same; otherwise f32. So what lies side by side in a DenseLayout is of one type, block by
// block. A tied tensor has its owner's. A pure function.
std::vector<DType> PulledTypes(absl::Span<const TensorSpec> tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_PULLED_TYPES_H_
