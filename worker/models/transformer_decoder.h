#ifndef MUSTER_WORKER_MODELS_TRANSFORMER_DECODER_H_
#define MUSTER_WORKER_MODELS_TRANSFORMER_DECODER_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/compute/host_ops.h"
#include "worker/nn/layer.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_memory.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/arrays/transformer_tensors.h"
#include "worker/nn/transformer/residual_norm.h"
#include "worker/nn/transformer/transformer_block.h"
#include "worker/nn/transformer/transformer_embedding.h"

namespace muster {

// Generation with a trained transformer: takes tokens in, one after another or many at once, and
// says how likely each token is to come next. Keys and values of the tokens so far are kept
// (Shazeer, "Fast Transformer Decoding", 2019), so that a token costs one pass over the weights,
// and no more for those before it than attention to them. In f32, on ComputeThreads() threads. Not
// thread-safe.
class TransformerDecoder {
 public:
  // `parameters` by tensor of MakeTransformerTensors(shape), that of a tied head being of no
  // matter; they outlive the decoder. InvalidArgument: one has not the elements that its shape says
  // (names it). ResourceExhausted: no memory for keys and values.
  static absl::StatusOr<std::unique_ptr<TransformerDecoder>> Create(const TransformerShape& shape,
                                                                    ParameterSpans parameters);

  // Takes the tokens in after those before, and returns the logits of the token that follows the
  // last of them: [V], valid until the next call. InvalidArgument: no token, or one outside the
  // vocabulary. OutOfRange: more than context() tokens in all; nothing was taken in. (Take the
  // last few tokens, Reset and begin again.)
  absl::StatusOr<absl::Span<const float>> Prefill(absl::Span<const int32_t> tokens);

  // Tokens that it holds at most: those of shape().context, but no more than kMostTokens.
  static constexpr int64_t kMostTokens = 32768;
  int64_t context() const { return capacity_; }

  // Tokens taken in.
  int64_t position() const { return position_; }

  // Forgets all of them.
  void Reset() { position_ = 0; }

  const TransformerShape& shape() const { return shape_; }

 private:
  TransformerDecoder(const TransformerShape& shape, ParameterSpans parameters);

  absl::Status Check(absl::Span<const int32_t> tokens) const;
  // Takes in at most kRowsAtOnce tokens and returns the last one's row after the last norm: [C].
  const float* TakeIn(absl::Span<const int32_t> tokens);
  BlockWeights WeightsOf(const BlockTensors& block) const;
  // Returns null where the shape does not have the tensor.
  const float* Get(int tensor) const;

  const TransformerShape shape_;
  const TransformerTensors tensors_;
  const TransformerEmbedding embedding_;
  const ResidualNorm norm_;
  HostOps ops_;
  TransformerMemory memory_;
  std::vector<absl::Span<const float>> parameters_;
  const int64_t capacity_;
  // [layers, 2, KV, capacity, D]: keys, then values. Null: there was no memory.
  struct FreeDeleter {
    void operator()(float* memory) const { std::free(memory); }
  };
  const std::unique_ptr<float, FreeDeleter> cache_;
  // Const after construction.
  std::vector<float> rotary_table_;
  std::vector<TransformerBlock> blocks_;
  int64_t position_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_TRANSFORMER_DECODER_H_
