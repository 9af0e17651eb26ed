#include "common/compute/activation_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr Recompute kRecomputes[] = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};

// Widths that are no multiples of cache lines.
ActivationRequest Odd(uint64_t N) {
  return {.layers = 3, .N = N, .C = 36, .A = 36, .H = 3, .Q = 60, .U = 46, .F = 23, .V = 37};
}

ActivationRequest Gpt2Small() {
  return {.layers = 12,
          .N = 16 * 1024,
          .C = 768,
          .A = 768,
          .H = 12,
          .Q = 3 * 768,
          .U = 3072,
          .F = 3072,
          .V = 50304,
          .type = DType::kBf16};
}

// Together the stages of a pipeline keep what one process keeps, and the last has the logits.
TEST(ActivationLayoutTest, AStageHasItsBlocksAlone) {
  for (const bool split_backward : {false, true}) {
    ActivationRequest whole = Gpt2Small();
    whole.split_backward = split_backward;
    const ActivationLayout::Bytes all = ActivationLayout(whole).bytes();
    uint64_t kept = 0;
    for (const uint64_t first : {0, 5, 12}) {
      ActivationRequest stage = whole;
      stage.first_layer = first;
      stage.layers = first == 12 ? 0 : first == 5 ? 7 : 5;
      stage.has_head = first == 12;
      const ActivationLayout::Bytes bytes = ActivationLayout(stage).bytes();
      kept += bytes.kept;
      EXPECT_EQ(bytes.logits, stage.has_head ? all.logits : 0);
      EXPECT_EQ(bytes.scratch, all.scratch);
      const TransformerArrays arrays = ActivationLayout(stage).Bind(nullptr);
      ASSERT_EQ(arrays.blocks.size(), first + stage.layers);
      ASSERT_EQ(arrays.product_gradients.size(), first + stage.layers);
      if (first == 5) {
        EXPECT_EQ(arrays.blocks[4].qkv, nullptr);
        EXPECT_NE(arrays.blocks[5].qkv, arrays.blocks[6].qkv);
        EXPECT_EQ(arrays.product_gradients[4].down, arrays.scratch.branch);
      }
    }
    EXPECT_EQ(kept, all.kept);
  }
}

// Backward needs what queries and keys were before they were normalised.
TEST(ActivationLayoutTest, QueriesAndKeysAreKeptFromBeforeTheirNorms) {
  for (const Recompute recompute : kRecomputes) {
    ActivationRequest request = Odd(7);
    request.recompute = recompute;
    const ActivationLayout::Bytes without = ActivationLayout(request).bytes();
    EXPECT_EQ(ActivationLayout(request).Bind(nullptr).blocks[1].unnormed, nullptr);
    request.P = 48;
    const ActivationLayout::Bytes with = ActivationLayout(request).bytes();
    const uint64_t each = RoundUp(7 * 48 * sizeof(float), kOnHost.alignment);
    const bool keeps = recompute != Recompute::kFull;
    EXPECT_EQ(with.kept - without.kept, keeps ? 3 * each : 0);
    EXPECT_EQ(with.shared - without.shared, keeps ? 0 : each);
    const TransformerArrays arrays = ActivationLayout(request).Bind(nullptr);
    EXPECT_EQ(arrays.blocks[0].unnormed != arrays.blocks[1].unnormed, keeps);
    request.pass = Pass::kEvaluation;
    EXPECT_EQ(ActivationLayout(request).Bind(nullptr).blocks[0].unnormed, nullptr);
  }
}

std::vector<ActivationRequest> Requests() {
  std::vector<ActivationRequest> requests;
  for (const ActivationPlacement& placement : {kOnHost, kOnDevice}) {
    for (const DType type : {DType::kF32, DType::kBf16}) {
      for (const Recompute recompute : kRecomputes) {
        for (const Pass pass : {Pass::kTraining, Pass::kEvaluation}) {
          for (const uint64_t N : {1, 7, 300}) {
            ActivationRequest request = Odd(N);
            request.placement = placement;
            request.type = type;
            request.recompute = recompute;
            request.pass = pass;
            requests.push_back(request);
            request.split_backward = true;
            requests.push_back(request);
          }
        }
      }
    }
  }
  return requests;
}

struct Array {
  std::string name;
  const void* begin = nullptr;
  uint64_t bytes = 0;
};

// The shapes are those of transformer_activations.h.
std::vector<Array> ArraysOf(const ActivationRequest& r, const BlockActivations& block) {
  const uint64_t t = SizeOf(r.type), f = sizeof(float), N = r.N;
  return {{"norm1.sum", block.norm1.sum, N * r.C * f},
          {"norm1.mean", block.norm1.mean, N * f},
          {"norm1.rstd", block.norm1.rstd, N * f},
          {"norm1_out", block.norm1_out, N * r.C * t},
          {"qkv", block.qkv, N * r.Q * t},
          {"attention", block.attention, N * r.C * t},
          {"logsumexp", block.logsumexp, N * r.H * f},
          {"norm2.sum", block.norm2.sum, N * r.C * f},
          {"norm2.mean", block.norm2.mean, N * f},
          {"norm2.rstd", block.norm2.rstd, N * f},
          {"norm2_out", block.norm2_out, N * r.C * t},
          {"up", block.up, N * r.U * t},
          {"activated", block.activated, N * r.F * t}};
}

std::vector<Array> ArraysOf(const ActivationRequest& r, const TransformerArrays& arrays) {
  const uint64_t t = SizeOf(r.type), f = sizeof(float), N = r.N;
  const uint64_t stride = r.placement.LogitsStride(r.V);
  const LanguageHeadActivations& head = arrays.head;
  const BlockScratch& scratch = arrays.scratch;
  std::vector<Array> all = {{"head.norm.sum", head.norm.sum, N * r.C * f},
                            {"head.norm.mean", head.norm.mean, N * f},
                            {"head.norm.rstd", head.norm.rstd, N * f},
                            {"head.norm_out", head.norm_out, N * r.C * t},
                            {"logits", head.logits, head.logit_rows * stride * sizeof(float)},
                            {"branch", scratch.branch, N * r.C * t}};
  if (r.pass == Pass::kTraining) {
    all.push_back({"inner", scratch.inner, N * std::max(r.F, r.C) * t});
    all.push_back({"stream_gradient", arrays.stream_gradient, N * r.C * f});
    if (!r.split_backward) {
      all.push_back({"qkv gradient", arrays.product_gradients[0].qkv, N * std::max(r.Q, r.U) * t});
    }
  }
  for (size_t l = 0; l < arrays.product_gradients.size() && r.split_backward; ++l) {
    const BlockProductGradients& gradients = arrays.product_gradients[l];
    all.push_back({absl::StrCat("block", l, ".qkv gradient"), gradients.qkv, N * r.Q * t});
    all.push_back({absl::StrCat("block", l, ".proj gradient"), gradients.proj, N * r.C * t});
    all.push_back({absl::StrCat("block", l, ".up gradient"), gradients.up, N * r.U * t});
    all.push_back({absl::StrCat("block", l, ".down gradient"), gradients.down, N * r.C * t});
  }
  for (size_t l = 0; l < arrays.blocks.size(); ++l) {
    for (Array& array : ArraysOf(r, arrays.blocks[l])) {
      array.name = absl::StrCat("block", l, ".", array.name);
      all.push_back(std::move(array));
    }
  }
  return all;
}

TransformerArrays Bind(const ActivationRequest& request) {
  return ActivationLayout(request).Bind(reinterpret_cast<std::byte*>(uintptr_t{1} << 40));
}

uint64_t Total(const ActivationRequest& request) {
  return ActivationLayout(request).bytes().total();
}

// The block's arrays that no other block has.
std::set<std::string> OwnArrays(const ActivationRequest& request) {
  const TransformerArrays arrays = Bind(request);
  const std::vector<Array> first = ArraysOf(request, arrays.blocks[0]);
  const std::vector<Array> last = ArraysOf(request, arrays.blocks[2]);
  std::set<std::string> own;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].begin != last[i].begin) own.insert(first[i].name);
  }
  return own;
}

// Blocks share whole arrays or none, so that what is at one place is one array.
TEST(ActivationLayoutTest, ArraysFillTheMemoryOneAfterAnother) {
  for (const ActivationRequest& request : Requests()) {
    std::map<uintptr_t, Array> places;
    for (const Array& array : ArraysOf(request, Bind(request))) {
      const auto [at, placed] = places.emplace(reinterpret_cast<uintptr_t>(array.begin), array);
      EXPECT_EQ(at->second.bytes, array.bytes) << array.name;
    }
    uintptr_t end = uintptr_t{1} << 40;
    for (const auto& [begin, array] : places) {
      EXPECT_EQ(begin, end) << array.name;
      EXPECT_EQ(begin % request.placement.alignment, 0) << array.name;
      end = begin + RoundUp(array.bytes, request.placement.alignment);
    }
    EXPECT_EQ(end - (uintptr_t{1} << 40), Total(request));
  }
}

TEST(ActivationLayoutTest, BlocksHaveForThemselvesWhatRecomputationKeeps) {
  ActivationRequest request = Odd(7);
  EXPECT_EQ(OwnArrays(request).size(), 13);
  request.recompute = Recompute::kSelective;
  EXPECT_THAT(OwnArrays(request), UnorderedElementsAre("norm1.sum", "qkv", "norm2.sum", "up"));
  request.recompute = Recompute::kFull;
  EXPECT_THAT(OwnArrays(request), UnorderedElementsAre("norm1.sum"));
}

TEST(ActivationLayoutTest, AnEvaluationKeepsNothingAndHasNoGradients) {
  for (const Recompute recompute : kRecomputes) {
    ActivationRequest request = Odd(7);
    request.recompute = recompute;
    const uint64_t training = Total(request);
    request.pass = Pass::kEvaluation;
    EXPECT_THAT(OwnArrays(request), IsEmpty());
    EXPECT_EQ(ActivationLayout(request).bytes().kept, 0);
    EXPECT_LT(Total(request), training);
    const TransformerArrays arrays = Bind(request);
    EXPECT_EQ(arrays.scratch.inner, nullptr);
    EXPECT_EQ(arrays.stream_gradient, nullptr);
    EXPECT_THAT(arrays.product_gradients, IsEmpty());
    const uint64_t total = Total(request);
    request.split_backward = true;
    EXPECT_EQ(Total(request), total);
  }
}

TEST(ActivationLayoutTest, BlocksKeepBothOperandsOfProductsForASplitBackward) {
  ActivationRequest request = Odd(7);
  request.split_backward = true;
  EXPECT_EQ(OwnArrays(request).size(), 13);
  request.recompute = Recompute::kSelective;
  EXPECT_THAT(OwnArrays(request),
              UnorderedElementsAre("norm1.sum", "norm1_out", "qkv", "attention", "norm2.sum",
                                   "norm2_out", "up", "activated"));
  request.recompute = Recompute::kFull;
  EXPECT_THAT(OwnArrays(request), UnorderedElementsAre("norm1.sum", "norm1_out", "attention",
                                                       "norm2_out", "activated"));
}

// Only the larger one of the gradients of qkv and up has memory for itself.
TEST(ActivationLayoutTest, ProductGradientsLieInScratchOneOverAnotherUnlessSplit) {
  for (const uint64_t U : {23, 46}) {
    ActivationRequest request = Odd(7);
    request.U = U;
    const TransformerArrays arrays = Bind(request);
    ASSERT_EQ(arrays.product_gradients.size(), 3);
    for (const BlockProductGradients& gradients : arrays.product_gradients) {
      EXPECT_EQ(gradients.qkv, arrays.product_gradients[0].qkv);
      EXPECT_EQ(gradients.proj, arrays.scratch.branch);
      EXPECT_EQ(gradients.up, U == request.F ? arrays.scratch.inner : gradients.qkv);
      EXPECT_EQ(gradients.down, arrays.scratch.branch);
    }
  }
  ActivationRequest request = Gpt2Small();
  const ActivationLayout::Bytes whole = ActivationLayout(request).bytes();
  request.split_backward = true;
  const ActivationLayout::Bytes split = ActivationLayout(request).bytes();
  const uint64_t N = request.N, C = request.C, L = request.layers;
  EXPECT_EQ(split.kept - whole.kept, 2 * N * L * (2 * C + 3 * C + 4 * C));
  EXPECT_EQ(whole.scratch - split.scratch, 2 * N * 4 * C);
}

TEST(ActivationLayoutTest, BytesAreThoseOfTheShapes) {
  const uint64_t N = 16 * 1024, C = 768, L = 12, H = 12;
  const uint64_t statistics = 4 * 4 + 4 * H;
  const uint64_t block = 2 * (3 * C + 3 * C + 4 * C + 4 * C) + 8 * C + statistics;
  const uint64_t products = 2 * (3 * C + 4 * C) + 8 * C;
  const uint64_t head = 4 * C + 8 + 2 * C;
  const uint64_t scratch = 2 * (C + 4 * C + 4 * C) + 4 * C;
  ActivationRequest request = Gpt2Small();
  for (const ActivationPlacement& placement : {kOnHost, kOnDevice}) {
    request.placement = placement;
    const auto expect = [&](Recompute recompute, uint64_t kept, uint64_t shared) {
      request.recompute = recompute;
      const ActivationLayout::Bytes bytes = ActivationLayout(request).bytes();
      EXPECT_EQ(bytes.kept, N * L * kept);
      EXPECT_EQ(bytes.shared, N * (shared + head));
      EXPECT_EQ(bytes.scratch, N * scratch);
      EXPECT_EQ(bytes.logits, 4 * placement.LogitRows(request.V) * request.V);
    };
    expect(Recompute::kNone, block, 0);
    expect(Recompute::kSelective, products, block - products);
    expect(Recompute::kFull, 4 * C, block - 4 * C);
  }
}

std::vector<Array> ExpertArraysOf(const ActivationRequest& r, const TransformerArrays& arrays,
                                  uint64_t l) {
  const uint64_t t = SizeOf(r.type), f = sizeof(float);
  const ExpertExtents& of = r.experts;
  const ExpertActivations& experts = arrays.blocks[l].experts;
  const uint64_t n = r.own_rows(), R = r.expert_rows();
  std::vector<Array> all = {{"logits", experts.logits, n * of.E * f},
                            {"weights", experts.weights, R * f},
                            {"chosen", experts.chosen, R * f},
                            {"offsets", experts.rows.offsets, (of.E + 1) * f},
                            {"assignments", experts.rows.assignments, R * f},
                            {"places", experts.rows.places, R * f},
                            {"expert up", experts.up, R * of.U * t},
                            {"expert activated", experts.activated, R * of.F * t},
                            {"up", arrays.blocks[l].up, r.N * of.shared_U * t},
                            {"activated", arrays.blocks[l].activated, r.N * of.shared_F * t},
                            {"norm2_out", arrays.blocks[l].norm2_out, n * r.C * t},
                            {"gate logits", experts.gate_logits, n * f},
                            {"shared", experts.shared, n * r.C * t},
                            {"rows", arrays.scratch.expert_rows, R * r.C * t}};
  if (r.pass == Pass::kEvaluation) return all;
  const BlockProductGradients& gradients = arrays.product_gradients[l];
  all.insert(all.end(), {{"counts", experts.counts, r.count_runs * of.E * f},
                         {"inner", arrays.scratch.inner, R * of.F * t},
                         {"weights gradient", arrays.scratch.weights_gradient, R * f},
                         {"shared gradient", arrays.scratch.shared_gradient, n * r.C * t},
                         {"up gradient", gradients.expert_up, R * of.U * t},
                         {"router gradient", gradients.router, n * of.E * t},
                         {"gate gradient", gradients.shared_gate, n * t},
                         {"stream gradient", arrays.stream_gradient, n * r.C * f}});
  return all;
}

// All that a block of experts works on at a time lies apart, in the memory that is asked for; and
// so does what two blocks keep.
TEST(ActivationLayoutTest, ArraysOfExpertsLieApart) {
  for (ActivationRequest request : Requests()) {
    request.layers = 4;
    request.experts = {.E = 6,
                       .k = 2,
                       .F = 50,
                       .U = 100,
                       .shared_F = 9,
                       .shared_U = 18,
                       .shared_gate = true,
                       .counts = true,
                       .dense_layers = {0, 2}};
    request.count_runs = 3;
    const TransformerArrays arrays = Bind(request);
    const auto expect_apart = [&](const std::vector<Array>& arrays) {
      for (const Array& a : arrays) {
        const auto begin = reinterpret_cast<uintptr_t>(a.begin);
        EXPECT_GE(begin, uintptr_t{1} << 40) << a.name;
        EXPECT_LE(begin + a.bytes, (uintptr_t{1} << 40) + Total(request)) << a.name;
        for (const Array& b : arrays) {
          if (&a == &b) continue;
          const auto other = reinterpret_cast<uintptr_t>(b.begin);
          EXPECT_TRUE(begin + a.bytes <= other || other + b.bytes <= begin)
              << a.name << " " << b.name;
        }
      }
    };
    const std::vector<Array> first = ExpertArraysOf(request, arrays, 1);
    const std::vector<Array> last = ExpertArraysOf(request, arrays, 3);
    expect_apart(first);
    std::set<std::string> own;
    std::vector<Array> kept;
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].begin == last[i].begin) continue;
      own.insert(first[i].name);
      kept.insert(kept.end(), {first[i], last[i]});
    }
    expect_apart(kept);
    // The rows that gradients of weights are made of stay until these are made.
    const bool training = request.pass == Pass::kTraining;
    const bool products = training && request.recompute != Recompute::kFull;
    EXPECT_EQ(own.contains("counts"), training);
    EXPECT_EQ(own.contains("expert up"), products);
    EXPECT_EQ(own.contains("assignments"), products || (training && request.split_backward));
    EXPECT_EQ(own.contains("expert activated"),
              training && (request.recompute == Recompute::kNone || request.split_backward));
    // A dense block keeps nothing of experts.
    request.layers = 1;
    ActivationRequest dense = request;
    dense.experts = {};
    EXPECT_EQ(ActivationLayout(request).bytes().kept, ActivationLayout(dense).bytes().kept);
  }
}

TEST(ActivationLayoutTest, MoreTokensTakeNoLess) {
  for (ActivationRequest request : Requests()) {
    for (const uint64_t logit_rows : {0, 5}) {
      request.logit_rows = logit_rows;
      uint64_t before = 0;
      for (request.N = 0; request.N < 70; ++request.N) {
        EXPECT_GE(Total(request), before);
        before = Total(request);
      }
    }
  }
}

// Blocks whose feed-forward part has room for none, some or all arrays of context ranks.
std::vector<ActivationRequest> ContextRequests() {
  std::vector<ActivationRequest> requests;
  for (ActivationRequest request : Requests()) {
    if (request.placement.alignment != kOnHost.alignment || request.N == 1) continue;
    for (const auto exchange :
         {ContextExchange::kRing, ContextExchange::kGather, ContextExchange::kHeads}) {
      for (const uint64_t ranks : {2, 4}) {
        for (const uint64_t F : {23, 100, 1000}) {
          request.context_exchange = exchange;
          request.context_ranks = ranks;
          request.F = request.U = F;
          requests.push_back(request);
        }
      }
    }
  }
  return requests;
}

// The arrays that attention's forward pass uses beside the block's others.
std::vector<Array> ForwardArraysOf(const ActivationRequest& r, const BlockActivations& block) {
  const uint64_t t = SizeOf(r.type), f = sizeof(float), N = r.N;
  const uint64_t keys = N * (r.Q - r.A) * t;
  const uint64_t exchanged = N * (r.A + 24 * r.context_ranks) * t;
  const ContextArrays& context = block.context;
  std::vector<Array> arrays;
  switch (r.context_exchange) {
    case ContextExchange::kRing:
      arrays = {{"here", context.keys_values[0], keys}, {"coming", context.keys_values[1], keys}};
      break;
    case ContextExchange::kGather:
      arrays = {{"all", context.keys_values[0], r.context_ranks * keys}};
      break;
    case ContextExchange::kHeads:
      return {{"room", block.qkv, exchanged},
              {"head_qkv", context.head_qkv, exchanged},
              {"head_attention", context.head_attention, N * r.A * t}};
  }
  if (r.type != DType::kF32) arrays.push_back({"sums", context.sums, N * r.A * f});
  return arrays;
}

// The arrays that its backward pass uses.
std::vector<Array> BackwardArraysOf(const ActivationRequest& r, const BlockActivations& block) {
  const uint64_t f = sizeof(float), N = r.N;
  const uint64_t gradients = N * (r.Q - r.A) * f;
  const ContextArrays& context = block.context;
  std::vector<Array> arrays = ForwardArraysOf(r, block);
  if (r.context_exchange == ContextExchange::kHeads) {
    arrays.push_back({"head_gradients", context.head_gradients, arrays[0].bytes});
    return arrays;
  }
  if (r.type == DType::kF32) arrays.push_back({"sums", context.sums, N * r.A * f});
  arrays.push_back({"delta", context.delta, N * r.H * f});
  if (r.context_exchange == ContextExchange::kGather) {
    arrays.push_back({"gradients", context.gradients[0], r.context_ranks * gradients});
    return arrays;
  }
  for (uint64_t i = 0; i < (r.context_ranks == 2 ? 3 : 4); ++i) {
    arrays.push_back({absl::StrCat("gradient", i), context.gradients[i], gradients});
  }
  return arrays;
}

// Expects arrays that are used together to lie apart, within the layout's memory.
void ExpectApart(const ActivationRequest& request, std::vector<Array> arrays) {
  std::sort(arrays.begin(), arrays.end(),
            [](const Array& a, const Array& b) { return a.begin < b.begin; });
  uintptr_t end = uintptr_t{1} << 40;
  for (const Array& array : arrays) {
    const auto begin = reinterpret_cast<uintptr_t>(array.begin);
    EXPECT_GE(begin, end) << array.name;
    EXPECT_EQ(begin % SizeOf(request.type), 0) << array.name;
    end = begin + array.bytes;
  }
  EXPECT_LE(end - (uintptr_t{1} << 40), Total(request));
}

TEST(ActivationLayoutTest, ContextArraysOverwriteWhatIsMadeLaterOrReadEarlier) {
  for (const ActivationRequest& request : ContextRequests()) {
    const TransformerArrays arrays = Bind(request);
    const bool training = request.pass == Pass::kTraining;
    // Of the two other blocks, all that forward has kept stays: what they do not share.
    const std::vector<Array> all = ArraysOf(request, arrays);
    for (size_t l = 0; l < arrays.blocks.size(); ++l) {
      for (const bool backward : {false, true}) {
        if (backward && !training) continue;
        std::vector<Array> used = backward ? BackwardArraysOf(request, arrays.blocks[l])
                                           : ForwardArraysOf(request, arrays.blocks[l]);
        std::set<const void*> taken = {nullptr};
        const void* const activated = arrays.blocks[l].activated;
        const void* const up = arrays.blocks[l].up;
        // A split backward reads `activated` later.
        if (!training || !request.split_backward) {
          taken.insert(activated);
          if (backward) taken.insert(up);
        }
        if (request.divides_heads()) {
          for (const BlockActivations& block : arrays.blocks) taken.insert(block.qkv);
        }
        for (const Array& array : all) {
          if (taken.insert(array.begin).second) used.push_back(array);
        }
        ExpectApart(request, std::move(used));
      }
    }
  }
}

TEST(ActivationLayoutTest, ContextArraysOfMoreTokensTakeNoLess) {
  for (ActivationRequest request : ContextRequests()) {
    uint64_t before = 0;
    for (request.N = 0; request.N < 40; ++request.N) {
      EXPECT_GE(Total(request), before);
      before = Total(request);
    }
  }
}

// A feed-forward part four times as wide as keys and as values has room for these, and two of the
// buffers of their gradients; or for all that ranks exchange that share out heads.
TEST(ActivationLayoutTest, ContextRanksTakeLittleMemoryOfTheirOwn) {
  ActivationRequest request = Gpt2Small();
  request.type = DType::kF32;
  const ActivationLayout::Bytes alone = ActivationLayout(request).bytes();
  const uint64_t keys = request.N * 2 * request.C * sizeof(float);
  const uint64_t sums = request.N * (request.A + request.H) * sizeof(float);
  for (const uint64_t ranks : {2, 4}) {
    request.context_ranks = ranks;
    const ActivationLayout::Bytes ring = ActivationLayout(request).bytes();
    EXPECT_EQ(ring.kept, alone.kept);
    EXPECT_EQ(ring.scratch - alone.scratch, (ranks == 2 ? 1 : 2) * keys + sums);
  }
  request.context_exchange = ContextExchange::kHeads;
  const ActivationLayout::Bytes heads = ActivationLayout(request).bytes();
  EXPECT_EQ(heads.scratch, alone.scratch);
  EXPECT_EQ(heads.kept - alone.kept, request.layers * request.N * request.A * sizeof(float));
}

TEST(ActivationLayoutTest, LogitsAreOfSomeRows) {
  const auto rows = [](const ActivationRequest& request) { return Bind(request).head.logit_rows; };
  ActivationRequest request = Gpt2Small();
  EXPECT_EQ(rows(request), 1334);
  request.placement = kOnDevice;
  EXPECT_EQ(rows(request), 5248);
  EXPECT_LE(ActivationLayout(request).bytes().logits, uint64_t{1} << 30);
  request.logit_rows = 100;
  EXPECT_EQ(rows(request), 100);
  request.logit_rows = uint64_t{1} << 40;
  EXPECT_EQ(rows(request), 16 * 1024);
}

TEST(ActivationLayoutTest, ManyColumnsHaveTheFewestRows) {
  const uint64_t V = uint64_t{1} << 30;
  EXPECT_EQ(kOnHost.LogitRows(V), 1);
  EXPECT_EQ(kOnDevice.LogitRows(V), 128);
}

TEST(ActivationLayoutTest, RowsOfLogitsBeginOnCacheLinesOfADevice) {
  EXPECT_EQ(kOnHost.LogitsStride(50257), 50257);
  EXPECT_EQ(kOnDevice.LogitsStride(50257), 50304);
  EXPECT_EQ(kOnDevice.LogitRows(50257), kOnDevice.LogitRows(50304));
}

}  // namespace
}  // namespace muster
