#ifndef MUSTER_COMMON_MODEL_FILES_TEST_WEIGHTS_H_
#define MUSTER_COMMON_MODEL_FILES_TEST_WEIGHTS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/model_files/transformer_layout.h"
#include "common/model_files/weights.h"
#include "proto/job.pb.h"

namespace muster {

// Complete specifications of small transformers.
v1::TransformerSpec SmallGpt2();
v1::TransformerSpec SmallLlama();
// Has 3 experts, 2 of them for a token.
v1::TransformerSpec SmallMixtral();
// Has a dense layer among those with experts, and a shared expert.
v1::TransformerSpec SmallQwen2Moe();
// Have heads that are narrower and wider together than the model.
v1::TransformerSpec SmallQwen2();
v1::TransformerSpec SmallQwen3();
v1::TransformerSpec SmallQwen3Moe();
v1::TransformerSpec SmallOlmoe();

// Weights in memory, each with a different value.
class TestWeights final : public Weights {
 public:
  // Let a test damage the weights.
  std::vector<MusterTensor>& tensors_to_spoil() { return tensors_; }
  std::map<std::string, std::vector<float>>& values_to_spoil() { return values_; }
  v1::TransformerSpec& spec_to_spoil() { return spec_; }

  // REQUIRES: the specification is of a known family.
  explicit TestWeights(v1::TransformerSpec spec);

  const v1::TransformerSpec& spec() const override { return spec_; }
  const std::vector<MusterTensor>& tensors() const override { return tensors_; }
  absl::Status Read(const std::string& tensor, std::vector<float>& values) const override {
    values = values_.at(tensor);
    return absl::OkStatus();
  }

 private:
  v1::TransformerSpec spec_;
  std::vector<MusterTensor> tensors_;
  std::map<std::string, std::vector<float>> values_;
};

// Expects the same model and the same values.
void ExpectSameWeights(const Weights& actual, const Weights& expected);

}  // namespace muster

#endif  // MUSTER_COMMON_MODEL_FILES_TEST_WEIGHTS_H_
