#include "tests/benchmarks/train_case.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "google/protobuf/text_format.h"

namespace muster {
namespace {

v1::JobSpec Parse(const std::string& text) {
  v1::JobSpec spec;
  // Text of this file.
  if (!google::protobuf::TextFormat::ParseFromString(text, &spec)) std::abort();
  return spec;
}

struct GptShape {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;
  int64_t batch = 0;
};

TrainCase Gpt(const std::string& name, const std::string& type, const GptShape& shape) {
  TrainCase one;
  one.name = name;
  one.type = type;
  one.unit = "tokens";
  one.items = shape.batch * shape.context;
  const double matrices = 12.0 * shape.layers * shape.width * shape.width +
                          static_cast<double>(shape.vocabulary) * shape.width;
  one.flops_per_item = 6 * matrices + 6.0 * shape.layers * shape.width * shape.context;
  one.spec = Parse(
      absl::StrCat("model { transformer { layers: ", shape.layers, " width: ", shape.width,
                   " heads: ", shape.heads, " context: ", shape.context,
                   " } } compute { type: ", type == "bf16" ? "BF16" : "F32",
                   " } optimizer { name: 'adamw' learning_rate: 3e-4 } batch_size: ", shape.batch));
  one.data = {.context = shape.context,
              .vocabulary = shape.vocabulary,
              .classes = shape.vocabulary,
              .labels_per_example = shape.context};
  return one;
}

TrainCase Mlp() {
  TrainCase one;
  one.name = "mlp";
  one.type = "f32";
  one.unit = "samples";
  one.items = 128;
  one.flops_per_item = 6.0 * (784 * 512 + 512 * 512 + 512 * 10);
  one.spec = Parse(
      "model { mlp { hidden: [ 512, 512 ] classes: 10 } } "
      "optimizer { name: 'sgd' learning_rate: 0.01 } batch_size: 128");
  one.data = {.dense_features = 784, .classes = 10};
  return one;
}

TrainCase DeepFm() {
  TrainCase one;
  one.name = "deep-fm";
  one.type = "f32";
  one.unit = "samples";
  one.items = 2048;
  one.flops_per_item = 6.0 * (26 * 16 * 400 + 400 * 400 + 400);
  one.spec = Parse(
      "model { deep_fm { embedding_dim: 16 hidden: [ 400, 400 ] } } "
      "optimizer { name: 'sgd' learning_rate: 0.01 } batch_size: 2048");
  one.data = {.sparse = true, .fields = 26, .classes = 2};
  return one;
}

// Rows of each of DeepFM's tables.
constexpr uint64_t kCardinality = 1000000;

Batch RandomBatch(const TrainCase& one, uint64_t seed) {
  const Philox random(seed, "bench", one.name);
  Batch batch;
  batch.Clear();
  batch.examples = one.spec.batch_size();
  const int64_t labels = batch.examples * one.data.labels_per_example;
  for (int64_t i = 0; i < labels; ++i) {
    batch.labels.push_back(static_cast<int32_t>(random.Below(one.data.classes, i)));
  }
  for (int64_t i = 0; i < batch.examples * one.data.context; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(one.data.vocabulary, i, 1)));
  }
  for (int64_t i = 0; i < batch.examples * one.data.dense_features; ++i) {
    batch.dense.push_back(random.Uniform(i, 2));
  }
  for (int64_t i = 0; i < batch.examples * one.data.fields; ++i) {
    const uint64_t field = i % one.data.fields;
    batch.keys.push_back(field * kCardinality + random.Below(kCardinality, i, 3));
    batch.values.push_back(1);
    if (field + 1 == static_cast<uint64_t>(one.data.fields)) {
      batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
    }
  }
  return batch;
}

}  // namespace

std::vector<TrainCase> TrainCases() {
  const GptShape small = {
      .layers = 6, .width = 384, .heads = 6, .vocabulary = 256, .context = 256, .batch = 8};
  const GptShape gpt2 = {
      .layers = 12, .width = 768, .heads = 12, .vocabulary = 50257, .context = 64, .batch = 4};
  std::vector<TrainCase> cases;
  for (const char* type : {"f32", "bf16"}) cases.push_back(Gpt("gpt-10m", type, small));
  for (const char* type : {"f32", "bf16"}) cases.push_back(Gpt("gpt2-124m", type, gpt2));
  cases.push_back(Mlp());
  cases.push_back(DeepFm());
  return cases;
}

std::vector<Batch> RandomBatches(const TrainCase& one, int count) {
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) batches.push_back(RandomBatch(one, i));
  return batches;
}

}  // namespace muster
