// Tests steps on an emulated device, wherever the parameters are kept.
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/data/sampling/sampler.h"
#include "worker/device/passes/device_backend.h"
#include "worker/device/weights/copying_strategy.h"
#include "worker/device/weights/device_shard.h"
#include "worker/models/transformer.h"
#include "worker/nn/loss_scaling.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/micro_batch_source.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Another dataset's tokens.
class WithoutLabels final : public Dataset {
 public:
  explicit WithoutLabels(const Dataset& inner) : inner_(inner) {}
  const DatasetInfo& info() const override { return inner_.info(); }
  uint64_t fingerprint() const override { return inner_.fingerprint(); }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override {
    const absl::Status status = inner_.Read(indices, batch);
    batch.labels.assign(batch.labels.size(), -1);
    return status;
  }

 private:
  const Dataset& inner_;
};

// Gives the first micro-batch of a step, and an error in place of the second.
class FailsHalfWay final : public MicroBatchSource {
 public:
  explicit FailsHalfWay(MicroBatchSource& inner) : inner_(inner) {}
  int Count(uint64_t clock) const override { return inner_.Count(clock); }
  uint64_t FirstExample(uint64_t clock, int micro_batch) const override {
    return inner_.FirstExample(clock, micro_batch);
  }
  absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) override {
    if (micro_batch == 1) return absl::DataLossError("damaged");
    return inner_.Read(clock, micro_batch, batch);
  }

 private:
  MicroBatchSource& inner_;
};

// Gives all micro-batches of a step, and one of no examples after them.
class ThenNoExamples final : public MicroBatchSource {
 public:
  explicit ThenNoExamples(MicroBatchSource& inner) : inner_(inner) {}
  int Count(uint64_t clock) const override { return inner_.Count(clock) + 1; }
  uint64_t FirstExample(uint64_t clock, int micro_batch) const override {
    return micro_batch < inner_.Count(clock) ? inner_.FirstExample(clock, micro_batch) : 0;
  }
  absl::Status Read(uint64_t clock, int micro_batch, Batch& batch) override {
    if (micro_batch < inner_.Count(clock)) return inner_.Read(clock, micro_batch, batch);
    batch.Clear();
    return absl::OkStatus();
  }

 private:
  MicroBatchSource& inner_;
};

class DeviceEnginesTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceEnginesTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          model { transformer { layers: 1 width: 16 heads: 2 context: 8 } }
          optimizer { name: "adam" learning_rate: 0.01 }
          update { dense: ALL_REDUCE sparse: ALL_REDUCE }
          workers: 1
          batch_size: 2
          micro_batches: 2
          stop { steps: 4 }
        )pb",
        &spec_));
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("type: " + GetParam(),
                                                              spec_.mutable_compute()));
    const std::string path = ::testing::TempDir() + "/text";
    std::ofstream(path) << std::string(100, 'a');
    spec_.mutable_data()->mutable_sequences()->set_path(path);
    job_ = std::make_unique<PreparedJob>(PrepareJob(spec_).value());
    data_ = std::make_unique<WithoutLabels>(*job_->dataset);
    sampler_ = Sampler::Create({.batches = StepBatches(2),
                                .training_examples = job_->dataset->info().examples,
                                .micro_batches = 2})
                   .value();
    order_.set_job_id("job");
    order_.set_generation(1);
    order_.set_checkpoint_root("/checkpoints");
    *order_.mutable_spec() = spec_;
    options_ =
        ResidentDeviceOptionsFor(spec_, job_->dataset->info(), *job_->schema, /*device=*/0).value();
  }

  absl::StatusOr<DeviceStrategy> Make(const v1::TablesSchema& schema) {
    ShardedDependencies dependencies;
    dependencies.storage = &storage_;
    dependencies.clock = &clock_;
    return MakeDeviceStrategy(order_, schema, options_, nullptr, std::move(dependencies));
  }
  DeviceStrategy MakeReplica() { return Make(*job_->schema).value(); }

  static absl::Status JoinAlone(ShardedStrategy& strategy, absl::optional<int> source) {
    InProcessGroup alone(1);
    return strategy.Join(MakeHostCommunicator(alone.Join(0), {}).value(), source);
  }

  // Returns an engine for the strategy's present group.
  std::unique_ptr<StepEngine> MakeEngine(const DeviceStrategy& replica) {
    return MakeDeviceEngine(spec_, options_, {.passes = *replica.passes(), .strategy = *replica})
        .value();
  }

  // Trains the steps of clocks [begin, end), with labels.
  void TrainSteps(const DeviceStrategy& strategy, uint64_t begin, uint64_t end) {
    MicroBatchReader reader(*job_->dataset, *sampler_, /*data_rank=*/0,
                            {.start_clock = begin, .end_clock = end}, clock_);
    const auto engine = MakeEngine(strategy);
    for (uint64_t clock = begin; clock < end; ++clock) {
      StepSums sums;
      ASSERT_EQ(engine->Train(clock, reader, sums), absl::OkStatus());
      EXPECT_GT(sums.loss_weight, 0);
    }
  }

  // Returns checksums of a cut's files, by partition.
  static std::vector<uint64_t> CutChecksums(ShardedStrategy& strategy, uint64_t clock, CutEnd end) {
    std::vector<uint64_t> checksums;
    const auto files = strategy.Cut(clock);
    EXPECT_TRUE(files.ok()) << files.status();
    if (!files.ok()) return checksums;
    EXPECT_THAT(files->failure, IsEmpty());
    for (const PartitionFile& file : files->by_partition) checksums.push_back(file.checksum);
    EXPECT_THAT(checksums, Not(IsEmpty()));
    const auto ended = strategy.EndCut(end);
    EXPECT_TRUE(ended.ok() && *ended == end) << ended.status();
    return checksums;
  }

  // The steps of clocks 0 and 1.
  void TrainTwoSteps(StepEngine& engine) {
    MicroBatchReader reader(*data_, *sampler_, /*data_rank=*/0, {.start_clock = 0, .end_clock = 2},
                            clock_);
    for (uint64_t clock = 0; clock < 2; ++clock) {
      StepSums sums;
      EXPECT_EQ(engine.Train(clock, reader, sums), absl::OkStatus());
      EXPECT_EQ(sums.loss_sum, 0);
      EXPECT_EQ(sums.loss_weight, 0);
      EXPECT_EQ(sums.examples, 2);
    }
  }

  // Checks the gradients after the first step on a strategy's device.
  static void ExpectZeroedOnce(Strategy& strategy, DevicePasses& passes) {
    const absl::Span<float> gradient = strategy.gradients()[0];
    const auto first = [&] {
      float value = -1;
      passes.stream().CopyToHost(&value, gradient.data(), sizeof(float));
      EXPECT_EQ(passes.Wait(), absl::OkStatus());
      return value;
    };
    passes.stream().Fill(gradient.data(), 0x3f, sizeof(float));
    ASSERT_EQ(strategy.BeginStep(1), absl::OkStatus());
    EXPECT_EQ(first(), 0);
    passes.stream().Fill(gradient.data(), 0x3f, sizeof(float));
    ASSERT_EQ(strategy.BeginStep(1), absl::OkStatus());
    EXPECT_NE(first(), 0);
  }

  v1::JobSpec spec_;
  std::unique_ptr<PreparedJob> job_;
  std::unique_ptr<const Dataset> data_;
  std::unique_ptr<const Sampler> sampler_;
  v1::TaskOrder order_;
  DeviceOptions options_;
  MemoryStorage storage_;
  RealClock clock_;
};

TEST_P(DeviceEnginesTest, AStepWithoutLabelsIsNoOverflow) {
  std::vector<std::string> log;
  LossScaling scaling(spec_.compute(),
                      {.log = [&](absl::string_view line) { log.emplace_back(line); }});
  const auto strategy = LocalStrategy::Create(*job_->schema, std::move(scaling)).value();
  const auto engine = MakeCopyingDeviceEngine(
      spec_, DeviceOptionsFor(spec_, job_->dataset->info(), /*device=*/0).value(), *strategy);
  ASSERT_TRUE(engine.ok()) << engine.status();
  TrainTwoSteps(**engine);
  EXPECT_THAT(log, IsEmpty());
  EXPECT_EQ(strategy->state().clock(), 2);
}

TEST_P(DeviceEnginesTest, AReplicaGoesOnAfterAStepWithoutLabels) {
  const auto strategy = MakeReplica();
  ASSERT_EQ(JoinAlone(*strategy, absl::nullopt), absl::OkStatus());
  const auto engine = MakeEngine(strategy);
  TrainTwoSteps(*engine);
  EXPECT_EQ(strategy->replica_clock(), 2);
}

TEST_P(DeviceEnginesTest, BatchesOfNoExamplesAreNothing) {
  std::vector<uint64_t> checksums[2];
  std::vector<double> losses[2];
  for (const bool then_none : {false, true}) {
    const auto strategy = MakeReplica();
    ASSERT_EQ(JoinAlone(*strategy, absl::nullopt), absl::OkStatus());
    const auto engine = MakeEngine(strategy);
    MicroBatchReader reader(*job_->dataset, *sampler_, /*data_rank=*/0,
                            {.start_clock = 0, .end_clock = 4}, clock_);
    ThenNoExamples more(reader);
    for (uint64_t clock = 0; clock < 4; ++clock) {
      StepSums sums;
      ASSERT_EQ(
          engine->Train(clock, then_none ? static_cast<MicroBatchSource&>(more) : reader, sums),
          absl::OkStatus());
      losses[then_none].push_back(sums.loss_sum);
      if (!then_none) continue;
      ASSERT_EQ(engine->BeginEvaluation(clock + 1), absl::OkStatus());
      Batch none;
      none.Clear();
      PassResult result;
      ASSERT_EQ(engine->Evaluate(none, PassOutput::kScores, result), absl::OkStatus());
      EXPECT_EQ(result.examples, 0);
      EXPECT_EQ(result.loss_weight, 0);
      EXPECT_EQ(result.loss_sum, 0);
      EXPECT_EQ(result.correct, 0);
    }
    checksums[then_none] = CutChecksums(*strategy, 4, CutEnd::kCommitted);
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(checksums[1], checksums[0]);
}

// An evaluation between two steps begins a step, too.
TEST_P(DeviceEnginesTest, AReplicasGradientsAreZeroedOnceBetweenSteps) {
  const auto strategy = MakeReplica();
  ASSERT_EQ(JoinAlone(*strategy, absl::nullopt), absl::OkStatus());
  TrainSteps(strategy, 0, 1);
  ExpectZeroedOnce(*strategy, *strategy.passes());
}

TEST_P(DeviceEnginesTest, GradientsThatAreCopiedAreZeroedOnceBetweenSteps) {
  const auto local = LocalStrategy::Create(*job_->schema, LossScaling(spec_.compute(), {})).value();
  const DeviceOptions options =
      DeviceOptionsFor(spec_, job_->dataset->info(), /*device=*/0).value();
  const auto copying = CopyingStrategy::Create(*local, options).value();
  const auto engine =
      MakeDeviceEngine(spec_, options, {.passes = copying->passes(), .strategy = *copying}).value();
  MicroBatchReader reader(*job_->dataset, *sampler_, /*data_rank=*/0,
                          {.start_clock = 0, .end_clock = 1}, clock_);
  StepSums sums;
  ASSERT_EQ(engine->Train(0, reader, sums), absl::OkStatus());
  ExpectZeroedOnce(*copying, copying->passes());
}

TEST_P(DeviceEnginesTest, BackwardInTwoActionsIsRefused) {
  const auto strategy = MakeReplica();
  ASSERT_EQ(JoinAlone(*strategy, absl::nullopt), absl::OkStatus());
  const std::unique_ptr<const Model> model =
      MakeTransformer(options_.shape, Mesh(), options_.compute.type, options_.compute.recompute,
                      std::make_unique<DeviceBackend>(options_.shape, *strategy.passes(),
                                                      /*context_group=*/nullptr));
  StepExecutor executor(spec_, *model, *strategy,
                        {.stage = ModelStage{.shape = {.order = StageOrder::kZeroBubble},
                                             .sizes = {options_.shape.units()}}});
  MicroBatchReader reader(*job_->dataset, *sampler_, /*data_rank=*/0,
                          {.start_clock = 0, .end_clock = 1}, clock_);
  StepSums sums;
  const absl::Status status = executor.Train(0, reader, sums);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("split_backward"));
}

TEST_P(DeviceEnginesTest, OptimizersThatDevicesDoNotHaveAreRefused) {
  v1::TablesSchema schema = *job_->schema;
  schema.mutable_optimizer()->set_name("sgd");
  const auto strategy = Make(schema);
  EXPECT_EQ(strategy.status().code(), absl::StatusCode::kInvalidArgument) << strategy.status();
}

// A cut's file holds weights, moments, numbers of steps, the clock and the loss scale.
TEST_P(DeviceEnginesTest, TheHostsCopyIsThereOnlyWhereItIsNeededAndNoBitDependsOnIt) {
  std::vector<uint64_t> undisturbed;
  {
    const auto strategy = MakeReplica();
    ASSERT_EQ(JoinAlone(*strategy, absl::nullopt), absl::OkStatus());
    TrainSteps(strategy, 0, 4);
    EXPECT_TRUE(strategy->counters().gradient_norm.has_value()) << "steps move weights";
    undisturbed = CutChecksums(*strategy, 4, CutEnd::kCommitted);
  }
  const auto strategy = MakeReplica();
  const auto host_floats = [&] { return strategy->shard_state().weights().size(); };
  ASSERT_EQ(JoinAlone(*strategy, absl::nullopt), absl::OkStatus());
  EXPECT_EQ(host_floats(), 0);
  const std::vector<uint64_t> initial = CutChecksums(*strategy, 0, CutEnd::kTryAgain);
  EXPECT_EQ(host_floats(), 0);
  EXPECT_EQ(CutChecksums(*strategy, 0, CutEnd::kCommitted), initial);
  EXPECT_NE(initial, undisturbed);
  TrainSteps(strategy, 0, 1);
  EXPECT_EQ(host_floats(), 0);
  CutChecksums(*strategy, 1, CutEnd::kCommitted);
  TrainSteps(strategy, 1, 2);

  strategy->Leave();
  EXPECT_GT(host_floats(), 0) << "the next group's ranks take it over";
  EXPECT_EQ(strategy->replica_clock(), 2);
  ASSERT_EQ(JoinAlone(*strategy, /*source=*/0), absl::OkStatus());
  EXPECT_EQ(host_floats(), 0);
  TrainSteps(strategy, 2, 3);
  {
    MicroBatchReader reader(*job_->dataset, *sampler_, /*data_rank=*/0,
                            {.start_clock = 3, .end_clock = 4}, clock_);
    FailsHalfWay failing(reader);
    StepSums sums;
    EXPECT_EQ(MakeEngine(strategy)->Train(3, failing, sums).code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(host_floats(), 0);
  // Leaves the former group first.
  ASSERT_EQ(JoinAlone(*strategy, /*source=*/0), absl::OkStatus());
  EXPECT_EQ(strategy->replica_clock(), 3);
  TrainSteps(strategy, 3, 4);
  EXPECT_EQ(CutChecksums(*strategy, 4, CutEnd::kCommitted), undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceEnginesTest, ::testing::Values("F32", "F16"));

}  // namespace
}  // namespace muster
