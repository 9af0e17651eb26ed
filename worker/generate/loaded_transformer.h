#ifndef MUSTER_WORKER_GENERATE_LOADED_TRANSFORMER_H_
#define MUSTER_WORKER_GENERATE_LOADED_TRANSFORMER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model_files/weights.h"
#include "worker/generate/generator.h"
#include "worker/models/transformer_decoder.h"
#include "worker/nn/transformer/arrays/adapter_shape.h"

namespace muster {

// A trained transformer in memory, ready to generate: its weights and a decoder over them, on
// ComputeThreads() threads. Not thread-safe.
class LoadedTransformer final : public NextTokenModel {
 public:
  // `adapter`: the adapters that the weights have. InvalidArgument: the specification is out of
  // range, or a tensor is missing or of another shape than the specification says (named, with
  // both).
  static absl::StatusOr<std::unique_ptr<LoadedTransformer>> Create(
      const Weights& weights, const AdapterShape& adapter = {});

  int64_t context() const override { return decoder_->context(); }
  int64_t vocabulary() const { return decoder_->shape().vocabulary; }
  absl::StatusOr<absl::Span<const float>> Take(absl::Span<const int32_t> tokens) override {
    return decoder_->Prefill(tokens);
  }
  void Forget() override { decoder_->Reset(); }

 private:
  LoadedTransformer() = default;

  // By tensor of MakeTransformerTensors; that of a tied head is empty. Const after Create.
  std::vector<std::vector<float>> parameters_;
  std::unique_ptr<TransformerDecoder> decoder_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_GENERATE_LOADED_TRANSFORMER_H_
