#include "common/plan/memory/group_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/round_groups.h"
#include "common/partition/local_tensors.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/memory/rows_memory.h"
#include "common/transport/shared_memory/group_memory.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// A rank's peers in a group: those that may be below it or above, and those that are for sure.
struct Peers {
  uint64_t around = 0;
  uint64_t below = 0;
  uint64_t above = 0;
};

// Returns the sizes of the groups that sum gradients of what only some ranks of a layer share.
std::set<int> SharedGradientGroups(const v1::JobSpec& spec, const ModelSize& model) {
  std::set<int> sizes;
  for (const TensorSpec& tensor : model.tensors) {
    for (const SharedElements& elements : PartialElements(tensor, DividesTokens(spec))) {
      sizes.insert(elements.ranks);
    }
  }
  sizes.erase(static_cast<int>(SizeAlong(Axis::kTensor, spec)));
  return sizes;
}

}  // namespace

std::vector<MemoryPart> PlanGroups(const v1::JobSpec& spec, const ModelSize& model, int stage) {
  const Mesh mesh = MeshOf(spec);
  if (mesh.world_size() == 1 || !TrainsInRounds(spec) || RunsProgram(spec)) return {};
  uint64_t groups = 0, own_halves = 0, others_halves = 0;
  const auto add = [&](const Peers& peers) {
    if (peers.around + peers.below + peers.above == 0) return;
    ++groups;
    own_halves += peers.around + 2 * peers.above;
    others_halves += peers.around + 2 * peers.below;
  };
  const uint64_t stages = mesh.size(Axis::kPipeline);
  const auto along = [&](Axes axes) -> Peers {
    const uint64_t size = mesh.size(axes);
    if (!axes.Has(Axis::kPipeline)) return {.around = size - 1};
    const uint64_t below = stage, of_stage = size / stages;
    return {of_stage - 1, below * of_stage, (stages - 1 - below) * of_stage};
  };

  add(along(Axes().Others()));
  for (const Axes axes : GroupsOfRound(mesh, ChoicesCountedOf(spec))) add(along(axes));
  Peers tied;
  for (const TensorSpec& tensor_spec : model.tensors) {
    if (tensor_spec.stages > 1) (tensor_spec.first_stage ? tied.above : tied.below) = 1;
  }
  add(tied);
  if (!model.sparse.empty() && !RowsOnServers(spec)) add(along(kShardAxes));
  for (const int size : SharedGradientGroups(spec, model)) {
    add({.around = static_cast<uint64_t>(size) - 1});
  }
  // On servers ranks that compute together have a group, if none of these has them all.
  const int of_layers =
      std::max({mesh.size(Axis::kTensor), mesh.size(kContext), mesh.size(kExpertAxes)});
  if (!TrainsByAllReduce(spec) && !AllComputeTogether(spec) && mesh.size(kShareAxes) > of_layers) {
    add(along(kShareAxes));
  }
  return {{.name = "groups of ranks", .bytes = groups * kGroupBytes},
          {.name = "rings to other ranks, if on one machine", .bytes = own_halves * kPairBytes / 2},
          {.name = "rings that other ranks have made, if on one machine",
           .bytes = others_halves * kPairBytes / 2,
           .mapped = true}};
}

}  // namespace muster
