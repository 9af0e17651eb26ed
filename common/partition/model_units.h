#ifndef MUSTER_COMMON_PARTITION_MODEL_UNITS_H_
#define MUSTER_COMMON_PARTITION_MODEL_UNITS_H_

#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// What a model's tensors say of its units. Pure functions, the same on every rank. Owners of tied
// tensors must be among the tensors.

// Returns the number of units; those without tensors behind the last one are left out.
int UnitCount(absl::Span<const TensorSpec> tensors);

// Returns, by unit, the other units that own tensors which the unit's are tied to, in ascending
// order.
std::vector<std::vector<int>> TiedUnits(absl::Span<const TensorSpec> tensors);

// Returns, by unit, the last one in backward order that adds to the unit's gradients: the first of
// the model that has the unit's tensors or ones that are tied to them.
std::vector<int> ReadyUnits(absl::Span<const TensorSpec> tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_MODEL_UNITS_H_
