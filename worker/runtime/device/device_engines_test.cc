// Steps without labels on an emulated device, whoever keeps the parameters.
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
#include "worker/collectives/transport/in_process_transport.h"
#include "worker/data/sampling/sampler.h"
#include "worker/device/device_data_parallel_strategy.h"
#include "worker/nn/loss_scaling.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/runtime/training/micro_batch_reader.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/strategy/local_strategy.h"

namespace muster {
namespace {

using ::testing::IsEmpty;

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
    sampler_ =
        Sampler::Create({.batch_size = 2, .training_examples = job_->dataset->info().examples})
            .value();
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

  v1::JobSpec spec_;
  std::unique_ptr<PreparedJob> job_;
  std::unique_ptr<const Dataset> data_;
  std::unique_ptr<const Sampler> sampler_;
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
  EXPECT_EQ(strategy->replica().clock(), 2);
}

TEST_P(DeviceEnginesTest, AReplicaGoesOnAfterAStepWithoutLabels) {
  v1::TaskOrder order;
  order.set_job_id("job");
  order.set_generation(1);
  order.set_checkpoint_root("/checkpoints");
  *order.mutable_spec() = spec_;
  const auto options =
      ResidentDeviceOptionsFor(spec_, job_->dataset->info(), *job_->schema, /*device=*/0);
  ASSERT_TRUE(options.ok()) << options.status();
  MemoryStorage storage;
  const auto strategy =
      DeviceDataParallelStrategy::Create(order, *job_->schema, *options, {.storage = &storage});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  InProcessGroup alone(1);
  ASSERT_EQ((*strategy)->Join(MakeHostCommunicator(alone.Join(0), {}).value(), absl::nullopt),
            absl::OkStatus());
  const auto engine =
      MakeDeviceEngine(spec_, *options, *(*strategy)->passes(), **strategy, /*owned=*/nullptr);
  ASSERT_TRUE(engine.ok()) << engine.status();
  TrainTwoSteps(**engine);
  EXPECT_EQ((*strategy)->replica_clock(), 2);
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceEnginesTest, ::testing::Values("F32", "F16"));

}  // namespace
}  // namespace muster
