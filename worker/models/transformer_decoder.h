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
#include "worker/nn/activation_arena.h"
#include "worker/nn/layer.h"
#include "worker/nn/transformer/residual_norm.h"
#include "worker/nn/transformer/transformer_arrays.h"
#include "worker/nn/transformer/transformer_shape.h"
#include "worker/nn/transformer/transformer_tensors.h"

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

  // Prefill of one token.
  absl::StatusOr<absl::Span<const float>> Next(int32_t token);

  // Tokens that it holds at most: those of shape().context, but no more than kMostTokens.
  static constexpr int64_t kMostTokens = 32768;
  int64_t context() const { return capacity_; }

  // Tokens taken in.
  int64_t position() const { return position_; }

  // Forgets all of them.
  void Reset() { position_ = 0; }

  const TransformerShape& shape() const { return shape_; }

 private:
  // Of the rows that pass at once.
  struct Rows {
    float* stream = nullptr;  // [N, C]
    float* normal = nullptr;  // [N, C]
    float* wide = nullptr;    // [N, max(Q, U)]
    float* inner = nullptr;   // [N, max(F, C)]
    float* branch = nullptr;  // [N, C]
    float* mean = nullptr;    // [N]
    float* rstd = nullptr;    // [N]
  };

  TransformerDecoder(const TransformerShape& shape, ParameterSpans parameters);

  absl::Status Check(absl::Span<const int32_t> tokens) const;
  // Takes in at most kRowsAtOnce tokens.
  void TakeIn(absl::Span<const int32_t> tokens);
  // Attention of one block, from the normalised rows to the branch.
  void Attend(int64_t layer, int64_t count);
  void FeedForward(int64_t layer, int64_t count);
  void Multiply(const LayerTensors& layer, int64_t rows, int64_t in, int64_t out, const float* x,
                float* y);
  void Normalise(const LayerTensors& norm, int64_t count, const float* branch);
  const float* Get(int tensor) const;

  const TransformerShape shape_;
  const TransformerTensors tensors_;
  const ResidualNorm norm_;
  HostOps ops_;
  std::vector<absl::Span<const float>> parameters_;
  std::vector<float> rotary_table_;
  ActivationArena arena_;
  Rows rows_;
  const int64_t capacity_;
  // [layers, 2, KV, capacity, D]: keys, then values. Null: there was no memory.
  struct FreeDeleter {
    void operator()(float* memory) const { std::free(memory); }
  };
  const std::unique_ptr<float, FreeDeleter> cache_;
  std::vector<float> logits_;
  int64_t position_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_TRANSFORMER_DECODER_H_
