#ifndef MUSTER_COMMON_PARTITION_PULLED_TYPES_H_
#define MUSTER_COMMON_PARTITION_PULLED_TYPES_H_

#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

// Returns, by tensor index, the type in which computing workers need each tensor's values: the
// tensor's own (TensorSpec::compute) if its whole unit and optimizer group, and all tensors tied to
// these, have the same; otherwise f32. So neighbours in a DenseLayout are of one type, block by
// block. A tied tensor has its owner's. A pure function.
std::vector<DType> PulledTypes(absl::Span<const TensorSpec> tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_PULLED_TYPES_H_
