#include "common/plan/transformer_device_plan.h"

#include "common/mesh/zero.h"
#include "common/plan/device_shard_plan.h"
#include "common/plan/transformer_memory_plan.h"

namespace muster {
namespace {

uint64_t FlatElements(const ModelSize& model) {
  uint64_t elements = 0;
  for (const TensorSpec& tensor : model.tensors) {
    if (tensor.tied_to.empty()) elements += PaddedElements(tensor.elements());
  }
  return elements;
}

}  // namespace

DeviceMemoryBytes PlanDeviceBytes(const v1::JobSpec& spec, const ModelSize& model,
                                  uint64_t sequences) {
  const TransformerSize& size = *model.transformer;
  DeviceExtents extents;
  extents.activations = ActivationRequestOf(size, sequences, spec.compute());
  extents.activations.placement = kOnDevice;
  extents.parameters = FlatElements(model);
  if (spec.model().transformer().positions() == v1::TransformerSpec::ROTARY) {
    extents.rotary = size.T * size.head_dim();
  }
  extents.optimizer_here = spec.update().dense() == v1::UpdateSpec::ALL_REDUCE;
  if (ZeroStage(spec) > 0) {
    // The tensors of a job that is admitted can be laid out.
    const auto shard = PlanDeviceShard(spec, model.tensors, extents.activations.type);
    if (shard.ok()) extents.shard = *shard;
  }
  return PlanDeviceMemory(extents);
}

}  // namespace muster
