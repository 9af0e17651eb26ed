#ifndef MUSTER_COMMON_PLAN_MEMORY_GROUP_PLAN_H_
#define MUSTER_COMMON_PLAN_MEMORY_GROUP_PLAN_H_

#include <vector>

#include "common/plan/size/memory_part.h"
#include "common/plan/size/model_size.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns the memory through which a rank of a stage talks to others, in every group that it is in:
// those of common/mesh/round_groups.h, those of stages that have a tensor in common
// (worker/strategy/group/exchange/rank_groups.h), those that sum shared gradients
// (tensor_ranks.h), and the rank's data rank where it spans stages on servers (served_group.h);
// and the shard group once more for rows (row_exchange.h). `model` is what the rank has of the
// model.
//
// Two ranks of a group on one machine share rings (common/transport/shared_memory/group_memory.h),
// which the lower rank makes and the other one maps; all their pages are there from the start. The
// ranks of a stage have all places in most groups, so the plan is their mean: half of the rings are
// a rank's own.
std::vector<MemoryPart> PlanGroups(const v1::JobSpec& spec, const ModelSize& model, int stage);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_MEMORY_GROUP_PLAN_H_
