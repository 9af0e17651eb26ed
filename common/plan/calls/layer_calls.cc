#include "common/plan/calls/layer_calls.h"

#include <array>

#include "common/base/round_up.h"
#include "common/job/adapter_targets.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/ranks/rank_size.h"

namespace muster {
namespace {

// Floats that a rank tells of a token's logits (SoftmaxPart in common/compute/ops.h).
constexpr uint64_t kLossFloats = 4;
// The numbers of HeadSums (common/kernels/transformer/head_sums.h).
constexpr uint64_t kHeadSums = 3;

}  // namespace

LayerCalls::LayerCalls(const v1::JobSpec& spec, const Mesh& mesh, int units,
                       absl::Span<const std::vector<DividedLayer>> layers,
                       std::vector<StepCall>& calls)
    : spec_(spec),
      mesh_(mesh),
      units_(units),
      layers_(layers),
      transformer_(SizeOfTransformer(spec.model().transformer(), {})),
      type_(ActivationType(spec.compute())),
      divides_tokens_(DividesTokens(spec)),
      calls_within_layers_(mesh.size(kLayerAxes | kExpertAxes) > 1 ||
                           ChoicesCountedOf(spec) == ChoicesCounted::kTogether),
      calls_(calls) {}

void LayerCalls::Add(const StepAction& action, absl::Span<const uint64_t> examples) {
  const bool forward = action.kind == ActionKind::kForward || action.kind == ActionKind::kLastUnit;
  const bool backward =
      action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
  const bool weights = action.kind == ActionKind::kBackwardWeights;
  if (!calls_within_layers_ || (!forward && !backward && !weights)) return;
  examples_ = examples[action.micro_batch];
  if (examples_ == 0) return;
  if (!spec_.model().has_transformer()) {
    AddPerceptron(action.unit, forward, backward || action.kind == ActionKind::kLastUnit);
  } else if (action.unit == 0) {
    if (forward) SumTokens(DType::kF32);
    if (backward) GatherTokens("gradients", DType::kF32);
  } else if (action.unit + 1 == units_) {
    if (forward) AddHead(action.kind == ActionKind::kLastUnit);
  } else if (const bool experts = transformer_.experts.IsExpertBlock(action.unit - 1); forward) {
    AddBlockForward(experts);
  } else if (backward) {
    AddBlockBackward(experts, /*split=*/action.kind == ActionKind::kBackwardInput);
  } else {
    for (int half = experts ? 1 : 0; half < 2; ++half) {
      GatherTokens("gradients");
      GatherTokens("rows");
    }
  }
}

void LayerCalls::AddPerceptron(int unit, bool forward, bool backward) {
  for (const DividedLayer& layer : layers_[unit]) {
    if (layer.by_inputs && forward) AddSum(DType::kF32, examples_ * layer.outputs);
    if (!layer.by_inputs && backward && unit > 0) AddSum(DType::kF32, examples_ * layer.inputs);
  }
}

void LayerCalls::Exchange(bool backward) {
  const uint64_t ranks = size(kContext);
  if (ranks == 1) return;
  if (ContextExchangeOf(spec_) == ContextExchange::kHeads) {
    ExchangeHeads(backward ? "exchange output gradients" : "exchange queries, keys, values",
                  backward);
    ExchangeHeads(backward ? "exchange their gradients" : "exchange outputs", !backward);
    return;
  }
  const uint64_t kv_heads = CeilDivide<uint64_t>(transformer_.kv_heads, size(Axis::kTensor));
  const uint64_t count = tokens() * 2 * kv_heads * transformer_.head_dim();
  if (ContextExchangeOf(spec_) == ContextExchange::kGather) {
    AddContextCall("gather keys and values", Collective::kAllGather, type_, count);
    if (backward) {
      AddContextCall("scatter their gradients", Collective::kReduceScatter, DType::kF32, count);
    }
    return;
  }
  for (uint64_t turn = 0; turn < ranks; ++turn) {
    if (turn + 1 < ranks) Pass("pass keys and values", type_, count);
    if (backward && turn > 0) Pass("pass their gradients", DType::kF32, count);
  }
}

void LayerCalls::ExchangeHeads(absl::string_view name, bool outputs) {
  const uint64_t ranks = size(kContext);
  uint64_t heads = transformer_.heads / size(Axis::kTensor) / ranks;
  if (!outputs) heads += 2 * CeilDivide(transformer_.kv_heads, size(Axis::kTensor) * ranks);
  AddContextCall(name, Collective::kAllToAll, type_, tokens() * heads * transformer_.head_dim());
}

void LayerCalls::Pass(absl::string_view name, DType type, uint64_t count) {
  AddContextCall(name, Collective::kSend, type, count);
  AddContextCall(name, Collective::kReceive, type, count);
}

void LayerCalls::AddContextCall(absl::string_view name, Collective kind, DType type,
                                uint64_t count) {
  calls_.push_back({.name = name,
                    .among = kContext,
                    .ranks = size(kContext),
                    .kind = kind,
                    .dtype = type,
                    .count = count});
}

void LayerCalls::AddHead(bool trains) {
  GatherTokens("rows");
  AddTensorCall("gather softmax parts", Collective::kAllGather, DType::kF32,
                tokens() * kLossFloats);
  if (trains) SumTokens(type_);
  if (size(kContext) > 1) {
    AddContextCall("sum losses", Collective::kAllReduce, DType::kF64, kHeadSums);
  }
}

void LayerCalls::AddBlockForward(bool experts) {
  GatherTokens("rows");
  Exchange(/*backward=*/false);
  SumTokens(type_);
  if (experts) {
    SumChoices();
    if (size(kExpertAxes) > 1) {
      AddExpertCall("gather rows by expert", Collective::kAllGather, DType::kInt32,
                    transformer_.experts.E + 1);
      SendRows("rows to experts", /*weights=*/true);
      SendRows("results of experts", /*weights=*/false);
    }
  } else {
    GatherTokens("rows");
    SumTokens(type_);
  }
}

void LayerCalls::SendRows(absl::string_view name, bool weights) {
  if (size(kExpertAxes) == 1) return;
  const uint64_t rows = RowsOfRank() / transformer_.C * transformer_.experts.k / size(kExpertAxes);
  AddExpertCall(name, Collective::kAllToAll, type_, rows * transformer_.C);
  if (!weights) return;
  AddExpertCall(name, Collective::kAllToAll, DType::kF32, rows);
  calls_.back().continues = true;
}

void LayerCalls::AddExpertCall(absl::string_view name, Collective kind, DType type,
                               uint64_t count) {
  calls_.push_back({.name = name,
                    .among = kExpertAxes,
                    .ranks = size(kExpertAxes),
                    .kind = kind,
                    .dtype = type,
                    .count = count});
}

void LayerCalls::SumChoices() {
  const ExpertExtents& experts = transformer_.experts;
  const uint64_t numbers = experts.Runs(examples_) * experts.E;
  AddChoiceCalls(numbers, experts.counts_of_all_ranks ? numbers : 0);
  const uint64_t ranks = size(kDataAxes);
  const uint64_t parts =
      experts.Parts(examples_, size(kContext), divides_tokens_ ? size(Axis::kTensor) : 1);
  if (parts > 0) AddChoiceCalls((parts + ranks) * experts.E, ranks * experts.E);
}

void LayerCalls::AddChoiceCalls(uint64_t numbers, uint64_t of_data_ranks) {
  constexpr absl::string_view kName = "sum choices of experts";
  if (numbers == 0) return;
  if (divides_tokens_) AddTensorCall(kName, Collective::kAllReduce, DType::kF32, numbers);
  if (size(kContext) > 1) AddContextCall(kName, Collective::kAllReduce, DType::kF32, numbers);
  if (of_data_ranks == 0 || size(kDataAxes) == 1) return;
  calls_.push_back({.name = kName,
                    .among = kDataAxes,
                    .ranks = size(kDataAxes),
                    .kind = Collective::kAllReduce,
                    .dtype = DType::kF32,
                    .count = of_data_ranks});
}

void LayerCalls::AddBlockBackward(bool experts, bool split) {
  const Recompute recompute = ResolveRecompute(spec_.compute());
  if (recompute == Recompute::kFull) GatherTokens("rows");
  // With the selective one each rank has kept the queries, keys and values of its heads.
  const bool keeps_heads =
      recompute == Recompute::kSelective && ContextExchangeOf(spec_) == ContextExchange::kHeads;
  if (keeps_heads && size(kContext) > 1) {
    ExchangeHeads("exchange outputs", /*outputs=*/true);
  } else if (recompute != Recompute::kNone) {
    Exchange(/*backward=*/false);
  }
  if (recompute == Recompute::kFull) {
    SumTokens(type_);
    if (!experts) GatherTokens("rows");
  }
  if (experts) {
    if (recompute == Recompute::kFull) SendRows("rows to experts", /*weights=*/true);
    SendRows("gradients to experts", /*weights=*/false);
    SendRows("gradients of rows", /*weights=*/true);
  }
  for (int half = experts ? 1 : 0; half < 2; ++half) {
    GatherTokens("gradients");
    if (half == 1) Exchange(/*backward=*/true);
    if (!split || HasAdapters(half)) GatherTokens("rows");
    SumTokens(type_);
  }
}

bool LayerCalls::HasAdapters(int half) const {
  if (!spec_.has_adapter()) return false;
  const std::array<bool, kAdapterTargets> targets = TargetsOf(spec_.adapter());
  const auto has = [&targets](AdapterTarget target) { return targets[static_cast<int>(target)]; };
  if (half == 0) return has(AdapterTarget::kGate) || has(AdapterTarget::kUp);
  return has(AdapterTarget::kQuery) || has(AdapterTarget::kKey) || has(AdapterTarget::kValue);
}

uint64_t LayerCalls::tokens() const { return examples_ * transformer_.T / size(kContext); }

uint64_t LayerCalls::RowsOfRank() const {
  return (divides_tokens_ ? CeilDivide<uint64_t>(tokens(), size(Axis::kTensor)) : tokens()) *
         transformer_.C;
}

void LayerCalls::GatherTokens(absl::string_view what) { GatherTokens(what, type_); }

void LayerCalls::GatherTokens(absl::string_view what, DType type) {
  if (!divides_tokens_) return;
  AddTensorCall(what == "rows" ? "gather rows" : "gather gradients", Collective::kAllGather, type,
                RowsOfRank());
}

void LayerCalls::SumTokens(DType type) {
  if (!divides_tokens_) return AddSum(type, tokens() * transformer_.C);
  AddTensorCall("scatter sums", Collective::kReduceScatter, type, RowsOfRank());
}

void LayerCalls::AddSum(DType type, uint64_t count) {
  AddTensorCall("sum", Collective::kAllReduce, type, count);
}

void LayerCalls::AddTensorCall(absl::string_view name, Collective kind, DType type,
                               uint64_t count) {
  if (size(Axis::kTensor) == 1) return;
  calls_.push_back({.name = name,
                    .among = Axis::kTensor,
                    .ranks = size(Axis::kTensor),
                    .kind = kind,
                    .dtype = type,
                    .count = count});
}

}  // namespace muster
