#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_MEMORY_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_MEMORY_H_

#include <cstddef>
#include <vector>

#include "common/tensor/dtype.h"
#include "worker/nn/activation_arena.h"
#include "worker/nn/layer_context.h"
#include "worker/nn/transformer/language_head.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"

namespace muster {

// Where the arrays of one micro-batch are: one arena, laid out for its size, sized once and used
// again. In training every block has what it keeps for itself; what recomputation makes again, and
// in an evaluation everything, is one set for all blocks. Not thread-safe.
//
// Kept per token and block, beside the statistics of norms and attention: 3 C + Q + U + F elements
// of T and 2 C of f32 (the residual stream) without recomputation; Q + U and 2 C with the selective
// one; C of f32 alone with the full one.
class TransformerMemory {
 public:
  // `type`: T of transformer_arrays.h.
  TransformerMemory(const TransformerShape& shape, DType type, Recompute recompute);

  // Lays out for these rows; nothing happens where it is laid out so already.
  void Prepare(const TokenRows& rows, Pass pass);

  const BlockActivations& block(int64_t layer) const { return blocks_[layer]; }
  const LanguageHeadActivations& head() const { return head_; }
  const BlockScratch& scratch() const { return scratch_; }
  // [N, C]; null in an evaluation.
  float* stream_gradient() const { return stream_gradient_; }

  // Of the present layout.
  size_t bytes() const { return arena_.used(); }

 private:
  // Either counts or hands out, in the same order.
  class Cursor;

  void Visit(const TokenRows& rows, Pass pass, Cursor& cursor);

  const TransformerShape shape_;
  const DType type_;
  const Recompute recompute_;
  const LanguageHead head_layer_;
  bool prepared_ = false;
  int64_t sequences_ = 0;
  int64_t length_ = 0;
  Pass pass_ = Pass::kTraining;
  ActivationArena arena_;
  std::vector<BlockActivations> blocks_;
  LanguageHeadActivations head_;
  BlockScratch scratch_;
  float* stream_gradient_ = nullptr;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_MEMORY_H_
