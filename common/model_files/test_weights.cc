#include "common/model_files/test_weights.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace muster {

using Spec = v1::TransformerSpec;

Spec SmallGpt2() {
  Spec spec;
  spec.set_layers(2);
  spec.set_width(4);
  spec.set_heads(2);
  spec.set_context(8);
  FillTransformerDefaults(11, spec);
  return spec;
}

Spec SmallLlama() {
  Spec spec = SmallGpt2();
  spec.set_kv_heads(1);
  spec.set_norm(Spec::RMS_NORM);
  spec.set_positions(Spec::ROTARY);
  spec.set_activation(Spec::SWIGLU);
  spec.set_no_biases(true);
  spec.set_separate_head(true);
  return spec;
}

Spec SmallMixtral() {
  Spec spec = SmallLlama();
  spec.set_feed_forward(6);
  v1::MoeSpec& moe = *spec.mutable_moe();
  moe.set_experts(3);
  moe.set_top_k(2);
  moe.set_normalize(true);
  moe.set_auxiliary_loss(0.02f);
  moe.set_auxiliary_scope(v1::MoeSpec::MICRO_BATCH);
  FillTransformerDefaults(11, spec);
  return spec;
}

Spec SmallQwen2Moe() {
  Spec spec = SmallMixtral();
  spec.set_layers(3);
  v1::MoeSpec& moe = *spec.mutable_moe();
  moe.set_expert_width(5);
  moe.set_normalize(false);
  moe.set_shared_width(7);
  moe.set_shared_gate(true);
  moe.add_dense_layers(1);
  return spec;
}

Spec SmallQwen2() {
  Spec spec = SmallLlama();
  spec.set_head_width(3);
  spec.set_attention_biases(true);
  return spec;
}

Spec SmallQwen3() {
  Spec spec = SmallLlama();
  spec.set_head_width(6);
  spec.set_query_key_norm(Spec::PER_HEAD);
  return spec;
}

Spec SmallQwen3Moe() {
  Spec spec = SmallMixtral();
  spec.set_query_key_norm(Spec::PER_HEAD);
  spec.mutable_moe()->set_expert_width(5);
  return spec;
}

Spec SmallOlmoe() {
  Spec spec = SmallMixtral();
  spec.set_query_key_norm(Spec::WHOLE_WIDTH);
  spec.mutable_moe()->set_normalize(false);
  return spec;
}

TestWeights::TestWeights(Spec spec) : spec_(std::move(spec)) {
  const HuggingFaceFamily family = *FamilyOf(spec_);
  tensors_ = MusterTensors(HuggingFaceTensors(family, spec_));
  float value = 1;
  for (const MusterTensor& tensor : tensors_) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    for (int64_t i = 0; i < elements; ++i) values_[tensor.name].push_back(value++);
  }
}

void ExpectSameWeights(const Weights& actual, const Weights& expected) {
  EXPECT_EQ(actual.spec().DebugString(), expected.spec().DebugString());
  for (const MusterTensor& tensor : expected.tensors()) {
    std::vector<float> a, b;
    ASSERT_TRUE(actual.Read(tensor.name, a).ok()) << tensor.name;
    ASSERT_TRUE(expected.Read(tensor.name, b).ok());
    EXPECT_EQ(a, b) << tensor.name;
  }
  std::vector<float> none;
  EXPECT_EQ(actual.Read("none", none).code(), absl::StatusCode::kNotFound);
}

}  // namespace muster
