#include "worker/nn/transformer_memory.h"

#include <algorithm>

namespace muster {

template <typename T>
class TransformerMemory<T>::Cursor {
 public:
  // Reserves at first; from Commit on it walks over the same pieces and gives their places.
  explicit Cursor(ActivationArena& arena) : arena_(arena) { arena_.Begin(); }

  void Commit() {
    arena_.Commit();
    arena_.Begin();
    committed_ = true;
  }

  template <typename E>
  void Take(int64_t elements, E*& piece) {
    const size_t offset = arena_.Reserve<E>(elements);
    piece = committed_ ? arena_.At<E>(offset) : nullptr;
  }

 private:
  ActivationArena& arena_;
  bool committed_ = false;
};

template <typename T>
TransformerMemory<T>::TransformerMemory(const TransformerShape& shape, Recompute recompute)
    : shape_(shape), recompute_(recompute), head_layer_(shape), blocks_(shape.layers) {}

template <typename T>
void TransformerMemory<T>::Prepare(const TokenRows& rows, Pass pass) {
  if (prepared_ && rows.sequences == sequences_ && rows.length == length_ && pass == pass_) {
    return;
  }
  Cursor cursor(arena_);
  Visit(rows, pass, cursor);
  cursor.Commit();
  Visit(rows, pass, cursor);
  prepared_ = true;
  sequences_ = rows.sequences;
  length_ = rows.length;
  pass_ = pass;
}

template <typename T>
void TransformerMemory<T>::Visit(const TokenRows& rows, Pass pass, Cursor& cursor) {
  const int64_t N = rows.count();
  const int64_t C = shape_.width;
  const int64_t Q = shape_.qkv_width();
  const int64_t U = shape_.up_width();
  const int64_t F = shape_.feed_forward;
  const bool training = pass == Pass::kTraining;
  for (size_t l = 0; l < blocks_.size(); ++l) {
    BlockActivations<T>& block = blocks_[l];
    // An array of its own, or that of the first block.
    const auto take = [&](bool own, int64_t elements, auto BlockActivations<T>::*piece) {
      if (own || l == 0) {
        cursor.Take(elements, block.*piece);
      } else {
        block.*piece = blocks_[0].*piece;
      }
    };
    const auto take_norm = [&](bool own_sum, bool own, NormActivations BlockActivations<T>::*norm) {
      NormActivations& pieces = block.*norm;
      if (l > 0) pieces = blocks_[0].*norm;
      if (own_sum || l == 0) cursor.Take(N * C, pieces.sum);
      if (own || l == 0) cursor.Take(N, pieces.mean);
      if (own || l == 0) cursor.Take(N, pieces.rstd);
    };
    const bool keeps_products = training && recompute_ != Recompute::kFull;
    const bool keeps_all = training && recompute_ == Recompute::kNone;
    take_norm(training, keeps_all, &BlockActivations<T>::norm1);
    take(keeps_all, N * C, &BlockActivations<T>::norm1_out);
    take(keeps_products, N * Q, &BlockActivations<T>::qkv);
    take(keeps_all, N * C, &BlockActivations<T>::attention);
    take(keeps_all, shape_.heads * N, &BlockActivations<T>::logsumexp);
    take_norm(keeps_products, keeps_all, &BlockActivations<T>::norm2);
    take(keeps_all, N * C, &BlockActivations<T>::norm2_out);
    take(keeps_products, N * U, &BlockActivations<T>::up);
    take(keeps_all, N * F, &BlockActivations<T>::activated);
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

template class TransformerMemory<float>;
template class TransformerMemory<BFloat16>;
template class TransformerMemory<Float16>;

}  // namespace muster
