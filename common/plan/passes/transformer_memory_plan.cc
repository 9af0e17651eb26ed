#include "common/plan/passes/transformer_memory_plan.h"

#include <algorithm>

#include "common/base/round_up.h"
#include "common/kernels/gemm/wide_block.h"

namespace muster {
namespace {

constexpr uint64_t kMostTokens = uint64_t{1} << 30;

// What oneDNN packs of one f32 product is at most this; the next one takes the same place.
constexpr uint64_t kMostPacked = uint64_t{6} << 20;

// The most floats that one product of 16-bit numbers has in f32: its operands' blocks, and the
// result's where that becomes 16-bit.
struct Wide {
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t sums = 0;

  void Add(uint64_t m, uint64_t n, uint64_t k, bool rounds) {
    const WideBlock block =
        WideBlockOf(static_cast<int64_t>(m), static_cast<int64_t>(n), static_cast<int64_t>(k));
    a = std::max(a, static_cast<uint64_t>(block.rows * block.depth));
    b = std::max(b, static_cast<uint64_t>(block.cols * block.depth));
    if (!rounds) return;
    const bool whole = k > WideBlock::kLargestDepth;
    sums = std::max(sums, whole ? m * n : static_cast<uint64_t>(block.rows * block.cols));
  }
};

}  // namespace

uint64_t TokensOf(const TransformerSize& size, uint64_t sequences) {
  return std::min(sequences * size.T, kMostTokens);
}

uint64_t PlanPackedBytes(const ModelSize& model, uint64_t rows) {
  uint64_t largest = 0;
  for (const ProductSize& product : model.products) {
    largest = std::max(largest, std::min(rows, product.out_of_each()) * product.in * sizeof(float));
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

Recompute ResolveRecompute(const v1::ComputeSpec& compute) {
  switch (compute.recompute()) {
    case v1::ComputeSpec::SELECTIVE:
      return Recompute::kSelective;
    case v1::ComputeSpec::FULL:
      return Recompute::kFull;
    default:
      return Recompute::kNone;
  }
}

ContextExchange ContextExchangeOf(const v1::JobSpec& spec) {
  switch (spec.parallelism().context_exchange()) {
    case v1::ParallelismSpec::GATHER:
      return ContextExchange::kGather;
    case v1::ParallelismSpec::HEADS:
      return ContextExchange::kHeads;
    default:
      return ContextExchange::kRing;
  }
}

namespace {

uint64_t ChoiceCountsOf(const TransformerSize& size, uint64_t sequences) {
  const uint64_t parts = size.experts.Parts(sequences, size.context_ranks,
                                            size.divides_tokens ? size.tensor_ranks : 1);
  return parts == 0 ? 0 : parts + size.counting_ranks;
}

}  // namespace

ActivationRequest ActivationRequestOf(const TransformerSize& size, uint64_t sequences,
                                      const v1::ComputeSpec& compute) {
  return {.layers = size.layers,
          .N = TokensOf(size, sequences),
          .C = size.C,
          .A = size.A,
          .H = size.heads,
          .Q = size.Q,
          .U = size.U,
          .F = size.F,
          .V = size.V,
          .P = size.P,
          .normed = size.normed,
          .experts = size.experts,
          .adapter_rank = size.adapter_rank,
          .count_runs = size.experts.Runs(sequences),
          .choice_counts = ChoiceCountsOf(size, sequences),
          .type = ActivationType(compute),
          .recompute = ResolveRecompute(compute),
          .tensor_ranks = size.tensor_ranks,
          .sequence_parallel = size.divides_tokens,
          .context_ranks = size.context_ranks,
          .context_exchange = size.context_exchange,
          .expert_ranks = size.expert_ranks};
}

uint64_t PlanTransformerScratch(const ModelSize& model, uint64_t sequences,
                                const v1::ComputeSpec& compute, bool multiply_bf16,
                                uint64_t threads) {
  const TransformerSize& size = *model.transformer;
  const uint64_t N = TokensOf(size, sequences);
  // Queries, keys, values and two gradients of one head
  // (common/kernels/transformer/attention_tiles.h).
  const uint64_t head = RoundUp(size.head_dim(), 16);
  const bool attends =
      std::any_of(model.chunks.begin(), model.chunks.end(), [&size](const UnitRange& units) {
        return units.end > 1 && units.first <= static_cast<int64_t>(size.layers);
      });
  // Context ranks attend by chunks, two of which they have, unless they share out heads.
  const bool by_chunks = size.context_ranks > 1 && size.context_exchange != ContextExchange::kHeads;
  const uint64_t keys = by_chunks ? size.T / 2 : size.context();
  const uint64_t floats = attends ? threads * head * 5 * (RoundUp(keys, 64) + 64) : 0;
  if (multiply_bf16 && compute.type() == v1::ComputeSpec::BF16) return floats * sizeof(float);
  const uint64_t packed = PlanPackedBytes(model, N);
  if (!ComputesInHalf(compute)) return floats * sizeof(float) + packed;
  Wide wide;
  for (const ProductSize& product : model.products) {
    const bool is_head = model.tensors[product.tensor].unit == size.layers + 1;
    const uint64_t out = product.out_of_each();
    wide.Add(N, out, product.in, !is_head);
    wide.Add(N, product.in, out, true);
    wide.Add(out, product.in, N, false);
  }
  // Each grows with the first step's products; half of what they leave in the heap finds other use.
  return (floats + 3 * (wide.a + wide.b + wide.sums) / 2) * sizeof(float) + packed;
}

}  // namespace muster
