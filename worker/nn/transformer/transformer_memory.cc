#include "worker/nn/transformer/transformer_memory.h"

#include <algorithm>

namespace muster {

class TransformerMemory::Cursor {
 public:
  // Reserves at first; from Commit on it walks over the same pieces and gives their places.
  Cursor(ActivationArena& arena, DType type) : arena_(arena), type_(type) { arena_.Begin(); }

  void Commit() {
    arena_.Commit();
    arena_.Begin();
    committed_ = true;
  }

  // Elements of T.
  void Take(int64_t elements, void*& piece) { piece = Place(elements, SizeOf(type_)); }
  void Take(int64_t elements, float*& piece) {
    piece = static_cast<float*>(Place(elements, sizeof(float)));
  }

 private:
  void* Place(int64_t elements, size_t element_bytes) {
    const size_t offset = arena_.Reserve<std::byte>(elements * element_bytes);
    return committed_ ? arena_.At<std::byte>(offset) : nullptr;
  }

  ActivationArena& arena_;
  const DType type_;
  bool committed_ = false;
};

TransformerMemory::TransformerMemory(const TransformerShape& shape, DType type, Recompute recompute)
    : shape_(shape),
      type_(type),
      recompute_(recompute),
      head_layer_(shape),
      blocks_(shape.layers) {}

void TransformerMemory::Prepare(const TokenRows& rows, Pass pass) {
  if (prepared_ && rows.sequences == sequences_ && rows.length == length_ && pass == pass_) {
    return;
  }
  Cursor cursor(arena_, type_);
  Visit(rows, pass, cursor);
  cursor.Commit();
  Visit(rows, pass, cursor);
  prepared_ = true;
  sequences_ = rows.sequences;
  length_ = rows.length;
  pass_ = pass;
}

void TransformerMemory::Visit(const TokenRows& rows, Pass pass, Cursor& cursor) {
  const int64_t N = rows.count();
  const int64_t C = shape_.width;
  const int64_t Q = shape_.qkv_width();
  const int64_t U = shape_.up_width();
  const int64_t F = shape_.feed_forward;
  const bool training = pass == Pass::kTraining;
  for (size_t l = 0; l < blocks_.size(); ++l) {
    BlockActivations& block = blocks_[l];
    // An array of its own, or that of the first block.
    const auto take = [&](bool own, int64_t elements, auto BlockActivations::*piece) {
      if (own || l == 0) {
        cursor.Take(elements, block.*piece);
      } else {
        block.*piece = blocks_[0].*piece;
      }
    };
    const auto take_norm = [&](bool own_sum, bool own, NormActivations BlockActivations::*norm) {
      NormActivations& pieces = block.*norm;
      if (l > 0) pieces = blocks_[0].*norm;
      if (own_sum || l == 0) cursor.Take(N * C, pieces.sum);
      if (own || l == 0) cursor.Take(N, pieces.mean);
      if (own || l == 0) cursor.Take(N, pieces.rstd);
    };
    const bool keeps_products = training && recompute_ != Recompute::kFull;
    const bool keeps_all = training && recompute_ == Recompute::kNone;
    take_norm(training, keeps_all, &BlockActivations::norm1);
    take(keeps_all, N * C, &BlockActivations::norm1_out);
    take(keeps_products, N * Q, &BlockActivations::qkv);
    take(keeps_all, N * C, &BlockActivations::attention);
    take(keeps_all, shape_.heads * N, &BlockActivations::logsumexp);
    take_norm(keeps_products, keeps_all, &BlockActivations::norm2);
    take(keeps_all, N * C, &BlockActivations::norm2_out);
    take(keeps_products, N * U, &BlockActivations::up);
    take(keeps_all, N * F, &BlockActivations::activated);
  }
  cursor.Take(N * C, head_.norm.sum);
  cursor.Take(N, head_.norm.mean);
  cursor.Take(N, head_.norm.rstd);
  cursor.Take(N * C, head_.norm_out);
  cursor.Take(head_layer_.LogitRows(N) * shape_.vocabulary_rows(), head_.logits);
  cursor.Take(N * C, scratch_.branch);
  if (!training) {
    scratch_.inner = nullptr;
    scratch_.wide = nullptr;
    stream_gradient_ = nullptr;
    return;
  }
  cursor.Take(N * std::max(F, C), scratch_.inner);
  cursor.Take(N * std::max(Q, U), scratch_.wide);
  cursor.Take(N * C, stream_gradient_);
}

}  // namespace muster
