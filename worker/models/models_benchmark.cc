// Examples a second of each model on one thread, without optimizer and network: Load, forward and
// backward of one micro-batch. Rows are set once, as whoever holds them delivers them.

#include <string>

#include "benchmark/benchmark.h"
#include "common/base/philox.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"
#include "worker/models/create_model.h"
#include "worker/models/local_trainer_for_testing.h"

namespace muster {
namespace {

std::unique_ptr<const Model> MakeModel(const std::string& text, const DatasetInfo& data) {
  v1::ModelSpec spec;
  google::protobuf::TextFormat::ParseFromString(text, &spec);
  return CreateModel(spec, v1::ComputeSpec(), data).value();
}

void Run(benchmark::State& state, const Model& model, const Batch& batch) {
  LocalTrainer trainer(model, 1);
  if (!trainer.Load(batch).ok()) return state.SkipWithError("the batch does not fit the model");
  for (auto _ : state) {
    const bool ok = model.Load(batch, trainer.micro_batch()).ok() && trainer.Run().ok();
    if (!ok) state.SkipWithError("a pass failed");
    benchmark::DoNotOptimize(trainer.micro_batch().loss_sum);
  }
  state.SetItemsProcessed(state.iterations() * batch.examples);
}

Batch Dense(int64_t examples, int64_t features, int64_t classes) {
  const Philox random(1, "benchmark", "dense");
  Batch batch;
  batch.Clear();
  batch.examples = examples;
  for (int64_t i = 0; i < examples * features; ++i) batch.dense.push_back(random.Uniform(i));
  for (int64_t i = 0; i < examples; ++i) batch.labels.push_back(i % classes);
  return batch;
}

// Values by a power law, so that some keys are in many examples.
void AddFields(int64_t fields, uint64_t cardinality, Batch& batch) {
  const Philox random(2, "benchmark", "fields");
  for (int64_t i = 0; i < batch.examples; ++i) {
    for (int64_t f = 0; f < fields; ++f) {
      const float u = random.Uniform(i, f);
      batch.keys.push_back(static_cast<uint64_t>(f) << 40 |
                           static_cast<uint64_t>(u * u * u * cardinality));
      batch.values.push_back(1);
    }
    batch.offsets.push_back(batch.keys.size());
  }
}

Batch Text(int64_t examples, int64_t context) {
  const Philox random(3, "benchmark", "text");
  Batch batch;
  batch.Clear();
  batch.examples = examples;
  for (int64_t i = 0; i < examples; ++i) {
    for (int64_t c = 0; c < context; ++c) {
      const float u = random.Uniform(i, c);
      batch.tokens.push_back(static_cast<int32_t>('a' + 26 * u * u));
    }
    batch.labels.push_back('a' + i % 26);
  }
  return batch;
}

void BM_Mlp(benchmark::State& state) {
  const auto model =
      MakeModel("mlp { hidden: 256 classes: 10 }", {.dense_features = 784, .classes = 10});
  Run(state, *model, Dense(state.range(0), 784, 10));
}
BENCHMARK(BM_Mlp)->Arg(128)->Arg(1024);

void BM_Ngram(benchmark::State& state) {
  const auto model =
      MakeModel("ngram { orders: 5 embedding_dim: " + std::to_string(state.range(1)) +
                    " hidden: " + std::to_string(state.range(2)) + " }",
                {.context = 5, .vocabulary = 256, .classes = 256});
  Run(state, *model, Text(state.range(0), 5));
}
BENCHMARK(BM_Ngram)->Args({512, 16, 128})->Args({2048, 16, 128})->Args({2048, 32, 256});

void BM_LogisticRegression(benchmark::State& state) {
  const auto model = MakeModel("logistic_regression {}", {.sparse = true, .classes = 2});
  Batch batch = Dense(state.range(0), 0, 2);
  AddFields(40, 100000, batch);
  Run(state, *model, batch);
}
BENCHMARK(BM_LogisticRegression)->Arg(2048);

void BM_DeepFm(benchmark::State& state) {
  const auto model = MakeModel("deep_fm { embedding_dim: 16 hidden: 400 hidden: 400 }",
                               {.dense_features = 13, .sparse = true, .fields = 26, .classes = 2});
  Batch batch = Dense(state.range(0), 13, 2);
  AddFields(26, 1000000, batch);
  Run(state, *model, batch);
}
BENCHMARK(BM_DeepFm)->Arg(2048);

void BM_LoadNgram(benchmark::State& state) {
  const auto model = MakeModel("ngram { orders: 5 embedding_dim: 16 hidden: 128 }",
                               {.context = 5, .vocabulary = 256, .classes = 256});
  const Batch batch = Text(2048, 5);
  const auto micro_batch = model->NewMicroBatch();
  for (auto _ : state) {
    if (!model->Load(batch, *micro_batch).ok()) state.SkipWithError("the batch does not fit");
  }
  state.SetItemsProcessed(state.iterations() * batch.examples);
}
BENCHMARK(BM_LoadNgram);

}  // namespace
}  // namespace muster
