#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model_files/model_folder.h"
#include "common/safetensors/safetensors_file.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/models/create_model.h"
#include "worker/models/local_trainer_for_testing.h"

namespace muster {
namespace {

class PyTorchGradientsTest : public testing::TestWithParam<const char*> {};

double NormOf(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

// Gradients of the loss, auxiliary losses included, are PyTorch's (testdata/make_models.py), as far
// as f32 goes. The sequence is shorter than the context: the tokens after it have no labels and
// count nowhere.
TEST_P(PyTorchGradientsTest, AreThoseOfMuster) {
  const std::string folder = absl::StrCat("worker/generate/testdata/", GetParam());
  const auto weights = ModelFolder::Open(folder);
  ASSERT_TRUE(weights.ok()) << weights.status();
  // The same tensors, with gradients in the place of weights.
  const auto expected = ModelFolder::Open(folder + "/gradients");
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto file = SafetensorsFile::Open(folder + "/expected.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const SafetensorsTensor& tokens = (*file)->tensors().at("tokens");
  const v1::TransformerSpec& spec = (*weights)->spec();
  Batch batch;
  batch.Clear();
  batch.examples = 1;
  batch.tokens.resize(spec.context());
  batch.labels.assign(spec.context(), -1);
  ASSERT_LE(tokens.elements(), spec.context());
  memcpy(batch.tokens.data(), tokens.bytes.data(), tokens.bytes.size());
  for (int64_t t = 0; t + 1 < tokens.elements(); ++t) batch.labels[t] = batch.tokens[t + 1];

  v1::ModelSpec model_spec;
  *model_spec.mutable_transformer() = spec;
  model_spec.mutable_transformer()->clear_dropout();
  model_spec.mutable_transformer()->clear_attention_dropout();
  const int64_t context = spec.context();
  const int64_t vocabulary = spec.vocabulary();
  const auto model = CreateModel(model_spec, {},
                                 {.examples = 1,
                                  .context = context,
                                  .vocabulary = vocabulary,
                                  .classes = vocabulary,
                                  .labels_per_example = context});
  ASSERT_TRUE(model.ok()) << model.status();
  LocalTrainer trainer(**model, 1);
  const std::vector<TensorSpec>& tensors = (*model)->description().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].tied_to.empty()) continue;
    const absl::Status read = (*weights)->Read(tensors[t].name, trainer.parameters()[t]);
    ASSERT_TRUE(read.ok()) << read;
  }
  ASSERT_TRUE(trainer.Load(batch).ok());
  ASSERT_TRUE(trainer.Run().ok());
  ASSERT_EQ(trainer.micro_batch().loss_weight, tokens.elements() - 1);
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].tied_to.empty()) continue;
    std::vector<float> gradient;
    ASSERT_TRUE((*expected)->Read(tensors[t].name, gradient).ok());
    std::vector<float> difference = trainer.gradients()[t];
    ASSERT_EQ(difference.size(), gradient.size()) << tensors[t].name;
    for (size_t i = 0; i < gradient.size(); ++i) difference[i] -= gradient[i];
    ASSERT_GT(NormOf(gradient), 0) << tensors[t].name;
    EXPECT_LE(NormOf(difference), 1e-5 * NormOf(gradient)) << tensors[t].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PyTorchGradientsTest,
                         testing::Values("gpt2", "llama", "llama3", "mistral", "qwen2",
                                         "qwen2_window", "qwen3", "mixtral", "qwen2_moe",
                                         "qwen3_moe", "olmoe"));

}  // namespace
}  // namespace muster
