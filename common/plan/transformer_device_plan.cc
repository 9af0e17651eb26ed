#include "common/plan/transformer_device_plan.h"

#include "common/plan/transformer_memory_plan.h"

namespace muster {
namespace {

DeviceExtents::Kept KeptBy(const v1::ComputeSpec& compute) {
  switch (compute.recompute()) {
    case v1::ComputeSpec::SELECTIVE:
      return DeviceExtents::Kept::kProducts;
    case v1::ComputeSpec::FULL:
      return DeviceExtents::Kept::kInput;
    default:
      return DeviceExtents::Kept::kAll;
  }
}

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
  extents.parameters = FlatElements(model);
  extents.layers = size.layers;
  extents.N = TokensOf(size, sequences);
  extents.C = size.C;
  extents.H = size.heads;
  extents.Q = size.Q;
  extents.U = size.U;
  extents.F = size.F;
  extents.V = size.V;
  if (spec.model().transformer().positions() == v1::TransformerSpec::ROTARY) {
    extents.rotary = size.T * (size.C / size.heads);
  }
  extents.type = ActivationType(spec.compute());
  extents.kept = KeptBy(spec.compute());
  extents.optimizer_here = spec.update().dense() == v1::UpdateSpec::ALL_REDUCE;
  return PlanDeviceMemory(extents, nullptr).bytes;
}

}  // namespace muster
