#include "worker/nn/transformer/attention/heads_attention.h"

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "common/compute/context_ring.h"
#include "worker/nn/context_group.h"
#include "worker/nn/transformer/arrays/typed_array.h"

namespace muster {
namespace {

// One call of the step. Rows of a rank's tokens have all heads; rows of whole sequences have this
// rank's; a part goes to or comes from one rank, with that one's tokens or heads.
class HeadsPass {
 public:
  HeadsPass(const ComputeContext& context, const AttentionShape& own, const BlockActivations& block)
      : context_(context), group_(*context.context_group), own_(own), block_(block) {}

  void Forward(const AttentionArrays& arrays, HeadsInput input) const;
  void Backward(const AttentionGradientArrays& arrays) const;

 private:
  // Columns of all heads that a rank of the group has some of.
  struct Columns {
    int64_t first = 0;
    int64_t count = 0;
  };

  int64_t ranks() const { return group_.size(); }
  // This rank's tokens, N.
  int64_t rows() const { return own_.B * own_.T; }
  int64_t heads() const { return own_.H / ranks(); }
  int64_t kv_heads() const { return std::max<int64_t>(1, own_.KV / ranks()); }
  // Ranks that have the same key-value heads.
  int64_t copies() const { return ranks() * kv_heads() / own_.KV; }
  // Columns of a token of all heads, of one rank's heads, and of attention's result for these.
  int64_t Q() const { return (own_.H + 2 * own_.KV) * own_.D; }
  int64_t width() const { return (heads() + 2 * kv_heads()) * own_.D; }
  int64_t out_width() const { return heads() * own_.D; }
  Columns QueriesOf(int64_t rank) const { return {rank * out_width(), out_width()}; }
  Columns KeysOf(int64_t rank) const {
    return {(own_.H + rank / copies() * kv_heads()) * own_.D, kv_heads() * own_.D};
  }
  Columns ValuesOf(int64_t rank) const {
    return {KeysOf(rank).first + own_.KV * own_.D, kv_heads() * own_.D};
  }
  const void* Part(const void* parts, int64_t rank, int64_t columns) const {
    return At(context_.type, parts, rank * rows() * columns);
  }
  void* Part(void* parts, int64_t rank, int64_t columns) const {
    return At(context_.type, parts, rank * rows() * columns);
  }

  // The shape of whole sequences with this rank's heads, and the dropout of these.
  AttentionShape Shape() const;
  OpDropout DropoutOf(OpDropout dropout) const;

  // Copies rows of this rank's tokens.
  void CopyRows(const void* from, int64_t from_stride, int64_t columns, void* to,
                int64_t to_stride) const {
    context_.ops.ConvertRows(
        {.rows = rows(), .columns = columns, .from_stride = from_stride, .to_stride = to_stride},
        context_.type, from, context_.type, to);
  }
  // Puts the tokens of all ranks' parts, of so many columns, in the order of sequences, or back.
  void Join(int64_t columns, const void* parts, void* sequences) const;
  void Divide(int64_t columns, const void* sequences, void* parts) const;
  // Calls `copy` for each rank's chunk of each sequence, with the chunk's first element in parts
  // and in sequences.
  void ForEachChunk(
      int64_t columns,
      absl::FunctionRef<void(int64_t in_parts, int64_t in_sequences, int64_t elements)> copy) const;

  void PackQkv(const void* qkv, void* parts) const;
  void PackResult(const void* result, void* parts) const;
  void UnpackResult(const void* parts, void* result) const;
  // Adds what several ranks have of the same heads. `sums` are room for 2 N D kv_heads() floats.
  void UnpackGradients(const void* parts, float* sums, void* dqkv) const;
  void Exchange(int64_t columns, const void* in, void* out) const {
    group_.Exchange(context_.type, rows() * columns, in, out);
  }

  const ComputeContext& context_;
  ContextGroup& group_;
  const AttentionShape& own_;
  const BlockActivations& block_;
};

AttentionShape HeadsPass::Shape() const {
  AttentionShape shape = own_;
  shape.T = context_.rows.share.whole;
  shape.H = heads();
  shape.KV = kv_heads();
  shape.token_positions = context_.rows.whole_positions;
  return shape;
}

OpDropout HeadsPass::DropoutOf(OpDropout dropout) const {
  if (dropout.heads == 0) dropout.heads = own_.H;
  dropout.first_head += group_.rank() * heads();
  return dropout;
}

void HeadsPass::ForEachChunk(
    int64_t columns,
    absl::FunctionRef<void(int64_t in_parts, int64_t in_sequences, int64_t elements)> copy) const {
  const int64_t chunk = context_.rows.share.half;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    for (int half = 0; half < 2; ++half) {
      const int64_t first =
          FirstOfChunk(static_cast<int>(ranks()), static_cast<int>(rank), half, chunk);
      for (int64_t b = 0; b < own_.B; ++b) {
        copy((rank * rows() + b * own_.T + half * chunk) * columns,
             (b * context_.rows.share.whole + first) * columns, chunk * columns);
      }
    }
  }
}

void HeadsPass::Join(int64_t columns, const void* parts, void* sequences) const {
  const DType type = context_.type;
  ForEachChunk(columns, [&](int64_t in_parts, int64_t in_sequences, int64_t elements) {
    context_.ops.Convert(elements, type, At(type, parts, in_parts), type,
                         At(type, sequences, in_sequences));
  });
}

void HeadsPass::Divide(int64_t columns, const void* sequences, void* parts) const {
  const DType type = context_.type;
  ForEachChunk(columns, [&](int64_t in_parts, int64_t in_sequences, int64_t elements) {
    context_.ops.Convert(elements, type, At(type, sequences, in_sequences), type,
                         At(type, parts, in_parts));
  });
}

void HeadsPass::PackQkv(const void* qkv, void* parts) const {
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    void* to = Part(parts, rank, width());
    for (const Columns& columns : {QueriesOf(rank), KeysOf(rank), ValuesOf(rank)}) {
      CopyRows(At(context_.type, qkv, columns.first), Q(), columns.count, to, width());
      to = At(context_.type, to, columns.count);
    }
  }
}

void HeadsPass::PackResult(const void* result, void* parts) const {
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    CopyRows(At(context_.type, result, QueriesOf(rank).first), own_.H * own_.D, out_width(),
             Part(parts, rank, out_width()), out_width());
  }
}

void HeadsPass::UnpackResult(const void* parts, void* result) const {
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    CopyRows(Part(parts, rank, out_width()), out_width(), out_width(),
             At(context_.type, result, QueriesOf(rank).first), own_.H * own_.D);
  }
}

void HeadsPass::UnpackGradients(const void* parts, float* sums, void* dqkv) const {
  const DType type = context_.type;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    CopyRows(Part(parts, rank, width()), width(), out_width(),
             At(type, dqkv, QueriesOf(rank).first), Q());
  }
  const int64_t columns = kv_heads() * own_.D;
  float* const added = sums + rows() * columns;
  for (int64_t first = 0; first < ranks(); first += copies()) {
    for (const bool values : {false, true}) {
      const int64_t column = out_width() + (values ? columns : 0);
      void* const gradient = At(type, dqkv, (values ? ValuesOf(first) : KeysOf(first)).first);
      const void* const part = At(type, Part(parts, first, width()), column);
      if (copies() == 1) {
        CopyRows(part, width(), columns, gradient, Q());
        continue;
      }
      for (int64_t rank = first; rank < first + copies(); ++rank) {
        context_.ops.ConvertRows(
            {.rows = rows(), .columns = columns, .from_stride = width(), .to_stride = columns},
            type, At(type, Part(parts, rank, width()), column), DType::kF32,
            rank == first ? sums : added);
        if (rank > first) context_.ops.Add(rows() * columns, added, sums);
      }
      context_.ops.ConvertRows(
          {.rows = rows(), .columns = columns, .from_stride = columns, .to_stride = Q()},
          DType::kF32, sums, type, gradient);
    }
  }
}

void HeadsPass::Forward(const AttentionArrays& arrays, HeadsInput input) const {
  const ContextArrays& own = block_.context;
  if (input == HeadsInput::kExchanged) {
    PackQkv(block_.qkv, own.head_qkv);
    Exchange(width(), own.head_qkv, block_.qkv);
    Join(width(), block_.qkv, own.head_qkv);
  }
  context_.ops.Attention(Shape(), context_.type,
                         {.qkv = own.head_qkv,
                          .out = own.head_attention,
                          .logsumexp = arrays.logsumexp,
                          .dropout = DropoutOf(arrays.dropout)});
  Divide(out_width(), own.head_attention, arrays.out);
  Exchange(out_width(), arrays.out, block_.qkv);
  UnpackResult(block_.qkv, arrays.out);
}

void HeadsPass::Backward(const AttentionGradientArrays& arrays) const {
  const ContextArrays& own = block_.context;
  void* const room = block_.qkv;
  PackResult(arrays.dout, room);
  Exchange(out_width(), room, arrays.dqkv);
  Join(out_width(), arrays.dqkv, room);
  context_.ops.AttentionBackward(Shape(), context_.type,
                                 {.qkv = own.head_qkv,
                                  .out = own.head_attention,
                                  .logsumexp = arrays.logsumexp,
                                  .dropout = DropoutOf(arrays.dropout),
                                  .dout = room,
                                  .dqkv = own.head_gradients});
  Divide(width(), own.head_gradients, own.head_qkv);
  Exchange(width(), own.head_qkv, own.head_gradients);
  // There is room for the sums: where ranks have copies, these are of one head's columns and take 8
  // bytes for each. The gradients take 2 bytes at least, for three heads of each of two ranks.
  UnpackGradients(own.head_gradients, static_cast<float*>(room), arrays.dqkv);
}

}  // namespace

void HeadsAttentionStep::Forward(const ComputeContext& context, const AttentionShape& shape,
                                 const AttentionArrays& arrays) const {
  HeadsPass(context, shape, block_).Forward(arrays, input_);
}

void HeadsAttentionStep::Backward(const ComputeContext& context, const AttentionShape& shape,
                                  const AttentionGradientArrays& arrays) const {
  HeadsPass(context, shape, block_).Backward(arrays);
}

}  // namespace muster
