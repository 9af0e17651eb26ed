#include "worker/nn/transformer/dispatched_experts.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "worker/nn/expert_group.h"

namespace muster {
namespace {

void Nothing() {}

std::byte* RowAt(void* rows, int64_t row, int64_t row_bytes) {
  return static_cast<std::byte*>(rows) + row * row_bytes;
}

}  // namespace

RowsOfExperts DispatchedExperts::Hosted(const Call& call) const {
  const HostedRows& hosted = call.activations.experts.hosted;
  const int64_t of_rank = experts_.experts / call.own.expert_group->size();
  return {.experts = of_rank,
          .rows = hosted.offsets[of_rank],
          .offsets = hosted.offsets,
          .assignments = call.scratch.hosted_numbers,
          .weights = hosted.weights};
}

ExpertDispatch DispatchedExperts::Dispatch(const Call& call) const {
  const ExpertGroup& group = *call.own.expert_group;
  return ExpertDispatch(
      absl::MakeConstSpan(call.activations.experts.rank_counts, group.size() * experts_.experts),
      group.size(), group.rank());
}

void DispatchedExperts::SetOffsets(const Call& call, const ExpertDispatch::Round& round) const {
  std::copy(round.offsets.begin(), round.offsets.end(), call.activations.experts.hosted.offsets);
  // Weights lie in the order of rows.
  std::iota(call.scratch.hosted_numbers, call.scratch.hosted_numbers + round.offsets.back(), 0);
}

void DispatchedExperts::GatherRows(const Call& call, const void* x) const {
  if (own_rows(call) == 0) return;
  call.own.ops.experts().GatherRows({.type = call.own.type,
                                     .tokens = call.own.rows.count(),
                                     .top_k = experts_.top_k,
                                     .width = shape_.width},
                                    x, call.activations.experts.rows.assignments,
                                    call.scratch.expert_rows);
}

void DispatchedExperts::GatherWeights(const Call& call) const {
  if (own_rows(call) == 0) return;
  call.own.ops.experts().GatherRows(
      {.type = DType::kF32, .tokens = own_rows(call), .top_k = 1, .width = 1},
      call.activations.experts.weights, call.activations.experts.rows.assignments,
      call.scratch.row_weights);
}

void DispatchedExperts::StartOut(const Call& call, const ExpertDispatch::Round& round, void* hosted,
                                 float* weights) const {
  const int64_t C = shape_.width;
  const int64_t bytes = C * static_cast<int64_t>(SizeOf(call.own.type));
  std::vector<ExpertGroup::Sent> sent;
  std::vector<ExpertGroup::Received> taken;
  for (const ExpertDispatch::Rows& rows : round.sent) {
    sent.push_back({rows.peer, call.own.type, rows.count * C,
                    RowAt(call.scratch.expert_rows, rows.first, bytes)});
    if (weights == nullptr) continue;
    sent.push_back({rows.peer, DType::kF32, rows.count, call.scratch.row_weights + rows.first});
  }
  for (const ExpertDispatch::Rows& rows : round.taken) {
    taken.push_back({rows.peer, call.own.type, rows.count * C, RowAt(hosted, rows.first, bytes)});
    if (weights == nullptr) continue;
    taken.push_back({rows.peer, DType::kF32, rows.count, weights + rows.first});
  }
  call.own.expert_group->Start(sent, taken);
}

void DispatchedExperts::Return(const Call& call, const ExpertDispatch::Round& round,
                               bool gradients) const {
  const int64_t C = shape_.width;
  const int64_t bytes = C * static_cast<int64_t>(SizeOf(call.own.type));
  const BlockScratch& scratch = call.scratch;
  std::vector<ExpertGroup::Sent> sent;
  std::vector<ExpertGroup::Received> taken;
  for (const ExpertDispatch::Rows& rows : round.taken) {
    sent.push_back(
        {rows.peer, call.own.type, rows.count * C, RowAt(scratch.hosted_rows, rows.first, bytes)});
    if (!gradients) continue;
    sent.push_back({rows.peer, DType::kF32, rows.count, scratch.hosted_dweights + rows.first});
  }
  for (const ExpertDispatch::Rows& rows : round.sent) {
    taken.push_back({rows.peer, call.own.type, rows.count * C,
                     RowAt(scratch.returned_rows, rows.first, bytes)});
    if (!gradients) continue;
    taken.push_back({rows.peer, DType::kF32, rows.count, scratch.row_dweights + rows.first});
  }
  call.own.expert_group->Start(sent, taken);
  call.own.expert_group->Await();
}

void DispatchedExperts::Take(const Call& call, const BlockWeights& weights,
                             const ExpertDispatch::Round& round, Beside beside) const {
  const ExpertActivations& experts = call.activations.experts;
  StartOut(call, round, experts.hosted.x, experts.hosted.weights);
  beside();
  call.own.expert_group->Await();
  SetOffsets(call, round);
  const RowsOfExperts rows = Hosted(call);
  products_.MakeUp(call.own, rows, experts.hosted.x, weights.experts.up, experts.up);
  products_.Activate(call.own, rows, experts.up, experts.activated);
}

void DispatchedExperts::Forward(const ComputeContext& own, const BlockWeights& weights,
                                const BlockActivations& activations, const BlockScratch& scratch,
                                Beside beside) const {
  const Call call = {own, activations, scratch};
  const ExpertActivations& experts = activations.experts;
  ExpertGroup& group = *own.expert_group;
  std::vector<int32_t> mine(experts_.experts);
  for (int64_t e = 0; own_rows(call) > 0 && e < experts_.experts; ++e) {
    mine[e] = experts.rows.offsets[e + 1] - experts.rows.offsets[e];
  }
  group.GatherCounts(mine, absl::MakeSpan(experts.rank_counts, group.size() * experts_.experts));
  if (!group.status().ok()) return;
  GatherRows(call, activations.norm2_out);
  GatherWeights(call);
  const ExpertDispatch dispatch = Dispatch(call);
  const int last = dispatch.rounds() - 1;
  for (int r = last; r >= 0; --r) {
    const ExpertDispatch::Round round = dispatch.MakeRound(r);
    Take(call, weights, round, r == last ? beside : Beside(Nothing));
    products_.MakeOut(own, Hosted(call), experts.activated, weights.experts.down,
                      scratch.hosted_rows);
    Return(call, round, /*gradients=*/false);
    if (!group.status().ok()) return;
  }
}

void DispatchedExperts::Recompute(const ComputeContext& own, const BlockWeights& weights,
                                  const BlockActivations& activations,
                                  const BlockScratch& scratch) const {
  const Call call = {own, activations, scratch};
  GatherRows(call, activations.norm2_out);
  GatherWeights(call);
  Take(call, weights, Dispatch(call).MakeRound(0), Nothing);
}

void DispatchedExperts::Activate(const ComputeContext& own, const BlockActivations& activations,
                                 const BlockScratch& scratch) const {
  const Call call = {own, activations, scratch};
  SetOffsets(call, Dispatch(call).MakeRound(0));
  products_.Activate(own, Hosted(call), activations.experts.up, activations.experts.activated);
}

void DispatchedExperts::Backward(const ComputeContext& own, const BlockWeights& weights,
                                 const BlockActivations& activations, const void* dout,
                                 void* expert_up, const BlockScratch& scratch,
                                 const BlockGradients& gradients, Beside beside) const {
  const Call call = {own, activations, scratch};
  const ExpertActivations& experts = activations.experts;
  const ExpertDispatch dispatch = Dispatch(call);
  for (int r = 0; r < dispatch.rounds(); ++r) {
    const ExpertDispatch::Round round = dispatch.MakeRound(r);
    if (r > 0) {
      GatherRows(call, activations.norm2_out);
      GatherWeights(call);
      Take(call, weights, round, Nothing);
    }
    GatherRows(call, dout);
    StartOut(call, round, scratch.hosted_rows, /*weights=*/nullptr);
    if (r == 0) beside();
    own.expert_group->Await();
    if (!own.expert_group->status().ok()) return;
    SetOffsets(call, round);
    const RowsOfExperts rows = Hosted(call);
    const Accumulation accumulation = r == 0 ? own.gradients : Accumulation::kAdd;
    products_.BackwardOutWeights(own, rows, scratch.hosted_rows, experts.activated, accumulation,
                                 gradients.experts.down);
    products_.BackwardOut(own, rows, scratch.hosted_rows, weights.experts.down, experts.up,
                          scratch.inner, expert_up, scratch.hosted_dweights);
    products_.BackwardUpWeights(own, rows, expert_up, experts.hosted.x, accumulation,
                                gradients.experts.up);
    products_.BackwardUp(own, rows, expert_up, weights.experts.up, scratch.hosted_rows);
    Return(call, round, /*gradients=*/true);
    if (!own.expert_group->status().ok()) return;
  }
  if (own_rows(call) == 0) return;
  own.ops.experts().GatherRows(
      {.type = DType::kF32, .tokens = own_rows(call), .top_k = 1, .width = 1}, scratch.row_dweights,
      experts.rows.places, scratch.weights_gradient);
}

}  // namespace muster
