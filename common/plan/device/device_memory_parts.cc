#include "common/plan/device/device_memory_parts.h"

#include <algorithm>

#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/device/transformer_device_plan.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Returns the number of a rank's groups with communicators on its device: all data ranks or its
// shard group, its shard's replicas, its context group, its tensor group, and those of this group
// that have a key-value head in common, if some but not all have; its stage group, and the stages
// that have the embedding in common; the ranks with other experts, and those with the same or with
// shards of them; and the data ranks that count choices together.
uint64_t NcclGroups(const v1::JobSpec& spec, const ModelSize& model) {
  const uint32_t shards = SizeAlong(kShardAxes, spec);
  const uint32_t kv_heads = spec.model().transformer().kv_heads();
  uint64_t groups = SizeAlong(Axis::kTensor, spec) > 1 ? 1 : 0;
  if (kv_heads > 1 && kv_heads < SizeAlong(Axis::kTensor, spec)) ++groups;
  if (TrainsByAllReduce(spec) && SizeAlong(kGradientAxes, spec) > 1) {
    groups += shards > 1 && SizeAlong(kCopyAxes, spec) > 1 ? 2 : 1;
  }
  std::vector<Axes> others = {kContext, Axis::kPipeline, kExpertAxes};
  if (SizeAlong(kExpertAxes, spec) > 1) {
    others.push_back(kExpertCopyAxes);
    if (ZeroStage(spec) > 0) others.push_back(kExpertShardAxes);
  }
  if (ChoicesCountedOf(spec) == ChoicesCounted::kTogether) others.push_back(kDataAxes);
  for (const Axes axes : others) groups += SizeAlong(axes, spec) > 1 ? 1 : 0;
  if (std::any_of(model.tensors.begin(), model.tensors.end(),
                  [](const TensorSpec& tensor) { return tensor.stages > 1; })) {
    ++groups;
  }
  return groups;
}

}  // namespace

std::vector<MemoryPart> DeviceMemoryParts(const v1::JobSpec& spec, const ModelSize& model,
                                          const DeviceMemoryBytes& bytes) {
  const uint32_t stage = ZeroStage(spec);
  std::vector<MemoryPart> parts;
  const auto add = [&](const char* name, uint64_t size) {
    parts.push_back({.name = name, .bytes = size});
  };
  const auto add_state = [&](const char* name, uint64_t size) {
    parts.push_back({.name = name, .bytes = size, .model_state = true});
  };
  add_state("16-bit weights", bytes.rounded_weights);
  if (stage == 0) {
    add_state("parameters", bytes.weights);
    add_state("gradients", bytes.gradients);
    add_state("optimizer state", bytes.optimizer_state);
  } else {
    add_state("slice of parameters", bytes.weights);
    add_state("slice of sums of gradients", bytes.gradient_sums);
    add_state("slice of optimizer state", bytes.optimizer_state);
    if (stage == 3) {
      add("gathered parameters of units in flight", bytes.gathered_weights);
    } else {
      add_state("gathered parameters", bytes.gathered_weights);
    }
    if (stage >= 2) {
      add("gradients of units in flight", bytes.gradients);
    } else {
      add_state("gradients", bytes.gradients);
    }
  }
  add("activations", bytes.activations);
  add("logits", bytes.logits);
  add("kernels' scratch", bytes.scratch);
  if (bytes.messages > 0) add("messages with other stages", bytes.messages);
  add("CUDA's own", kDeviceHeadroomBytes + kCudaContextBytes);
  if (const uint64_t groups = NcclGroups(spec, model); groups > 0) {
    add("NCCL's own", groups * kNcclBytes);
  }
  return parts;
}

}  // namespace muster
