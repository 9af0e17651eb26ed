#ifndef MUSTER_COMMON_PARTITION_MODEL_UNITS_H_
#define MUSTER_COMMON_PARTITION_MODEL_UNITS_H_

#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// These functions derive a model's units from its tensors. They are pure, so every rank gets the
// same. Owners of tied tensors must be among the tensors.

// Returns the number of units up to the last one that has tensors.
int UnitCount(absl::Span<const TensorSpec> tensors);

// Returns, by unit, the other units that own tensors to which the unit's tensors are tied, in
// ascending order.
std::vector<std::vector<int>> TiedUnits(absl::Span<const TensorSpec> tensors);

// Returns, by unit, the last unit in backward order that adds to its gradients: the model's first
// unit that has the unit's tensors or tensors tied to them.
std::vector<int> ReadyUnits(absl::Span<const TensorSpec> tensors);

// Returns, by unit, the units whose gradients are complete once backward has left it, last first.
std::vector<std::vector<int>> CompleteUnits(absl::Span<const TensorSpec> tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_MODEL_UNITS_H_
