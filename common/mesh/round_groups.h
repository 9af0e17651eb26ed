#ifndef MUSTER_COMMON_MESH_ROUND_GROUPS_H_
#define MUSTER_COMMON_MESH_ROUND_GROUPS_H_

#include <vector>

#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"

namespace muster {

// Returns the axes along which the ranks of a round have groups of their own, beside that of all
// ranks, in the order in which they make them. A group along kGradientAxes, kShardAxes or kCopyAxes
// is that of all ranks, or one of these.
inline std::vector<Axes> GroupsOfRound(const Mesh& mesh,
                                       ChoicesCounted choices = ChoicesCounted::kByDataRank) {
  std::vector<Axes> groups;
  for (const Axes axes : {Axes(Axis::kTensor), kContext}) {
    if (mesh.size(axes) > 1) groups.push_back(axes);
  }
  if (mesh.size(kPartAxes) > 1) groups.push_back(kGradientAxes);
  if (mesh.size(Axis::kPipeline) > 1) groups.push_back(Axis::kPipeline);
  // Otherwise those along kGradientAxes are all shards, or all copies.
  if (mesh.size(kShardAxes) > 1 && mesh.size(kCopyAxes) > 1) {
    groups.insert(groups.end(), {kShardAxes, kCopyAxes});
  }
  if (mesh.size(kExpertAxes) > 1) {
    for (const Axes axes : {kExpertAxes, kExpertShardAxes, kExpertCopyAxes}) {
      if (mesh.size(axes) > 1) groups.push_back(axes);
    }
  }
  if (choices == ChoicesCounted::kTogether && mesh.size(kDataAxes) > 1) groups.push_back(kDataAxes);
  return groups;
}

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_ROUND_GROUPS_H_
