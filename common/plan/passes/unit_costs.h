#ifndef MUSTER_COMMON_PLAN_PASSES_UNIT_COSTS_H_
#define MUSTER_COMMON_PLAN_PASSES_UNIT_COSTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/size/model_size.h"
#include "common/step/divide_units.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns what each unit of the model costs, of the job's largest micro-batch: operations as
// step_costs.h counts them, those of recomputation with backward of the input, and one for each
// number that an embedding looks up or adds to; memory as if only the pipeline divided the model,
// since other axes divide all units alike. Attention counts as of
// whole sequences, whatever the documents, of which not all who divide units know. A tied head
// counts on its own stage, which keeps a copy. REQUIRES: a transformer or a perceptron.
std::vector<UnitCost> CostsOfUnits(const v1::JobSpec& spec, const ModelSize& model);

// Returns how many units each virtual stage of the job has: its list, or what
// DivideUnits makes of the costs. Errors are those of DivideUnits. REQUIRES: as above; the list is
// valid, if there is one.
absl::StatusOr<std::vector<int>> VirtualStageSizes(const v1::JobSpec& spec,
                                                   const std::vector<UnitCost>& units);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_PASSES_UNIT_COSTS_H_
