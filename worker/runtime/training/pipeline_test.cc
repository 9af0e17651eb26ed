// Stages of a pipeline as threads, on processors or on emulated devices, against the whole model in
// one process.
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/clock.h"
#include "common/files/temp_folder.h"
#include "common/step/stage_shape.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/data/sampling/sampler.h"
#include "worker/device/memory/device_options.h"
#include "worker/device/weights/copying_strategy.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/stage_links.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {
namespace {

enum class Hardware { kProcessors, kDevice };

constexpr uint64_t kSteps = 6;
constexpr int kBatch = 24;
constexpr int kEvaluated = 40;
constexpr int kUnits = 5;
// Outputs of the perceptron's units.
constexpr int kWidths[kUnits] = {8, 6, 7, 5, 3};
// Outputs of the transformers' units: tokens times width.
constexpr int kStream = 4 * 8;

// A job's model and data, in protobuf's text format; units are five.
struct TestModel {
  const char* name;
  const char* text;
  // Other fields of the job.
  const char* more = "";

  bool is_transformer() const { return absl::StrContains(text, "transformer"); }
  // Returns the numbers that a unit hands the next of one example.
  int OutputOf(int unit) const { return is_transformer() ? kStream : kWidths[unit]; }
};

constexpr TestModel kModels[] = {
    {"Perceptron", "mlp { hidden: [8, 6, 7, 5] classes: 3 } "},
    {"Transformer", "transformer { layers: 3 width: 8 heads: 2 context: 4 separate_head: true } "},
    {"TransformerWithDropout",
     "transformer { layers: 3 width: 8 heads: 2 context: 4 separate_head: true dropout: 0.1 "
     "positions: ROTARY norm: RMS_NORM activation: SWIGLU } "},
    {"TransformerThatRecomputes",
     "transformer { layers: 3 width: 8 heads: 2 context: 4 separate_head: true dropout: 0.1 } ",
     "compute { recompute: FULL } "},
};

v1::JobSpec Job(const TestModel& model, int micro_batches) {
  static const TempFolder* const folder = new TempFolder();
  static const std::string* const text = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i * i % 23);
    return new std::string(folder->Write("text", text));
  }();
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(
          "model { ", model.text, "} data { holdout: 0.2 ",
          model.is_transformer()
              ? absl::StrCat("sequences { tokenizer: 'bytes' path: '", *text, "' } ")
              : "synthetic_classification { examples: 200 features: 9 classes: 3 } ",
          "} optimizer { name: 'adam' learning_rate: 0.05 } workers: 1 stop { steps: ", kSteps,
          " } batch_size: ", kBatch, " micro_batches: ", micro_batches, " ", model.more),
      &spec));
  return spec;
}

// The results of one rank after its steps.
struct Trained {
  absl::Status status;
  // By tensor.
  std::vector<std::vector<float>> values;
  std::vector<double> losses;
  PassResult evaluated;
  std::vector<float> probabilities;
};

// One rank's strategy and engine, on processors or on a device. The strategy has the whole model's
// parameters, whatever units the engine runs.
class Rank {
 public:
  Rank(const v1::JobSpec& spec, const PreparedJob& job, Hardware hardware,
       const absl::optional<ModelStage>& stage = absl::nullopt, Communicator* stages = nullptr)
      : strategy_(LocalStrategy::Create(*job.schema).value()) {
    // An evaluation has more rows than a micro-batch.
    if (hardware == Hardware::kDevice) {
      DeviceOptions options = DeviceOptionsFor(spec, job.dataset->info(), /*device=*/0).value();
      options.compute.sequences = kEvaluated;
      if (stage.has_value()) TakeStage(*stage, options.compute);
      copying_ = CopyingStrategy::Create(*strategy_, options).value();
      engine_ = MakeDeviceEngine(spec, options,
                                 {.passes = copying_->passes(),
                                  .strategy = *copying_,
                                  .stage = stage,
                                  .stages = stages})
                    .value();
      return;
    }
    if (stages != nullptr) {
      links_ = StageLinks::Create(
                   *stages, {.message_bytes = kEvaluated * kStream * sizeof(float), .received = 4})
                   .value();
    }
    engine_ = std::make_unique<StepExecutor>(
        spec, *job.model, *strategy_, StepExecutor::Options{.stage = stage, .links = links_});
  }

  LocalStrategy& strategy() { return *strategy_; }
  StepEngine& engine() { return *engine_; }

 private:
  const std::unique_ptr<LocalStrategy> strategy_;
  // Null on processors.
  std::unique_ptr<CopyingStrategy> copying_;
  std::shared_ptr<StageLinks> links_;
  std::unique_ptr<StepEngine> engine_;
};

// Trains all steps with a rank's engine, and evaluates the held-out examples.
Trained Train(const v1::JobSpec& spec, const PreparedJob& job, Rank& rank) {
  StepEngine& executor = rank.engine();
  SamplerOptions sampling;
  sampling.batches = job.batches;
  sampling.training_examples = job.split.training;
  sampling.micro_batches = spec.micro_batches();
  const std::unique_ptr<const Sampler> sampler = Sampler::Create(sampling).value();
  RealClock clock;
  MicroBatchReader reader(*job.dataset, *sampler, /*data_rank=*/0,
                          {.start_clock = 0, .end_clock = kSteps}, clock);
  Trained trained;
  for (uint64_t step = 0; step < kSteps; ++step) {
    StepSums sums;
    trained.status = executor.Train(step, reader, sums);
    if (!trained.status.ok()) return trained;
    EXPECT_EQ(sums.examples, kBatch);
    trained.losses.push_back(sums.loss_sum);
  }
  std::vector<int64_t> held_out(kEvaluated);
  std::iota(held_out.begin(), held_out.end(), job.split.training);
  Batch batch;
  trained.status = job.dataset->Read(held_out, batch);
  if (trained.status.ok()) trained.status = executor.BeginEvaluation(kSteps);
  if (trained.status.ok())
    trained.status = executor.Evaluate(batch, PassOutput::kProbabilities, trained.evaluated);
  trained.probabilities.assign(trained.evaluated.probabilities.begin(),
                               trained.evaluated.probabilities.end());
  for (const absl::Span<const float> values : rank.strategy().parameters().values) {
    trained.values.emplace_back(values.begin(), values.end());
  }
  return trained;
}

Trained TrainWhole(const TestModel& model, int micro_batches,
                   Hardware hardware = Hardware::kProcessors) {
  const v1::JobSpec spec = Job(model, micro_batches);
  const PreparedJob job = PrepareJob(spec).value();
  Rank rank(spec, job, hardware);
  return Train(spec, job, rank);
}

ModelStage StageOf(const StageShape& shape, int stage, const std::vector<int>& sizes) {
  return {.shape = shape, .stage = stage, .sizes = sizes};
}

// Starts messages late, by chance.
class LateCommunicator final : public Communicator {
 public:
  LateCommunicator(std::unique_ptr<Communicator> inner, uint64_t seed)
      : inner_(std::move(inner)), random_(seed) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Run(const CollectiveCall& call) override { return inner_->Run(call); }
  std::shared_ptr<Work> Start(const CollectiveCall& call) override { return inner_->Start(call); }
  std::vector<std::shared_ptr<Work>> StartMessages(
      absl::Span<const CollectiveCall> messages) override {
    absl::SleepFor(absl::Microseconds(random_() % 3 == 0 ? random_() % 1000 : 0));
    return inner_->StartMessages(messages);
  }
  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override {
    return inner_->Split(colour, key);
  }
  void Abort(const std::string& reason) override { inner_->Abort(reason); }
  const FlightRecorder& recorder() const override { return inner_->recorder(); }
  CollectiveTraffic traffic() const override { return inner_->traffic(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  std::mt19937_64 random_;
};

struct StageRun {
  Trained trained;
  // Bytes.
  uint64_t sent = 0;
};

// Trains on all stages at once.
std::vector<StageRun> TrainStages(const v1::JobSpec& spec, const StageShape& shape,
                                  const std::vector<int>& sizes,
                                  Hardware hardware = Hardware::kProcessors, uint64_t seed = 0) {
  InProcessGroup group(shape.stages);
  std::vector<StageRun> runs(shape.stages);
  std::vector<std::thread> threads;
  for (int stage = 0; stage < shape.stages; ++stage) {
    threads.emplace_back([&, stage] {
      std::unique_ptr<Communicator> stages = MakeHostCommunicator(group.Join(stage), {}).value();
      if (seed > 0) {
        stages = std::make_unique<LateCommunicator>(std::move(stages), seed * 100 + stage);
      }
      const PreparedJob job = PrepareJob(spec).value();
      Rank rank(spec, job, hardware, StageOf(shape, stage, sizes), stages.get());
      const uint64_t before = stages->traffic().sent;
      runs[stage].trained = Train(spec, job, rank);
      runs[stage].sent = stages->traffic().sent - before;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return runs;
}

// Returns a division of the units into so many groups.
std::vector<int> SizesFor(int groups) {
  if (groups == 2) return {2, 3};
  if (groups == 3) return {1, 3, 1};
  return {1, 1, 2, 1};
}

using Case = std::tuple<TestModel, StageOrder, int, int, Hardware>;

class PipelineTest : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineTest, HasTheBitsOfTheWholeModel) {
  const auto [model, order, stages, micro_batches, hardware] = GetParam();
  const int chunks = order == StageOrder::kInterleaved ? 2 : 1;
  const StageShape shape = {order, stages, chunks, micro_batches};
  const std::vector<int> sizes = SizesFor(shape.virtual_stages());
  const Trained whole = TrainWhole(model, micro_batches, hardware);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const std::vector<StageRun> runs = TrainStages(Job(model, micro_batches), shape, sizes, hardware);
  const PreparedJob job = PrepareJob(Job(model, 1)).value();
  const std::vector<TensorSpec>& tensors = job.model->description().tensors;
  for (int stage = 0; stage < stages; ++stage) {
    const Trained& trained = runs[stage].trained;
    ASSERT_TRUE(trained.status.ok()) << trained.status;
    const ModelStage part = StageOf(shape, stage, sizes);
    // The bytes that cross the boundaries of the stage, in all steps and the evaluation.
    uint64_t floats = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int group = shape.VirtualStage(stage, chunk);
      const int first = part.FirstUnit(group);
      const int end = part.FirstUnit(group + 1);
      for (size_t t = 0; t < tensors.size(); ++t) {
        const int unit = static_cast<int>(tensors[t].unit);
        if (unit < first || unit >= end) continue;
        EXPECT_EQ(trained.values[t], whole.values[t]) << tensors[t].name << " on stage " << stage;
      }
      if (end < kUnits) floats += model.OutputOf(end - 1) * (kSteps * kBatch + kEvaluated);
      if (first > 0) floats += model.OutputOf(first - 1) * kSteps * kBatch;
    }
    EXPECT_EQ(runs[stage].sent, floats * sizeof(float));
  }
  const Trained& last = runs.back().trained;
  EXPECT_EQ(last.losses, whole.losses);
  EXPECT_EQ(last.evaluated.loss_sum, whole.evaluated.loss_sum);
  EXPECT_EQ(last.evaluated.correct, whole.evaluated.correct);
  EXPECT_EQ(last.probabilities, whole.probabilities);
  EXPECT_EQ(whole.probabilities.empty(), model.is_transformer());
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  static constexpr const char* kNames[] = {"LayerWise", "GPipe", "OneForwardOneBackward",
                                           "Interleaved", "ZeroBubble"};
  return absl::StrCat(std::get<0>(info.param).name,
                      kNames[static_cast<int>(std::get<1>(info.param))], std::get<2>(info.param),
                      "Stages", std::get<3>(info.param), "MicroBatches",
                      std::get<4>(info.param) == Hardware::kDevice ? "Device" : "");
}

// Five micro-batches of 24 examples are of unequal size.
INSTANTIATE_TEST_SUITE_P(Orders, PipelineTest,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Values(StageOrder::kGPipe,
                                                              StageOrder::kOneForwardOneBackward,
                                                              StageOrder::kZeroBubble),
                                            ::testing::Values(2, 3, 4), ::testing::Values(2, 5),
                                            ::testing::Values(Hardware::kProcessors)),
                         NameOf);
// Devices compute transformers. The emulation takes seconds for each, so by default each order has
// one model and one number of stages.
INSTANTIATE_TEST_SUITE_P(OnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[2]),
                                            ::testing::Values(StageOrder::kGPipe,
                                                              StageOrder::kZeroBubble),
                                            ::testing::Values(2), ::testing::Values(5),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(DeepOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[3]),
                                            ::testing::Values(StageOrder::kOneForwardOneBackward),
                                            ::testing::Values(4), ::testing::Values(5),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(InterleavedOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[2]),
                                            ::testing::Values(StageOrder::kInterleaved),
                                            ::testing::Values(2), ::testing::Values(4),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[2]),
                                            ::testing::Values(StageOrder::kGPipe,
                                                              StageOrder::kZeroBubble),
                                            ::testing::Values(4), ::testing::Values(5),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveOneForwardOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[2]),
                                            ::testing::Values(StageOrder::kOneForwardOneBackward),
                                            ::testing::Values(2, 4), ::testing::Values(5),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveSecondModelOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[3]),
                                            ::testing::Values(StageOrder::kGPipe,
                                                              StageOrder::kZeroBubble),
                                            ::testing::Values(2, 4), ::testing::Values(5),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveSecondModelOneForwardOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[3]),
                                            ::testing::Values(StageOrder::kOneForwardOneBackward),
                                            ::testing::Values(2), ::testing::Values(5),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(ExhaustiveInterleavedOnDevices, PipelineTest,
                         ::testing::Combine(::testing::Values(kModels[3]),
                                            ::testing::Values(StageOrder::kInterleaved),
                                            ::testing::Values(2), ::testing::Values(4),
                                            ::testing::Values(Hardware::kDevice)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Interleaved, PipelineTest,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Values(StageOrder::kInterleaved),
                                            ::testing::Values(2), ::testing::Values(2, 4),
                                            ::testing::Values(Hardware::kProcessors)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(LayerWise, PipelineTest,
                         ::testing::Combine(::testing::ValuesIn(kModels),
                                            ::testing::Values(StageOrder::kLayerWise),
                                            ::testing::Values(2, 4), ::testing::Values(1),
                                            ::testing::Values(Hardware::kProcessors)),
                         NameOf);

TEST(PipelineDelaysTest, EveryExecutionHasTheSameBits) {
  const Trained whole = TrainWhole(kModels[0], 8);
  for (const auto order : {StageOrder::kGPipe, StageOrder::kOneForwardOneBackward,
                           StageOrder::kInterleaved, StageOrder::kZeroBubble}) {
    const StageShape shape =
        order == StageOrder::kInterleaved ? StageShape{order, 2, 2, 8} : StageShape{order, 4, 1, 8};
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const std::vector<StageRun> runs =
          TrainStages(Job(kModels[0], 8), shape, SizesFor(4), Hardware::kProcessors, seed);
      ASSERT_TRUE(runs.back().trained.status.ok()) << runs.back().trained.status;
      EXPECT_EQ(runs.back().trained.losses, whole.losses) << "seed " << seed;
    }
  }
}

// What stages send is rounded, wherever it is divided, so only pipelines have the same bits.
TEST(PipelineTypesTest, In16BitsAllOrdersHaveTheSameBits) {
  v1::JobSpec spec = Job(kModels[2], 4);
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  const PreparedJob job = PrepareJob(spec).value();
  Rank rank(spec, job, Hardware::kProcessors);
  const Trained whole = Train(spec, job, rank);
  std::vector<double> losses;
  for (const auto order : {StageOrder::kGPipe, StageOrder::kOneForwardOneBackward,
                           StageOrder::kZeroBubble, StageOrder::kInterleaved}) {
    const StageShape shape =
        order == StageOrder::kInterleaved ? StageShape{order, 2, 2, 4} : StageShape{order, 4, 1, 4};
    const Trained trained = TrainStages(spec, shape, SizesFor(4)).back().trained;
    ASSERT_TRUE(trained.status.ok()) << trained.status;
    if (losses.empty()) losses = trained.losses;
    EXPECT_EQ(trained.losses, losses);
  }
  ASSERT_EQ(losses.size(), whole.losses.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step], whole.losses[step], 0.02 * whole.losses[step]);
  }
}

// The last stage alone sees the loss.
TEST(PipelineErrorTest, ALossThatIsNotFiniteEndsAllStages) {
  for (const auto order :
       {StageOrder::kGPipe, StageOrder::kOneForwardOneBackward, StageOrder::kZeroBubble}) {
    v1::JobSpec spec = Job(kModels[0], 4);
    spec.mutable_optimizer()->set_name("sgd");
    spec.mutable_optimizer()->set_learning_rate(1e30f);
    const std::vector<StageRun> runs = TrainStages(spec, {order, 3, 1, 4}, SizesFor(3));
    EXPECT_TRUE(absl::IsOutOfRange(runs[2].trained.status)) << runs[2].trained.status;
    for (const int stage : {0, 1}) {
      EXPECT_FALSE(runs[stage].trained.status.ok());
      EXPECT_EQ(runs[stage].trained.losses.size(), runs[2].trained.losses.size());
    }
  }
}

}  // namespace
}  // namespace muster
