#ifndef MUSTER_COMMON_PLAN_RANKS_RANK_SIZE_H_
#define MUSTER_COMMON_PLAN_RANKS_RANK_SIZE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_shape.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// These functions take the whole model's size, which ValidateLayout accepts
// (common/plan/size/layout_validator.h).

// Returns how the ranks that compute the model together divide it: its layers, and its virtual
// stages (VirtualStageSizes). InvalidArgument: the model has fewer units than virtual stages.
absl::StatusOr<ModelDivision> PlannedDivision(const v1::JobSpec& spec, const ModelSize& model);

// Returns a stage of the job's steps. REQUIRES: `division` is PlannedDivision's.
ModelStage StageOf(const v1::JobSpec& spec, const ModelSize& model, const ModelDivision& division,
                   int stage);

// Returns what the first rank of a stage computes, which has at least as much as any other of the
// stage. Tensors are all of the model's; those that the rank has nothing of are empty.
// REQUIRES: `division` is PlannedDivision's.
ModelSize SizeOfRank(const v1::JobSpec& spec, const ModelSize& model, const ModelDivision& division,
                     int stage);

// Returns the layout of a rank's tensors in as few blocks as there may be, for whatever does not
// depend on their size: parts, shards and buckets. Errors are DenseLayout's.
absl::StatusOr<DenseLayout> LayoutOfLargeBlocks(absl::Span<const TensorSpec> tensors);

// Returns the bytes that a rank hands the next stage of one forward pass over so many examples,
// where its stage ends with that unit; the gradient that comes back has as many. They travel in the
// type of computation. A rank hands on its own tokens, if the ranks of a layer share them out, or
// its own columns. `tensors` are the shares of a rank of the stage, and `rank` is its position in
// the stage.
uint64_t BoundaryBytes(const v1::JobSpec& spec, absl::Span<const TensorSpec> tensors, int unit,
                       uint64_t examples, int rank = 0);

// Returns the job's tables as servers would be told of them, but for initial values and learning
// rate: what traffic is predicted from.
v1::TablesSchema PlannedSchema(const v1::JobSpec& spec, const ModelSize& model);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_RANKS_RANK_SIZE_H_
