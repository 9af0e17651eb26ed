#include "common/plan/device/device_memory_layout.h"

#include <algorithm>

#include "common/compute/device_ops_scratch.h"
#include "common/kernels/device/device_sizes.h"

namespace muster {
namespace {

// Adds arrays to a plan and gives their addresses; bytes go to whatever counter is set.
class Cursor {
 public:
  explicit Cursor(std::byte* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  void Count(size_t& counter) { counter_ = &counter; }

  template <typename T>
  void Take(uint64_t elements, T*& array) {
    TakeBytes(elements * sizeof(T), array);
  }
  template <typename T>
  void TakeRecord(T*& record) {
    TakeBytes(kDeviceRecordBytes, record);
  }
  template <typename T>
  void TakeBytes(size_t bytes, T*& array) {
    const size_t before = plan_.bytes();
    array = reinterpret_cast<T*>(Skip(bytes));
    *counter_ += plan_.bytes() - before;
  }
  // Takes bytes that are counted elsewhere.
  std::byte* Skip(size_t bytes) { return reinterpret_cast<std::byte*>(base_ + plan_.Add(bytes)); }

  size_t bytes() const { return plan_.bytes(); }

 private:
  const uintptr_t base_;
  ArenaPlan plan_;
  size_t* counter_ = nullptr;
};

// Returns the layouts of everything that an activation stash may hold.
std::vector<ActivationLayout> LayoutsOf(const DeviceExtents& extents) {
  std::vector<ActivationLayout> layouts = {ActivationLayout(extents.activations)};
  for (const ActivationRequest& other : extents.other_activations) layouts.emplace_back(other);
  return layouts;
}

}  // namespace

uint64_t StageMessageBytes(const ActivationRequest& activations) {
  return RoundUp<uint64_t>(activations.own_rows() * activations.C * SizeOf(activations.type), 64);
}

std::vector<TensorSpec> PaddedTensors(std::vector<TensorSpec> tensors) {
  for (TensorSpec& tensor : tensors) {
    tensor.shape = {static_cast<int64_t>(PaddedElements(tensor.elements()))};
  }
  return tensors;
}

DeviceState PlanDeviceState(const DeviceExtents& extents, std::byte* base) {
  DeviceState state;
  Cursor cursor(base);
  const DType type = extents.activations.type;
  const DeviceShardExtents shard =
      extents.shard.value_or(DeviceShardExtents{.weights = extents.parameters,
                                                .sums = extents.parameters,
                                                .moments = extents.parameters,
                                                .copies_bytes = extents.parameters * SizeOf(type)});
  cursor.Count(state.bytes.weights);
  cursor.Take(shard.weights, state.weights);
  cursor.Count(extents.shard.has_value() ? state.bytes.gradient_sums : state.bytes.gradients);
  cursor.Take(shard.sums, state.gradients);
  cursor.Count(state.bytes.optimizer_state);
  if (extents.optimizer_here) {
    cursor.Take(shard.moments, state.m);
    cursor.Take(shard.moments, state.v);
  }
  cursor.Count(state.bytes.rounded_weights);
  if (type != DType::kF32) cursor.TakeBytes(shard.copies_bytes, state.rounded);
  cursor.Count(state.bytes.scratch);
  cursor.TakeRecord(state.control);
  cursor.TakeRecord(state.adam);
  cursor.Take(1, state.examples);
  cursor.Take(1, state.loss_scale);
  cursor.Take(1, state.squares);
  cursor.Take(DeviceSquaresScratch(shard.moments), state.squares_scratch);
  state.bytes.total = cursor.bytes();
  return state;
}

DevicePassMemory PlanDevicePasses(const DeviceExtents& extents, std::byte* base) {
  DevicePassMemory passes;
  Cursor cursor(base);
  const ActivationRequest& r = extents.activations;
  const std::vector<ActivationLayout> layouts = LayoutsOf(extents);
  const ActivationLayout::Bytes bytes =
      std::max_element(layouts.begin(), layouts.end(), [](const auto& a, const auto& b) {
        return a.bytes().total() < b.bytes().total();
      })->bytes();
  passes.bytes.activations = extents.activation_stashes * (bytes.kept + bytes.shared);
  passes.bytes.logits = extents.activation_stashes * bytes.logits;
  passes.bytes.scratch = extents.activation_stashes * bytes.scratch;
  passes.sets.resize(extents.activation_stashes);
  cursor.Count(passes.bytes.scratch);
  const bool shares_heads = r.context_ranks > 1 && r.context_exchange == ContextExchange::kHeads;
  for (DeviceActivationStash& set : passes.sets) {
    std::byte* const memory = cursor.Skip(bytes.total());
    for (const ActivationLayout& layout : layouts) set.arrays.push_back(layout.Bind(memory));
    cursor.Take(r.N, set.batch.tokens);
    cursor.Take(r.N, set.batch.labels);
    cursor.Take(r.N, set.batch.positions);
    if (shares_heads) cursor.Take(r.context_ranks * r.N, set.batch.whole_positions);
    cursor.Take(TokenOrderSize(r.N), set.batch.token_order);
    cursor.Take(TokenOrderSize(r.N), set.batch.position_order);
    cursor.TakeRecord(set.batch.record);
  }
  cursor.TakeRecord(passes.sums);
  cursor.TakeRecord(passes.evaluation_sums);
  if (r.context_ranks > 1) cursor.TakeRecord(passes.sums_of_ranks);
  if (r.experts.E > 0) {
    passes.expert_blocks = r.first_layer + r.layers;
    for (const ActivationRequest& other : extents.other_activations) {
      passes.expert_blocks = std::max(passes.expert_blocks, other.first_layer + other.layers);
    }
    cursor.TakeRecord(passes.router_sums);
    cursor.Take(passes.expert_blocks * r.experts.loads_of_block(), passes.expert_loads);
  }
  if (extents.rotary > 0) cursor.Take(extents.rotary, passes.rotary);
  int64_t logit_rows = 1;
  for (const TransformerArrays& arrays : passes.sets[0].arrays) {
    logit_rows = std::max(logit_rows, arrays.head.logit_rows);
  }
  DeviceScratch& scratch = passes.scratch;
  scratch.ops_bytes = DeviceOpsScratch({.rows = static_cast<int64_t>(r.N),
                                        .width = static_cast<int64_t>(r.C),
                                        .heads = static_cast<int64_t>(r.H),
                                        .normed = static_cast<int64_t>(r.normed),
                                        .biased = static_cast<int64_t>(std::max({r.C, r.Q, r.U})),
                                        .logit_rows = logit_rows});
  cursor.TakeBytes(scratch.ops_bytes, scratch.ops);
  cursor.TakeBytes(kDeviceWorkspaceBytes, scratch.workspace);
  passes.bytes.total = cursor.bytes();
  return passes;
}

DeviceMemoryBytes PlanDeviceMemory(const DeviceExtents& extents) {
  const DeviceMemoryBytes passes = PlanDevicePasses(extents, nullptr).bytes;
  DeviceMemoryBytes bytes = PlanDeviceState(extents, nullptr).bytes;
  bytes.activations = passes.activations;
  bytes.logits = passes.logits;
  bytes.scratch += passes.scratch;
  bytes.total += passes.total;
  if (extents.shard.has_value()) {
    bytes.gathered_weights = extents.shard->gathered_bytes;
    bytes.gradients = extents.shard->gradient_bytes;
    bytes.total += bytes.gathered_weights + bytes.gradients;
  }
  bytes.messages = extents.messages * StageMessageBytes(extents.activations);
  bytes.total += bytes.messages;
  return bytes;
}

}  // namespace muster
