#include "common/plan/device_memory_layout.h"

#include <algorithm>

#include "common/kernels/device/device_sizes.h"

namespace muster {
namespace {

using Kept = DeviceExtents::Kept;

constexpr uint64_t kLogitsBytes = uint64_t{1} << 30;
// Whole tiles of a product.
constexpr uint64_t kHeadRowsStep = 128;

// Adds arrays to a plan and gives their addresses; bytes go to whatever counter is set.
class Cursor {
 public:
  explicit Cursor(std::byte* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  void Count(size_t& counter) { counter_ = &counter; }

  template <typename T>
  void Take(uint64_t elements, T*& array) {
    TakeBytes(elements * sizeof(T), array);
  }
  void Take(DType type, uint64_t elements, void*& array) {
    TakeBytes(elements * SizeOf(type), array);
  }
  template <typename T>
  void TakeRecord(T*& record) {
    TakeBytes(kDeviceRecordBytes, record);
  }

  size_t bytes() const { return plan_.bytes(); }

 private:
  template <typename T>
  void TakeBytes(size_t bytes, T*& array) {
    const size_t before = plan_.used();
    array = reinterpret_cast<T*>(base_ + plan_.Add(bytes));
    *counter_ += plan_.used() - before;
  }

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
  if (extents.type != DType::kF32) cursor.Take(extents.type, elements, state.rounded);
  cursor.Count(plan.bytes.scratch);
  cursor.TakeRecord(state.sums);
  cursor.TakeRecord(state.evaluation_sums);
  cursor.TakeRecord(state.control);
  cursor.TakeRecord(state.adam);
  cursor.Take(1, state.loss_scale);
  cursor.Take(1, state.squares);
  cursor.Take(DeviceSquaresScratch(elements), state.squares_scratch);
}

void TakeNorm(const DeviceExtents& extents, bool own_sum, bool own_statistics, Cursor& cursor,
              DeviceNormArrays& norm) {
  if (own_sum) cursor.Take(extents.N * extents.C, norm.sum);
  if (own_statistics) {
    cursor.Take(extents.N, norm.mean);
    cursor.Take(extents.N, norm.rstd);
  }
}

// What a block has not for itself is the first one's.
void TakeBlock(const DeviceExtents& extents, bool first, Cursor& cursor, DeviceBlockArrays& block) {
  const uint64_t N = extents.N, C = extents.C;
  const DType type = extents.type;
  const bool products = first || extents.kept != Kept::kInput;
  const bool all = first || extents.kept == Kept::kAll;
  TakeNorm(extents, true, all, cursor, block.norm1);
  if (all) cursor.Take(type, N * C, block.norm1_out);
  if (products) cursor.Take(type, N * extents.Q, block.qkv);
  if (all) cursor.Take(type, N * C, block.attention);
  if (all) cursor.Take(N * extents.H, block.logsumexp);
  TakeNorm(extents, products, all, cursor, block.norm2);
  if (all) cursor.Take(type, N * C, block.norm2_out);
  if (products) cursor.Take(type, N * extents.U, block.up);
  if (all) cursor.Take(type, N * extents.F, block.activated);
}

// Of the gradients of all biases.
int64_t RowSumsScratch(const DeviceExtents& extents) {
  return DeviceRowSumsScratch(extents.N, std::max({extents.C, extents.Q, extents.U}));
}

void TakeActivations(const DeviceExtents& extents, Cursor& cursor, DeviceMemoryPlan& plan) {
  const uint64_t N = extents.N, C = extents.C;
  const DType type = extents.type;
  DeviceActivations& a = plan.activations;
  cursor.Count(plan.bytes.scratch);
  cursor.Take(N, a.tokens);
  cursor.Take(N, a.labels);
  cursor.Take(TokenOrderSize(N), a.token_order);
  cursor.TakeRecord(a.clock);
  if (extents.rotary > 0) cursor.Take(extents.rotary, a.rotary);

  cursor.Count(plan.bytes.activations);
  for (uint64_t l = 0; l < extents.layers; ++l) {
    a.blocks.push_back(l == 0 ? DeviceBlockArrays() : a.blocks[0]);
    TakeBlock(extents, l == 0, cursor, a.blocks.back());
  }
  TakeNorm(extents, true, true, cursor, a.head_norm);
  cursor.Take(type, N * C, a.head_norm_out);

  cursor.Count(plan.bytes.logits);
  const uint64_t R = HeadRows(extents);
  cursor.Take(extents.logits, R * LogitsStride(extents.V), a.logits);
  cursor.Take(R, a.losses);
  cursor.Take(R, a.correct);

  cursor.Count(plan.bytes.scratch);
  cursor.Take(type, N * C, a.branch);
  cursor.Take(type, N * std::max(extents.F, C), a.inner);
  cursor.Take(type, N * std::max(extents.Q, extents.U), a.wide);
  cursor.Take(N * C, a.stream_gradient);
  cursor.Take(DeviceAttentionBackwardScratch(N, extents.H), a.attention_scratch);
  cursor.Take(DeviceNormBackwardScratch(N, C), a.norm_scratch);
  cursor.Take(RowSumsScratch(extents), a.row_sums_scratch);
  cursor.Take(DType::kUint8, extents.workspace_bytes, a.workspace);
}

}  // namespace

std::vector<TensorSpec> PaddedTensors(std::vector<TensorSpec> tensors) {
  for (TensorSpec& tensor : tensors) {
    tensor.shape = {static_cast<int64_t>(PaddedElements(tensor.elements()))};
  }
  return tensors;
}

uint64_t HeadRows(const DeviceExtents& extents) {
  if (extents.head_rows > 0) return std::min(extents.N, extents.head_rows);
  const uint64_t row_bytes = LogitsStride(extents.V) * SizeOf(extents.logits);
  const uint64_t rows = kLogitsBytes / row_bytes / kHeadRowsStep * kHeadRowsStep;
  return std::min(extents.N, std::max(rows, kHeadRowsStep));
}

DeviceMemoryPlan PlanDeviceMemory(const DeviceExtents& extents, std::byte* base) {
  DeviceMemoryPlan plan;
  Cursor cursor(base);
  TakeState(extents, cursor, plan);
  TakeActivations(extents, cursor, plan);
  plan.bytes.total = cursor.bytes();
  return plan;
}

}  // namespace muster
