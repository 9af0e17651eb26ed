#include "common/plan/device/transformer_device_plan.h"

#include <cstddef>
#include <vector>

#include "common/base/pass.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/device/device_shard_plan.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/step/stage_spec.h"

namespace muster {
namespace {

uint64_t FlatElements(const ModelSize& model) {
  uint64_t elements = 0;
  for (const TensorSpec& tensor : model.tensors) {
    if (tensor.tied_to.empty()) elements += PaddedElements(tensor.elements());
  }
  return elements;
}

// Makes the extents those of the chunks of a stage, or of the whole model.
void LeaveChunks(const std::vector<UnitRange>& chunks, DeviceExtents& extents) {
  const ActivationRequest whole = extents.activations;
  const auto leave = [&whole](const UnitRange& units) {
    ActivationRequest request = whole;
    SetUnits(request.layers, units, request);
    return request;
  };
  extents.activations = leave(chunks[0]);
  if (chunks.size() == 1) return;
  for (size_t i = 1; i < chunks.size(); ++i) extents.other_activations.push_back(leave(chunks[i]));
  extents.other_activations.push_back(leave({chunks.front().first, chunks.back().end}));
  extents.other_activations.back().pass = Pass::kEvaluation;
}

}  // namespace

DeviceMemoryBytes PlanDeviceBytes(const v1::JobSpec& spec, const ModelSize& model,
                                  uint64_t sequences, const DeviceStageSize& stage) {
  const TransformerSize& size = *model.transformer;
  DeviceExtents extents;
  extents.activations = ActivationRequestOf(size, sequences, spec.compute());
  extents.activations.placement = kOnDevice;
  extents.activations.split_backward = ShapeOfStages(spec).order == StageOrder::kZeroBubble;
  LeaveChunks(model.chunks, extents);
  extents.activation_stashes = stage.activation_stashes;
  extents.messages = stage.messages;
  extents.parameters = FlatElements(model);
  if (spec.model().transformer().positions() == v1::TransformerSpec::ROTARY) {
    extents.rotary = size.context() * size.head_dim();
  }
  extents.optimizer_here = spec.update().dense() == v1::UpdateSpec::ALL_REDUCE;
  if (ZeroStage(spec) > 0) {
    // The tensors of a job that is admitted can be laid out.
    const auto shard =
        PlanDeviceShard(spec, SmallestShardGroup(spec), model.tensors, extents.activations.type);
    if (shard.ok()) extents.shard = *shard;
  }
  return PlanDeviceMemory(extents);
}

}  // namespace muster
