#ifndef MUSTER_COMMON_PARTITION_PARAMETER_GROUPS_H_
#define MUSTER_COMMON_PARTITION_PARAMETER_GROUPS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Gives a model's tensors the optimizer groups that a job's specification says: `adapter` freezes
// all that is no adapter's, and `optimizer.groups` change the rate or the weight decay of tensors,
// or freeze them. Under Muon those with matrices of hidden layers say so (SetMatrices). Of several
// groups with a tensor, the first counts. A tied tensor is in the group of its owner.
//
// InvalidArgument, with the field and what would be right: a name of a group is no tensor's; it is
// a tied tensor's alone; the group freezes or decays a tensor that moves by signs; or all tensors
// are frozen.
//
// A pure function: every process of a job gives the same tensors the same groups.
absl::Status SetParameterGroups(const v1::JobSpec& spec, absl::Span<TensorSpec> tensors);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_PARAMETER_GROUPS_H_
