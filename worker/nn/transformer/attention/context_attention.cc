#include "worker/nn/transformer/attention/context_attention.h"

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "common/compute/context_ring.h"
#include "worker/nn/context_group.h"
#include "worker/nn/transformer/arrays/typed_array.h"

namespace muster {
namespace {

// One call of the step.
class ContextPass {
 public:
  ContextPass(const ComputeContext& context, const AttentionShape& own, const ContextArrays& arrays)
      : context_(context),
        group_(*context.context_group),
        shape_(OfWholeSequences(context, own)),
        rows_(own.T),
        arrays_(arrays) {}

  void Forward(const AttentionArrays& arrays) const;
  void Backward(const AttentionGradientArrays& arrays) const;

 private:
  // One rank's keys and values, at hand at one of the turns.
  struct Turn {
    int number = 0;
    int source = 0;
    const void* keys_values = nullptr;
  };

  static AttentionShape OfWholeSequences(const ComputeContext& context, AttentionShape own) {
    own.T = context.rows.share.whole;
    return own;
  }

  bool gathers() const { return context_.context_exchange == ContextExchange::kGather; }
  int64_t chunk() const { return context_.rows.share.half; }
  // Letters of common/compute/transformer_activations.h.
  int64_t N() const { return shape_.B * rows_; }
  int64_t A() const { return shape_.H * shape_.D; }
  int64_t E() const { return 2 * shape_.KV * shape_.D; }
  int64_t elements() const { return N() * E(); }

  // Has the keys and values of all ranks come, which are packed out of each rank's own `qkv`, and
  // calls `compute` with those of one rank after another.
  void ForEachTurn(const void* qkv, absl::FunctionRef<void(const Turn& turn)> compute) const;
  // Calls `attend` for each pair of chunks of the turn, with the rows of either chunk in a sequence
  // at which they begin.
  void ForEachPair(const Turn& turn,
                   absl::FunctionRef<void(const AttentionShape& shape, const AttentionPart& part,
                                          int64_t query, int64_t key)>
                       attend) const;
  // Copies `columns` columns from the column `first` of rows of queries, keys and values on to
  // dense rows, or back.
  void Pack(const void* qkv, int64_t first, int64_t columns, void* to) const;
  void Unpack(const float* sums, int64_t first, int64_t columns, void* dqkv) const;

  const ComputeContext& context_;
  ContextGroup& group_;
  // The shape of whole sequences, and the rows that this rank has of each.
  const AttentionShape shape_;
  const int64_t rows_;
  const ContextArrays& arrays_;
};

void ContextPass::Pack(const void* qkv, int64_t first, int64_t columns, void* to) const {
  context_.ops.ConvertRows(
      {.rows = N(), .columns = columns, .from_stride = A() + E(), .to_stride = columns},
      context_.type, At(context_.type, qkv, first), context_.type, to);
}

void ContextPass::Unpack(const float* sums, int64_t first, int64_t columns, void* dqkv) const {
  context_.ops.ConvertRows(
      {.rows = N(), .columns = columns, .from_stride = columns, .to_stride = A() + E()},
      DType::kF32, sums, context_.type, At(context_.type, dqkv, first));
}

void ContextPass::ForEachTurn(const void* qkv,
                              absl::FunctionRef<void(const Turn& turn)> compute) const {
  const DType type = context_.type;
  void* here = arrays_.keys_values[0];
  void* coming = arrays_.keys_values[1];
  void* const own = gathers() ? At(type, here, group_.rank() * elements()) : here;
  Pack(qkv, A(), E(), own);
  if (gathers()) group_.Gather(type, elements(), own, here);
  for (int turn = 0; turn < group_.size(); ++turn) {
    const int source = SourceOfTurn(group_.size(), group_.rank(), turn);
    if (gathers()) {
      compute({turn, source, At(type, here, source * elements())});
      continue;
    }
    const bool last = turn + 1 == group_.size();
    if (!last) group_.StartToPass(type, elements(), here, coming);
    compute({turn, source, here});
    if (!last) group_.AwaitPassed();
    std::swap(here, coming);
  }
}

void ContextPass::ForEachPair(
    const Turn& turn, absl::FunctionRef<void(const AttentionShape& shape, const AttentionPart& part,
                                             int64_t query, int64_t key)>
                          attend) const {
  for (const ChunkPair& pair : ChunkPairs(group_.rank(), turn.source)) {
    const int64_t query = pair.query_half * chunk();
    AttentionShape shape = shape_;
    shape.token_positions = shape_.token_positions + query;
    attend(shape,
           {.queries = chunk(),
            .keys = chunk(),
            .first_query = FirstOfChunk(group_.size(), group_.rank(), pair.query_half, chunk()),
            .first_key = FirstOfChunk(group_.size(), turn.source, pair.key_half, chunk()),
            .query_rows = rows_,
            .key_rows = rows_},
           query, pair.key_half * chunk());
  }
}

void ContextPass::Forward(const AttentionArrays& arrays) const {
  const DType type = context_.type;
  float* const sums = type == DType::kF32 ? static_cast<float*>(arrays.out) : arrays_.sums;
  bool attended[2] = {};
  ForEachTurn(arrays.qkv, [&](const Turn& turn) {
    ForEachPair(turn, [&](const AttentionShape& shape, const AttentionPart& part, int64_t query,
                          int64_t key) {
      const bool more = std::exchange(attended[query / chunk()], true);
      context_.ops.AttentionOfPart(
          shape, part, type,
          {.queries = At(type, arrays.qkv, query * (A() + E())),
           .keys_values = At(type, turn.keys_values, key * E()),
           .accumulation = more ? Accumulation::kAdd : Accumulation::kWrite,
           .out = sums + query * A(),
           .logsumexp = arrays.logsumexp + query,
           .dropout = arrays.dropout});
    });
  });
  if (type != DType::kF32) context_.ops.Convert(N() * A(), DType::kF32, sums, type, arrays.out);
}

void ContextPass::Backward(const AttentionGradientArrays& arrays) const {
  Ops& ops = context_.ops;
  const DType type = context_.type;
  float* const own = arrays_.gradients[0] + (gathers() ? group_.rank() * elements() : 0);
  float* const coming = arrays_.gradients[1];
  ops.AttentionDelta(shape_, rows_, type, arrays.out, arrays.dout, arrays_.delta);
  ops.Zero(N() * A(), arrays_.sums);
  ForEachTurn(arrays.qkv, [&](const Turn& turn) {
    float* sums = turn.number == 0 ? own : arrays_.gradients[2 + (turn.number - 1) % 2];
    if (gathers()) sums = arrays_.gradients[0] + turn.source * elements();
    ops.Zero(elements(), sums);
    ForEachPair(turn, [&](const AttentionShape& shape, const AttentionPart& part, int64_t query,
                          int64_t key) {
      ops.AttentionPartBackward(shape, part, type,
                                {.queries = At(type, arrays.qkv, query * (A() + E())),
                                 .keys_values = At(type, turn.keys_values, key * E()),
                                 .logsumexp = arrays.logsumexp + query,
                                 .dropout = arrays.dropout,
                                 .delta = arrays_.delta + query,
                                 .dout = At(type, arrays.dout, query * A()),
                                 .dqueries = arrays_.sums + query * A(),
                                 .dkeys_values = sums + key * E()});
    });
    if (gathers() || turn.number == 0) return;
    if (turn.number > 1) {
      // The sums of the ranks between this one and the source, which follow keys and values.
      group_.AwaitPassed();
      ops.Add(elements(), coming, sums);
    }
    group_.StartToPass(DType::kF32, elements(), sums, coming);
  });
  if (gathers()) {
    group_.ScatterSums(DType::kF32, elements(), arrays_.gradients[0], own);
  } else {
    group_.AwaitPassed();
    ops.Add(elements(), coming, own);
  }
  Unpack(arrays_.sums, 0, A(), arrays.dqkv);
  Unpack(own, A(), E(), arrays.dqkv);
}

}  // namespace

void ContextAttentionStep::Forward(const ComputeContext& context, const AttentionShape& shape,
                                   const AttentionArrays& arrays) const {
  ContextPass(context, shape, arrays_).Forward(arrays);
}

void ContextAttentionStep::Backward(const ComputeContext& context, const AttentionShape& shape,
                                    const AttentionGradientArrays& arrays) const {
  ContextPass(context, shape, arrays_).Backward(arrays);
}

}  // namespace muster
