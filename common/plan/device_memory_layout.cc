#include "common/plan/device_memory_layout.h"

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
    const size_t before = plan_.used();
    array = reinterpret_cast<T*>(Skip(bytes));
    *counter_ += plan_.used() - before;
  }
  // Takes bytes that are counted elsewhere.
  std::byte* Skip(size_t bytes) { return reinterpret_cast<std::byte*>(base_ + plan_.Add(bytes)); }

  size_t bytes() const { return plan_.bytes(); }

 private:
  const uintptr_t base_;
  ArenaPlan plan_;
  size_t* counter_ = nullptr;
};

void TakeState(const DeviceExtents& extents, Cursor& cursor, DeviceMemoryPlan& plan) {
  const uint64_t elements = extents.parameters;
  DeviceState& state = plan.state;
  cursor.Count(plan.bytes.weights);
  cursor.Take(elements, state.weights);
  cursor.Count(plan.bytes.gradients);
  cursor.Take(elements, state.gradients);
  cursor.Count(plan.bytes.optimizer_state);
  if (extents.optimizer_here) {
    cursor.Take(elements, state.m);
    cursor.Take(elements, state.v);
  }
  cursor.Count(plan.bytes.rounded_weights);
  const DType type = extents.activations.type;
  if (type != DType::kF32) cursor.TakeBytes(elements * SizeOf(type), state.rounded);
  cursor.Count(plan.bytes.scratch);
  cursor.TakeRecord(state.sums);
  cursor.TakeRecord(state.evaluation_sums);
  cursor.TakeRecord(state.control);
  cursor.TakeRecord(state.adam);
  cursor.Take(1, state.loss_scale);
  cursor.Take(1, state.squares);
  cursor.Take(DeviceSquaresScratch(elements), state.squares_scratch);
}

void TakeActivations(const DeviceExtents& extents, Cursor& cursor, DeviceMemoryPlan& plan) {
  const ActivationLayout layout(extents.activations);
  const ActivationLayout::Bytes& bytes = layout.bytes();
  plan.bytes.activations += bytes.kept + bytes.shared;
  plan.bytes.logits += bytes.logits;
  plan.bytes.scratch += bytes.scratch;
  plan.arrays = layout.Bind(cursor.Skip(bytes.total()));
}

// What passes need beside them.
void TakePassArrays(const DeviceExtents& extents, Cursor& cursor, DeviceMemoryPlan& plan) {
  const ActivationRequest& r = extents.activations;
  cursor.Count(plan.bytes.scratch);
  cursor.Take(r.N, plan.batch.tokens);
  cursor.Take(r.N, plan.batch.labels);
  cursor.Take(TokenOrderSize(r.N), plan.batch.token_order);
  cursor.TakeRecord(plan.batch.clock);
  if (extents.rotary > 0) cursor.Take(extents.rotary, plan.rotary);
  DeviceScratch& scratch = plan.scratch;
  scratch.ops_bytes = DeviceOpsScratch({.rows = static_cast<int64_t>(r.N),
                                        .width = static_cast<int64_t>(r.C),
                                        .heads = static_cast<int64_t>(r.H),
                                        .biased = static_cast<int64_t>(std::max({r.C, r.Q, r.U})),
                                        .logit_rows = plan.arrays.head.logit_rows});
  cursor.TakeBytes(scratch.ops_bytes, scratch.ops);
  cursor.TakeBytes(extents.workspace_bytes, scratch.workspace);
}

}  // namespace

std::vector<TensorSpec> PaddedTensors(std::vector<TensorSpec> tensors) {
  for (TensorSpec& tensor : tensors) {
    tensor.shape = {static_cast<int64_t>(PaddedElements(tensor.elements()))};
  }
  return tensors;
}

DeviceMemoryPlan PlanDeviceMemory(const DeviceExtents& extents, std::byte* base) {
  DeviceMemoryPlan plan;
  Cursor cursor(base);
  TakeState(extents, cursor, plan);
  TakeActivations(extents, cursor, plan);
  TakePassArrays(extents, cursor, plan);
  plan.bytes.total = cursor.bytes();
  return plan;
}

}  // namespace muster
