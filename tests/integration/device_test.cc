// Jobs on (emulated) devices of a cluster of real processes, against the same jobs on processors.

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/harness/safetensors_reader.h"
#include "tests/integration/relative_distance_for_testing.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uint64_t kSteps = 10;

std::string TextFile() {
  const std::string path = ::testing::TempDir() + "/text";
  std::ofstream text(path);
  for (int i = 0; i < 120; ++i) text << "the " << i % 7 << " cats of house " << i * 37 % 90 << "\n";
  return path;
}

// Two workers, by all-reduce. Adam's epsilon is large, or rounding in gradients that are 0 would
// move weights by whole steps.
v1::JobSpec Job() {
  return ParseJobOrDie(absl::StrCat(
      R"pb(
        model { transformer { layers: 1 width: 16 heads: 2 context: 8 dropout: 0.1 } }
        optimizer { name: "adamw" learning_rate: 0.02 epsilon: 0.01 weight_decay: 0.1 }
        clipping { by_global_norm: 0.5 }
        update { dense: ALL_REDUCE }
        workers: 2
        batch_size: 4
        micro_batches: 2
        stop { steps: 10 }
        checkpoint { every_steps: 5 }
        seed: 7
        data { holdout: 0.1
               sequences { path: ")pb",
      TextFile(), "\" } }"));
}

v1::JobSpec OnServers(v1::JobSpec spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  return spec;
}

v1::JobSpec OnDevices(v1::JobSpec spec) {
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  return spec;
}

v1::JobSpec Staged(v1::JobSpec spec, uint32_t stage) {
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  return spec;
}

class DeviceTest : public ::testing::Test {
 protected:
  DeviceTest() {
    auto cluster = ProcessCluster::Start(
        {.servers = 1, .workers = 2, .slots_per_worker = 2, .devices_per_worker = 1});
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    if (cluster.ok()) cluster_ = *std::move(cluster);
  }

  std::string Submit(const v1::JobSpec& spec) {
    const auto job = cluster_->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : "";
  }

  void AwaitSuccess(const std::string& job) {
    const auto status = cluster_->AwaitEnd(job);
    ASSERT_TRUE(status.ok()) << status.status();
    ASSERT_EQ(status->state(), v1::SUCCEEDED) << status->message() << cluster_->Diagnose(job);
  }

  std::vector<std::string> Events(const std::string& job) {
    v1::ListEventsReply reply;
    EXPECT_TRUE(cluster_->jobs().Events(job, reply).ok());
    std::vector<std::string> texts;
    for (const v1::JobEvent& event : reply.events()) texts.push_back(event.text());
    return texts;
  }

  ExportedTensors Weights(const std::string& job) {
    const auto weights = cluster_->Export(job);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : ExportedTensors();
  }

  ExportedTensors Train(const v1::JobSpec& spec) {
    const std::string job = Submit(spec);
    AwaitSuccess(job);
    return Weights(job);
  }

  std::unique_ptr<ProcessCluster> cluster_;
};

TEST_F(DeviceTest, BothRoadsTrainAsOnProcessors) {
  const ExportedTensors processors = Train(Job());
  ASSERT_FALSE(processors.empty());
  EXPECT_LE(RelativeDistance(Train(OnDevices(Job())), processors), 1e-4);
  EXPECT_LE(RelativeDistance(Train(OnDevices(OnServers(Job()))), processors), 1e-4);
  v1::JobSpec momentum = OnServers(Job());
  momentum.mutable_optimizer()->Clear();
  momentum.mutable_optimizer()->set_name("momentum");
  momentum.mutable_optimizer()->set_learning_rate(0.02f);
  EXPECT_LE(RelativeDistance(Train(OnDevices(momentum)), Train(momentum)), 1e-4)
      << "servers know optimizers that devices do not";
}

TEST_F(DeviceTest, CheckpointsGoFromDevicesToProcessorsAndBack) {
  const ExportedTensors whole = Train(Job());
  for (const bool device_first : {true, false}) {
    v1::JobSpec first = device_first ? OnDevices(Job()) : Job();
    first.mutable_stop()->set_steps(kSteps / 2);
    const std::string job = Submit(first);
    AwaitSuccess(job);
    v1::JobSpec second = device_first ? Job() : OnDevices(Job());
    second.set_resume_from(job);
    EXPECT_LE(RelativeDistance(Train(second), whole), 1e-4) << device_first;
  }
}

// Between two halves under different stages the job also moves.
TEST_F(DeviceTest, StagesTrainAsOnProcessorsAndGoOnFromOneAnother) {
  const ExportedTensors whole = Train(Job());
  for (const uint32_t stage : {1, 2, 3}) {
    v1::JobSpec first = Staged(OnDevices(Job()), stage);
    first.mutable_stop()->set_steps(kSteps / 2);
    const std::string job = Submit(first);
    AwaitSuccess(job);
    for (v1::JobSpec second : {Staged(OnDevices(Job()), 4 - stage), Staged(Job(), stage)}) {
      second.set_resume_from(job);
      EXPECT_LE(RelativeDistance(Train(second), whole), 1e-4) << stage;
    }
  }
}

TEST_F(DeviceTest, AJobUnderAStageGoesBackWhenAWorkerIsKilled) {
  const std::string job = Submit(Endless(Staged(OnDevices(Job()), 2), /*checkpoint_steps=*/4));
  const auto running = AwaitRunning(*cluster_, job);
  ASSERT_TRUE(running.ok()) << running.status();
  cluster_->Kill("worker-1", SIGKILL);
  ASSERT_TRUE(cluster_->Restart("worker-1").ok());
  const auto trained = AwaitCheckpointSince(*cluster_, job);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto weights = EndAndTrainUndisturbed(*cluster_, job);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_LE(RelativeDistance(weights->disturbed, weights->undisturbed), 1e-4);
}

TEST_F(DeviceTest, AKilledWorkersTaskIsReplacedOnBothRoads) {
  for (const bool servers : {false, true}) {
    const std::string job =
        Submit(Endless(OnDevices(servers ? OnServers(Job()) : Job()), /*checkpoint_steps=*/4));
    const auto running = AwaitRunning(*cluster_, job);
    ASSERT_TRUE(running.ok()) << running.status();
    cluster_->Kill("worker-1", SIGKILL);
    ASSERT_TRUE(cluster_->Restart("worker-1").ok());
    const auto trained = AwaitCheckpointSince(*cluster_, job);
    ASSERT_TRUE(trained.ok()) << trained.status();
    EXPECT_THAT(Events(job), Contains(HasSubstr("another task takes its place")));
    const auto weights = EndAndTrainUndisturbed(*cluster_, job);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_LE(RelativeDistance(weights->disturbed, weights->undisturbed), 1e-4) << servers;
  }
}

TEST_F(DeviceTest, DevicesAreShownCountedAndNotPromised) {
  v1::GetClusterReply reply;
  ASSERT_TRUE(cluster_->jobs().Cluster(reply).ok());
  int devices = 0;
  for (const v1::DaemonStatus& daemon : reply.daemons()) {
    devices += daemon.devices_size();
    for (const v1::Device& device : daemon.devices()) EXPECT_EQ(device.name(), "emulated");
  }
  EXPECT_EQ(devices, 2);
  v1::JobSpec spec = OnDevices(Job());
  spec.set_workers(3);
  spec.set_micro_batches(1);
  const auto refused = cluster_->Submit(spec);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("which takes 3 devices with 1.8 GiB, and the workers offer 2"));
}

}  // namespace
}  // namespace muster
