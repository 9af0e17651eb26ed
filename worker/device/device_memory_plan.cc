#include "worker/device/device_memory_plan.h"

#include <algorithm>

#include "common/device/arena_plan.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_attention.h"
#include "common/kernels/device/device_embedding.h"
#include "common/kernels/device/device_norm.h"

namespace muster {
namespace {

constexpr int64_t kLogitsBytes = int64_t{1} << 30;
// Whole tiles of a product.
constexpr int64_t kHeadRowsStep = 128;

// Adds arrays to a plan and gives their addresses; bytes go to whatever counter is set.
class Cursor {
 public:
  explicit Cursor(std::byte* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  void Count(size_t& counter) { counter_ = &counter; }

  template <typename T>
  void Take(int64_t elements, T*& array) {
    TakeBytes(static_cast<size_t>(elements) * sizeof(T), array);
  }
  void Take(DType type, int64_t elements, void*& array) {
    TakeBytes(static_cast<size_t>(elements) * SizeOf(type), array);
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

void TakeState(const DeviceParameters& parameters, const DeviceComputeOptions& options,
               Cursor& cursor, DeviceMemoryPlan& plan) {
  const DType type = options.type;
  const int64_t elements = static_cast<int64_t>(parameters.elements());
  DeviceState& state = plan.state;
  cursor.Count(plan.bytes.weights);
  cursor.Take(elements, state.weights);
  cursor.Count(plan.bytes.gradients);
  cursor.Take(elements, state.gradients);
  cursor.Count(plan.bytes.optimizer_slots);
  if (options.optimizer == OptimizerPlace::kDevice) {
    cursor.Take(elements, state.m);
    cursor.Take(elements, state.v);
  }
  cursor.Count(plan.bytes.rounded_weights);
  if (type != DType::kF32) cursor.Take(type, elements, state.rounded);
  cursor.Count(plan.bytes.scratch);
  cursor.Take(1, state.sums);
  cursor.Take(1, state.evaluation_sums);
  cursor.Take(1, state.control);
  cursor.Take(2, state.adam);
  cursor.Take(1, state.loss_scale);
  cursor.Take(1, state.squares);
  cursor.Take(DeviceSquaresScratch(elements), state.squares_scratch);
}

// Which arrays each block has for itself; the others are block 0's.
struct Kept {
  bool products = false;
  bool all = false;
};

void TakeNorm(int64_t N, int64_t C, bool own_sum, bool own_statistics, Cursor& cursor,
              DeviceNormArrays& norm) {
  if (own_sum) cursor.Take(N * C, norm.sum);
  if (own_statistics) {
    cursor.Take(N, norm.mean);
    cursor.Take(N, norm.rstd);
  }
}

void TakeBlock(const TransformerShape& shape, DType type, int64_t N, Kept kept, bool first,
               Cursor& cursor, DeviceBlockArrays& block) {
  const int64_t C = shape.width;
  const bool products = kept.products || first, all = kept.all || first;
  TakeNorm(N, C, true, all, cursor, block.norm1);
  if (all) cursor.Take(type, N * C, block.norm1_out);
  if (products) cursor.Take(type, N * shape.qkv_width(), block.qkv);
  if (all) cursor.Take(type, N * C, block.attention);
  if (all) cursor.Take(N * shape.heads, block.logsumexp);
  TakeNorm(N, C, products, all, cursor, block.norm2);
  if (all) cursor.Take(type, N * C, block.norm2_out);
  if (products) cursor.Take(type, N * shape.up_width(), block.up);
  if (all) cursor.Take(type, N * shape.feed_forward, block.activated);
}

NormShape NormOf(const TransformerShape& shape, int64_t N) {
  return {.kind = shape.norm == TransformerShape::Norm::kRmsNorm ? NormKind::kRmsNorm
                                                                 : NormKind::kLayerNorm,
          .rows = N,
          .width = shape.width,
          .epsilon = shape.norm_epsilon};
}

AttentionShape AttentionOf(const TransformerShape& shape, const TokenRows& rows) {
  AttentionShape attention;
  attention.B = rows.sequences;
  attention.T = rows.length;
  attention.H = shape.heads;
  attention.KV = shape.kv_heads;
  attention.D = shape.head_dim();
  return attention;
}

int64_t RowSumsScratch(const TransformerShape& shape, int64_t N) {
  return std::max({DeviceRowSumsScratch(N, shape.width), DeviceRowSumsScratch(N, shape.qkv_width()),
                   DeviceRowSumsScratch(N, shape.up_width())});
}

void TakeActivations(const TransformerShape& shape, const DeviceComputeOptions& options,
                     Cursor& cursor, DeviceMemoryPlan& plan) {
  const int64_t N = options.rows().count();
  const int64_t C = shape.width;
  const DType type = options.type;
  DeviceActivations& a = plan.activations;
  cursor.Count(plan.bytes.scratch);
  // In the order of DeviceBatchOffsetsOf.
  cursor.Take(N, a.tokens);
  cursor.Take(N, a.labels);
  cursor.Take(TokenOrderSize(N), a.token_order);
  cursor.Take(1, a.clock);
  if (shape.positions == TransformerShape::Positions::kRotary) {
    cursor.Take(shape.context * shape.head_dim(), a.rotary);
  }

  cursor.Count(plan.bytes.activations);
  const Kept kept = {.products = options.recompute != Recompute::kFull,
                     .all = options.recompute == Recompute::kNone};
  for (int64_t l = 0; l < shape.layers; ++l) {
    a.blocks.push_back(l == 0 ? DeviceBlockArrays() : a.blocks[0]);
    TakeBlock(shape, type, N, kept, l == 0, cursor, a.blocks.back());
  }
  TakeNorm(N, C, true, true, cursor, a.head_norm);
  cursor.Take(type, N * C, a.head_norm_out);

  cursor.Count(plan.bytes.logits);
  const int64_t R = HeadRows(shape, options);
  cursor.Take(options.logits, R * shape.vocabulary_rows(), a.logits);
  cursor.Take(R, a.losses);
  cursor.Take(R, a.correct);

  cursor.Count(plan.bytes.scratch);
  cursor.Take(type, N * C, a.branch);
  cursor.Take(type, N * std::max(shape.feed_forward, C), a.inner);
  cursor.Take(type, N * std::max(shape.qkv_width(), shape.up_width()), a.wide);
  cursor.Take(N * C, a.stream_gradient);
  cursor.Take(DeviceAttentionBackwardScratch(AttentionOf(shape, options.rows())),
              a.attention_scratch);
  cursor.Take(DeviceNormBackwardScratch(NormOf(shape, N)), a.norm_scratch);
  cursor.Take(RowSumsScratch(shape, N), a.row_sums_scratch);
  cursor.Take(DType::kUint8, static_cast<int64_t>(options.workspace_bytes), a.workspace);
}

}  // namespace

int64_t HeadRows(const TransformerShape& shape, const DeviceComputeOptions& options) {
  const int64_t N = options.rows().count();
  if (options.head_rows > 0) return std::min(N, options.head_rows);
  const int64_t row_bytes = shape.vocabulary_rows() * static_cast<int64_t>(SizeOf(options.logits));
  const int64_t rows = kLogitsBytes / row_bytes / kHeadRowsStep * kHeadRowsStep;
  return std::min(N, std::max(rows, kHeadRowsStep));
}

DeviceBatchOffsets DeviceBatchOffsetsOf(int64_t tokens) {
  ArenaPlan plan;
  DeviceBatchOffsets offsets;
  offsets.tokens = plan.Add(tokens * sizeof(int32_t));
  offsets.labels = plan.Add(tokens * sizeof(int32_t));
  offsets.token_order = plan.Add(TokenOrderSize(tokens) * sizeof(int32_t));
  offsets.clock = plan.Add(sizeof(DropoutClock));
  return offsets;
}

size_t DeviceBatchBytes(int64_t tokens) {
  return DeviceBatchOffsetsOf(tokens).clock + sizeof(DropoutClock);
}

DeviceMemoryPlan PlanDeviceMemory(const TransformerShape& shape, const DeviceParameters& parameters,
                                  const DeviceComputeOptions& options, std::byte* base) {
  DeviceMemoryPlan plan;
  Cursor cursor(base);
  TakeState(parameters, options, cursor, plan);
  TakeActivations(shape, options, cursor, plan);
  plan.bytes.total = cursor.bytes();
  return plan;
}

}  // namespace muster
