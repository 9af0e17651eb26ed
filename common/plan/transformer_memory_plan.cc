#include "common/plan/transformer_memory_plan.h"

#include <algorithm>

#include "common/base/round_up.h"

namespace muster {
namespace {

constexpr uint64_t kFloat = sizeof(float);
// Arrays of an arena begin on cache lines.
constexpr uint64_t kLine = 64;
// Logits that the head holds at a time (worker/nn/transformer/language_head.h).
constexpr uint64_t kMostLogits = (uint64_t{256} << 20) / kFloat;
// Of a product of 16-bit numbers, what is f32 at a time (common/kernels/gemm/gemm.cc).
constexpr uint64_t kWideA = uint64_t{1} << 20;
constexpr uint64_t kWideB = uint64_t{3} << 20;
constexpr uint64_t kSmallestBlock = 64;
constexpr uint64_t kLargestDepth = 4096;

constexpr uint64_t kMostTokens = uint64_t{1} << 30;

// Adds up arrays that every block has, and those that are there once.
class Layout {
 public:
  explicit Layout(uint64_t blocks) : blocks_(blocks) {}

  void OfBlock(bool own, uint64_t bytes) { (own ? kept_ : shared_) += Padded(bytes); }
  void Once(uint64_t bytes) { shared_ += Padded(bytes); }

  uint64_t kept() const { return blocks_ * kept_; }
  uint64_t shared() const { return shared_; }

  static uint64_t Padded(uint64_t bytes) { return RoundUp(bytes, kLine); }

 private:
  const uint64_t blocks_;
  uint64_t kept_ = 0;
  uint64_t shared_ = 0;
};

// What oneDNN packs of one f32 product is at most this; the next one takes the same place.
constexpr uint64_t kMostPacked = uint64_t{6} << 20;

// The most floats that one product of 16-bit numbers has in f32: its operands' blocks, and the
// result's where that becomes 16-bit.
struct Wide {
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t sums = 0;

  void Add(uint64_t m, uint64_t n, uint64_t k, bool rounds) {
    const uint64_t depth = std::min(k, kLargestDepth);
    const uint64_t rows = std::min(m, std::max(kSmallestBlock, kWideA / depth));
    const uint64_t cols = std::min(n, std::max(kSmallestBlock, kWideB / depth));
    a = std::max(a, rows * depth);
    b = std::max(b, cols * depth);
    if (rounds) sums = std::max(sums, k > kLargestDepth ? m * n : rows * cols);
  }
};

}  // namespace

uint64_t TokensOf(const TransformerSize& size, uint64_t sequences) {
  return std::min(sequences * size.T, kMostTokens);
}

uint64_t PlanPackedBytes(const ModelSize& model, uint64_t rows) {
  uint64_t largest = 0;
  for (const ProductSize& product : model.products) {
    largest = std::max(largest, std::min(rows, product.out) * product.in * kFloat);
  }
  return std::min(largest, kMostPacked);
}

DType ActivationType(const v1::ComputeSpec& compute) {
  switch (compute.type()) {
    case v1::ComputeSpec::BF16:
      return DType::kBf16;
    case v1::ComputeSpec::F16:
      return DType::kF16;
    default:
      return DType::kF32;
  }
}

bool ComputesInHalf(const v1::ComputeSpec& compute) {
  return ActivationType(compute) != DType::kF32;
}

TransformerActivations PlanActivations(const TransformerSize& size, uint64_t sequences,
                                       const v1::ComputeSpec& compute, Pass pass) {
  const uint64_t N = TokensOf(size, sequences);
  const uint64_t C = size.C;
  const uint64_t element = ComputesInHalf(compute) ? 2 : kFloat;
  const bool training = pass == Pass::kTraining;
  const bool keeps_products = training && compute.recompute() != v1::ComputeSpec::FULL;
  const bool keeps_all = keeps_products && compute.recompute() != v1::ComputeSpec::SELECTIVE;
  Layout layout(size.layers);
  // The residual stream before attention and before the feed-forward part, in f32.
  layout.OfBlock(training, N * C * kFloat);
  layout.OfBlock(keeps_products, N * C * kFloat);
  // Statistics of two norms and of attention.
  for (int i = 0; i < 4; ++i) layout.OfBlock(keeps_all, N * kFloat);
  layout.OfBlock(keeps_all, size.heads * N * kFloat);
  // Outputs of the norms and of attention, and what the activation makes.
  for (int i = 0; i < 3; ++i) layout.OfBlock(keeps_all, N * C * element);
  layout.OfBlock(keeps_all, N * size.F * element);
  layout.OfBlock(keeps_products, N * size.Q * element);
  layout.OfBlock(keeps_products, N * size.U * element);
  // The head's norm, and branches.
  layout.Once(N * C * kFloat);
  layout.Once(N * kFloat);
  layout.Once(N * kFloat);
  layout.Once(N * C * element);
  layout.Once(N * C * element);
  if (training) {
    layout.Once(N * std::max(size.F, C) * element);
    layout.Once(N * std::max(size.Q, size.U) * element);
    layout.Once(N * C * kFloat);
  }
  TransformerActivations activations;
  activations.kept = layout.kept();
  activations.shared = layout.shared();
  const uint64_t logit_rows = std::min(N, std::max<uint64_t>(1, kMostLogits / size.V));
  activations.logits = Layout::Padded(logit_rows * size.V * kFloat);
  return activations;
}

uint64_t PlanTransformerScratch(const ModelSize& model, uint64_t sequences,
                                const v1::ComputeSpec& compute, bool multiply_bf16,
                                uint64_t threads) {
  const TransformerSize& size = *model.transformer;
  const uint64_t N = TokensOf(size, sequences);
  // Queries, keys, values and two gradients of one head
  // (common/kernels/transformer/attention_tiles.h).
  const uint64_t head = RoundUp(size.C / size.heads, 16);
  const uint64_t floats = threads * head * 5 * (RoundUp(size.T, 64) + 64);
  if (multiply_bf16 && compute.type() == v1::ComputeSpec::BF16) return floats * kFloat;
  const uint64_t packed = PlanPackedBytes(model, N);
  if (!ComputesInHalf(compute)) return floats * kFloat + packed;
  Wide wide;
  for (const ProductSize& product : model.products) {
    const bool is_head = product.out == size.V && &product == &model.products.back();
    wide.Add(N, product.out, product.in, !is_head);
    wide.Add(N, product.in, product.out, true);
    wide.Add(product.out, product.in, N, false);
  }
  // Each grows with the first step's products; half of what they leave in the heap finds other use.
  return (floats + 3 * (wide.a + wide.b + wide.sums) / 2) * kFloat + packed;
}

}  // namespace muster
