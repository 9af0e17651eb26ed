#include "worker/nn/transformer/arrays/transformer_memory.h"

#include "worker/nn/counting_group.h"
#include "worker/nn/expert_group.h"

namespace muster {

ActivationRequest ActivationRequestOf(const TransformerShape& shape, DType type,
                                      Recompute recompute) {
  ActivationRequest request;
  request.layers = shape.layers;
  request.C = shape.width;
  request.A = shape.attention_width();
  request.H = shape.heads;
  request.Q = shape.qkv_width();
  request.U = shape.up_width();
  request.F = shape.feed_forward;
  request.V = shape.vocabulary_rows();
  request.P = shape.normed_columns();
  request.normed = shape.HeadsOfNorm(shape.heads) * shape.head_dim();
  request.experts = shape.expert_extents();
  request.adapter_rank = shape.adapter.rank;
  request.type = type;
  request.recompute = recompute;
  return request;
}

void TransformerMemory::Prepare(const ComputeContext& context, const UnitRange& units) {
  const auto tokens = static_cast<uint64_t>(context.rows.count());
  const uint64_t ranks = context.group == nullptr ? 1 : context.group->size();
  const uint64_t context_ranks =
      context.context_group == nullptr ? 1 : context.context_group->size();
  const uint64_t expert_ranks = context.expert_group == nullptr ? 1 : context.expert_group->size();
  const uint64_t runs = request_.experts.Runs(static_cast<uint64_t>(context.rows.sequences));
  const uint64_t parts = request_.experts.Parts(static_cast<uint64_t>(context.rows.sequences),
                                                context_ranks, context.divides_rows() ? ranks : 1);
  const uint64_t counting =
      context.counting_group == nullptr ? 1 : static_cast<uint64_t>(context.counting_group->size());
  const uint64_t choices = request_.experts.drops ? parts + counting : 0;
  if (runs == request_.count_runs && choices == request_.choice_counts &&
      context_ranks == request_.context_ranks && expert_ranks == request_.expert_ranks &&
      context.context_exchange == request_.context_exchange && tokens == request_.N &&
      context.pass == request_.pass && context.split_backward == request_.split_backward &&
      ranks == request_.tensor_ranks && context.divides_rows() == request_.sequence_parallel &&
      units == units_) {
    return;
  }
  units_ = units;
  SetUnits(layers_, units, request_);
  request_.tensor_ranks = ranks;
  request_.sequence_parallel = context.divides_rows();
  request_.context_ranks = context_ranks;
  request_.context_exchange = context.context_exchange;
  request_.expert_ranks = expert_ranks;
  request_.N = tokens;
  request_.count_runs = runs;
  request_.choice_counts = choices;
  request_.pass = context.pass;
  request_.split_backward = context.split_backward;
  const ActivationLayout layout(request_);
  arena_.Begin();
  const size_t begin = arena_.Reserve<std::byte>(static_cast<int64_t>(layout.bytes().total()));
  arena_.Commit();
  arrays_ = layout.Bind(arena_.At<std::byte>(begin));
}

}  // namespace muster
