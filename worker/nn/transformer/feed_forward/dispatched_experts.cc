#include "worker/nn/transformer/feed_forward/dispatched_experts.h"

#include <cstddef>
#include <utility>
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

RowsOfExperts DispatchedExperts::Hosted(const Call& call, const Round& round) const {
  const HostedRows& hosted = call.activations.experts.hosted;
  return {.experts = experts_.experts / call.own.expert_group->size(),
          .rows = round.rows,
          .offsets = hosted.offsets,
          .assignments = call.scratch.hosted_numbers,
          .weights = hosted.weights};
}

int32_t* DispatchedExperts::OffsetsOnHost(const Call& call) const {
  return call.own.rank_offsets + layer_ * call.own.expert_group->size() * (experts_.experts + 1);
}

ExpertDispatch DispatchedExperts::Dispatch(const Call& call) const {
  const ExpertGroup& group = *call.own.expert_group;
  return ExpertDispatch(
      absl::MakeConstSpan(OffsetsOnHost(call), group.size() * (experts_.experts + 1)), group.size(),
      group.rank());
}

void DispatchedExperts::OrderHosted(const Call& call, const Round& round) const {
  const ExpertGroup& group = *call.own.expert_group;
  const ExpertActivations& experts = call.activations.experts;
  call.own.ops.experts().OrderHostedRows({.ranks = group.size(),
                                          .rank = group.rank(),
                                          .experts = experts_.experts,
                                          .first = round.first,
                                          .rows = round.rows},
                                         experts.rank_offsets, experts.hosted.offsets,
                                         call.scratch.hosted_numbers);
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

void DispatchedExperts::Start(const Call& call, const RowsList& sent, const Place& from,
                              const RowsList& taken, const Place& to) const {
  const DType type = call.own.type;
  const int64_t C = shape_.width;
  const int64_t bytes = C * static_cast<int64_t>(SizeOf(type));
  ExpertGroup& group = *call.own.expert_group;
  const bool weights = from.weights != nullptr;
  std::vector<ExpertGroup::Sent> out;
  std::vector<ExpertGroup::Received> in;
  // Rows of which this rank has the experts stay here, in the same order on both ends.
  RowsList own_from, own_to;
  for (const ExpertDispatch::Rows& rows : sent) {
    if (rows.peer == group.rank()) {
      own_from.push_back(rows);
      continue;
    }
    out.push_back({rows.peer, type, rows.count * C, RowAt(from.rows, rows.first, bytes)});
    if (weights) out.push_back({rows.peer, DType::kF32, rows.count, from.weights + rows.first});
  }
  for (const ExpertDispatch::Rows& rows : taken) {
    if (rows.peer == group.rank()) {
      own_to.push_back(rows);
      continue;
    }
    in.push_back({rows.peer, type, rows.count * C, RowAt(to.rows, rows.first, bytes)});
    if (weights) in.push_back({rows.peer, DType::kF32, rows.count, to.weights + rows.first});
  }
  group.Start(out, in);
  Ops& ops = call.own.ops;
  for (size_t i = 0; i < own_from.size(); ++i) {
    const int64_t first = own_from[i].first, to_first = own_to[i].first, rows = own_to[i].count;
    ops.Convert(rows * C, type, RowAt(from.rows, first, bytes), type,
                RowAt(to.rows, to_first, bytes));
    if (weights) {
      ops.Convert(rows, DType::kF32, from.weights + first, DType::kF32, to.weights + to_first);
    }
  }
}

void DispatchedExperts::Return(const Call& call, const Round& round, const Place& from,
                               const Place& to) const {
  Start(call, round.taken, from, round.sent, to);
  call.own.expert_group->Await();
}

void DispatchedExperts::Take(const Call& call, const BlockWeights& weights, const Round& round,
                             const Beside& beside) const {
  const ExpertActivations& experts = call.activations.experts;
  Start(call, round.sent, {call.scratch.expert_rows, call.scratch.row_weights}, round.taken,
        {experts.hosted.x, experts.hosted.weights});
  beside();
  call.own.expert_group->Await();
  OrderHosted(call, round);
  if (round.rows == 0) return;
  const RowsOfExperts rows = Hosted(call, round);
  products_.MakeUp(call.own, rows, experts.hosted.x, weights.experts.up, experts.up);
  products_.Activate(call.own, rows, experts.up, experts.activated);
}

void DispatchedExperts::Forward(const ComputeContext& own, const BlockWeights& weights,
                                const BlockActivations& activations, const BlockScratch& scratch,
                                Beside beside) const {
  const Call call = {own, activations, scratch};
  if (own_rows(call) == 0) {
    own.ops.Zero(experts_.experts + 1, reinterpret_cast<float*>(activations.experts.rows.offsets));
  }
  GatherRows(call, activations.norm2_out);
  GatherWeights(call);
  own.expert_group->Exchange(
      [this, call, weights, beside = std::move(beside)] { ForwardRounds(call, weights, beside); });
}

void DispatchedExperts::ForwardRounds(const Call& call, const BlockWeights& weights,
                                      const Beside& beside) const {
  const ExpertActivations& experts = call.activations.experts;
  const BlockScratch& scratch = call.scratch;
  ExpertGroup& group = *call.own.expert_group;
  group.Gather(experts_.experts + 1, experts.rows.offsets, experts.rank_offsets,
               OffsetsOnHost(call));
  if (!group.status().ok()) return;
  const ExpertDispatch dispatch = Dispatch(call);
  const int last = dispatch.rounds() - 1;
  for (int r = last; r >= 0; --r) {
    const Round round = dispatch.MakeRound(r);
    Take(call, weights, round, r == last ? beside : Beside(Nothing));
    if (round.rows > 0) {
      products_.MakeOut(call.own, Hosted(call, round), experts.activated, weights.experts.down,
                        scratch.hosted_rows);
    }
    Return(call, round, {scratch.hosted_rows}, {scratch.returned_rows});
    if (!group.status().ok()) return;
  }
}

void DispatchedExperts::Recompute(const ComputeContext& own, const BlockWeights& weights,
                                  const BlockActivations& activations,
                                  const BlockScratch& scratch) const {
  const Call call = {own, activations, scratch};
  GatherRows(call, activations.norm2_out);
  GatherWeights(call);
  own.expert_group->Exchange(
      [this, call, weights] { Take(call, weights, Dispatch(call).MakeRound(0), Nothing); });
}

void DispatchedExperts::Activate(const ComputeContext& own, const BlockActivations& activations,
                                 const BlockScratch& scratch) const {
  own.expert_group->Exchange([this, call = Call{own, activations, scratch}] {
    const Round round = Dispatch(call).MakeRound(0);
    OrderHosted(call, round);
    if (round.rows == 0) return;
    const ExpertActivations& experts = call.activations.experts;
    products_.Activate(call.own, Hosted(call, round), experts.up, experts.activated);
  });
}

void DispatchedExperts::Backward(const ComputeContext& own, const BlockWeights& weights,
                                 const BlockActivations& activations, const void* dout,
                                 void* expert_up, const BlockScratch& scratch,
                                 const BlockGradients& gradients, Beside beside) const {
  const BackwardCall backward = {{own, activations, scratch}, weights, gradients, dout, expert_up};
  GatherRows(backward.call, dout);
  own.expert_group->Exchange(
      [this, backward, beside = std::move(beside)] { BackwardRounds(backward, beside); });
  if (own_rows(backward.call) == 0) return;
  own.ops.experts().GatherRows(
      {.type = DType::kF32, .tokens = own_rows(backward.call), .top_k = 1, .width = 1},
      scratch.row_dweights, activations.experts.rows.places, scratch.weights_gradient);
}

void DispatchedExperts::BackwardRounds(const BackwardCall& backward, const Beside& beside) const {
  const Call& call = backward.call;
  const BlockScratch& scratch = call.scratch;
  ExpertGroup& group = *call.own.expert_group;
  const ExpertDispatch dispatch = Dispatch(call);
  for (int r = 0; r < dispatch.rounds(); ++r) {
    const Round round = dispatch.MakeRound(r);
    if (r > 0) {
      GatherRows(call, call.activations.norm2_out);
      GatherWeights(call);
      Take(call, backward.weights, round, Nothing);
      GatherRows(call, backward.dout);
    }
    Start(call, round.sent, {scratch.expert_rows}, round.taken, {scratch.hosted_rows});
    if (r == 0) beside();
    group.Await();
    if (!group.status().ok()) return;
    OrderHosted(call, round);
    BackwardRound(backward, round, r == 0 ? call.own.gradients : Accumulation::kAdd);
    Return(call, round, {scratch.hosted_rows, scratch.hosted_dweights},
           {scratch.returned_rows, scratch.row_dweights});
    if (!group.status().ok()) return;
  }
}

void DispatchedExperts::BackwardRound(const BackwardCall& backward, const Round& round,
                                      Accumulation accumulation) const {
  // Without rows there is nothing to add, but there are zeros to write.
  if (round.rows == 0 && accumulation == Accumulation::kAdd) return;
  const Call& call = backward.call;
  const ExpertActivations& experts = call.activations.experts;
  const BlockScratch& scratch = call.scratch;
  const RowsOfExperts rows = Hosted(call, round);
  products_.BackwardOutWeights(call.own, rows, scratch.hosted_rows, experts.activated, accumulation,
                               backward.gradients.experts.down);
  if (round.rows > 0) {
    products_.BackwardOut(call.own, rows, scratch.hosted_rows, backward.weights.experts.down,
                          experts.up, scratch.inner, backward.expert_up, scratch.hosted_dweights);
  }
  products_.BackwardUpWeights(call.own, rows, backward.expert_up, experts.hosted.x, accumulation,
                              backward.gradients.experts.up);
  if (round.rows > 0) {
    products_.BackwardUp(call.own, rows, backward.expert_up, backward.weights.experts.up,
                         scratch.hosted_rows);
  }
}

}  // namespace muster
