// These tests say which jobs a cluster takes, and what it gives them.
#include <string>
#include <vector>

#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Two tasks on devices.
v1::JobSpec DeviceJob() {
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_optimizer()->set_name("adamw");
  spec.mutable_data()->mutable_sequences()->set_path("p");
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(1);
  transformer.set_width(8);
  transformer.set_heads(2);
  transformer.set_context(8);
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  return spec;
}

class CoordinatorAdmissionTest : public ::testing::Test {
 protected:
  void StartDaemons() {
    cluster_.AddServer("s0");
    cluster_.AddServer("s1");
    cluster_.AddWorker("w0");
    cluster_.AddWorker("w1");
  }

  SimulatedCluster cluster_;
};

TEST_F(CoordinatorAdmissionTest, RefusesWhatCannotBeLaidOut) {
  StartDaemons();
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_model()->mutable_mlp()->add_hidden(1 << 16);
  spec.mutable_update()->set_bucket_bytes(4);
  const auto job = cluster_.Submit(spec);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("update.bucket_bytes is 4"));
}

TEST_F(CoordinatorAdmissionTest, SaysWhatMemoryIsReservedBy) {
  StartDaemons();
  // The operations per example are known if the model's size is known.
  double flops = -1;
  const auto submitted = [&](const v1::JobSpec& spec) {
    const std::string job = *cluster_.Submit(spec);
    flops = cluster_.coordinator().table().Find(job)->record.flops_per_example();
    return cluster_.coordinator().jobs().Events(job)->events(0).text();
  };
  v1::JobSpec spec = DeviceJob();
  spec.clear_compute();
  EXPECT_THAT(submitted(spec), AllOf(HasSubstr("model.transformer.vocabulary is left out"),
                                     HasSubstr("256 bytes of text")));
  EXPECT_EQ(flops, 0);
  spec.mutable_model()->mutable_transformer()->set_vocabulary(300);
  EXPECT_EQ(submitted(spec), "submitted");
  EXPECT_GT(flops, 1000);
  EXPECT_EQ(submitted(SmallJob()), "submitted");
  EXPECT_EQ(flops, 0);
}

TEST_F(CoordinatorAdmissionTest, RefusesAJobWhoseNameWouldSteerATerminal) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.set_name("a\x1b[2J");
  EXPECT_EQ(cluster_.Submit(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorAdmissionTest, SubmitIsIdempotentByRequestId) {
  StartDaemons();
  const std::string job = *cluster_.Submit(SmallJob(), "r");
  EXPECT_EQ(*cluster_.Submit(SmallJob(), "r"), job);
  EXPECT_NE(*cluster_.Submit(SmallJob(), "other"), job);
  v1::JobSpec changed = SmallJob();
  changed.set_seed(9);
  const absl::Status refused = cluster_.Submit(changed, "r").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(job));
  cluster_.RestartCoordinator();
  EXPECT_EQ(*cluster_.Submit(SmallJob(), "r"), job);
}

TEST_F(CoordinatorAdmissionTest, SubmitRefusesBadJobsAndServesOthers) {
  StartDaemons();
  v1::JobSpec bad = SmallJob();
  bad.set_workers(5000);
  EXPECT_EQ(cluster_.Submit(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster_.Submit(SmallJob()).ok());
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob();
  Answer<v1::SubmitJobReply> nameless;
  cluster_.coordinator().submits().Submit(request, nameless.call());
  EXPECT_THAT(std::string(nameless.status().message()), HasSubstr("request_id is empty"));
}

TEST_F(CoordinatorAdmissionTest, OthersAreServedWhileASubmittedJobIsPlanned) {
  StartDaemons();
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob();
  request.set_request_id("r");
  Coordinator& coordinator = cluster_.coordinator();
  // Nothing of the executor that plans runs before Run.
  std::vector<Answer<v1::SubmitJobReply>> answers(64);
  for (auto& answer : answers) coordinator.submits().Submit(request, answer.call());
  EXPECT_FALSE(answers[0].came());
  EXPECT_EQ(coordinator.jobs().List({})->jobs_size(), 0);
  Answer<v1::SubmitJobReply> too_many;
  coordinator.submits().Submit(request, too_many.call());
  EXPECT_EQ(too_many.status().code(), absl::StatusCode::kUnavailable);
  cluster_.Run();
  for (auto& answer : answers) {
    ASSERT_TRUE(answer.status().ok()) << answer.status();
    EXPECT_EQ(answer.get()->job_id(), answers[0].get()->job_id()) << "the same request";
  }
  EXPECT_EQ(coordinator.jobs().List({})->jobs_size(), 1);
  EXPECT_TRUE(cluster_.Submit(SmallJob()).ok()) << "there is room again";
}

TEST_F(CoordinatorAdmissionTest, WaitsForTheClusterAndSaysForWhat) {
  const std::string job = *cluster_.Submit(SmallJob());
  EXPECT_EQ(cluster_.State(job), v1::PENDING);
  EXPECT_THAT(cluster_.Status(job).waiting_for(), HasSubstr("0 of 2 worker slots free"));
  cluster_.AddWorker("w0");
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              HasSubstr("1 of 2 worker slots free; waits for 1 more"));
  cluster_.AddWorker("w1");
  EXPECT_THAT(cluster_.Status(job).waiting_for(),
              HasSubstr("0 of 1 servers live; waits for 1 more: the cluster has none to place it "
                        "on; start one with muster-server"));
  EXPECT_EQ(cluster_.State(job), v1::PENDING);
  cluster_.AddServer("s0");
  EXPECT_EQ(cluster_.State(job), v1::PLACING);
}

TEST_F(CoordinatorAdmissionTest, RefusesWhatCanNeverFit) {
  StartDaemons();
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  const absl::Status status = cluster_.Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("even when nothing else runs"), HasSubstr("2 of 3 worker slots")));
}

TEST_F(CoordinatorAdmissionTest, AJobOnDevicesGetsOneForEachTask) {
  const v1::JobSpec spec = DeviceJob();
  cluster_.AddWorker("w0", 4);
  const absl::Status none = cluster_.Submit(spec).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("compute.device is CUDA, which takes 2 devices with 1.8 GiB, and the "
                        "workers offer 0"));

  cluster_.AddWorker("w1", 4, 0, {0, 0});
  const std::string first = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.State(first), v1::PLACING);
  const v1::JobStatus placed = cluster_.Status(first);
  ASSERT_EQ(placed.tasks_size(), 2);
  for (const v1::TaskStatus& task : placed.tasks()) {
    EXPECT_EQ(task.worker_id(), "w1");
  }
  const std::string second = *cluster_.Submit(spec);
  EXPECT_EQ(cluster_.State(second), v1::PENDING);
  EXPECT_THAT(cluster_.Status(second).waiting_for(),
              HasSubstr("0 of 2 worker slots free with a device beside them"));
  cluster_.RestartCoordinator();
  EXPECT_EQ(cluster_.State(second), v1::PENDING) << "devices are counted after a restart, too";
  cluster_.Finish(first);
  EXPECT_EQ(cluster_.State(second), v1::PLACING);
}

TEST_F(CoordinatorAdmissionTest, WhatFitsNoDeviceIsRefusedWithTheSumAndElseGetsALargeOne) {
  v1::JobSpec spec = DeviceJob();
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(8);
  transformer.set_width(64);
  transformer.set_context(64);
  spec.set_batch_size(32);
  // Tasks may get any device of a worker, so the smallest counts.
  cluster_.AddWorker("w0", 4, 0, {1900 << 20, 1844 << 20});
  cluster_.AddWorker("w1", 4, 0, {1636 << 20});
  for (int start = 0; start < 2; ++start) {
    const absl::Status status = cluster_.Submit(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("needs 1.8 GiB of its device, and worker w0 offers the most, 1.8 GiB on "
                        "each of its own"),
              ContainsRegex("CUDA's own +1.2 GiB"), ContainsRegex("activations +32.7 MiB"),
              ContainsRegex("together +1.8 GiB"),
              HasSubstr("it would fit with compute.recompute FULL (1.8 GiB), or micro_batches 4 "
                        "(1.8 GiB), or 8 workers (1.8 GiB)")));
    cluster_.RestartCoordinator();
  }
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  EXPECT_TRUE(cluster_.Submit(spec).ok());
  spec.mutable_compute()->clear_recompute();
  cluster_.AddWorker("w2", 4, 0, {1867 << 20});
  const absl::Status one = cluster_.Submit(spec).status();
  EXPECT_THAT(std::string(one.message()),
              HasSubstr("takes 2 devices with 1.8 GiB, and the workers offer 1"));
  cluster_.AddWorker("w3", 4, 0, {1867 << 20});
  const auto job = cluster_.Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::JobStatus placed = cluster_.Status(*job);
  ASSERT_EQ(placed.tasks_size(), 2);
  for (const v1::TaskStatus& task : placed.tasks()) {
    EXPECT_THAT(task.worker_id(), AnyOf("w2", "w3"));
  }
}

TEST_F(CoordinatorAdmissionTest, ScratchOfBf16IsAskedForWhereAWorkerNeedsIt) {
  v1::JobSpec spec = DeviceJob();
  spec.mutable_compute()->clear_device();
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(1);
  transformer.set_width(256);
  transformer.set_context(256);
  spec.set_workers(1);
  constexpr uint64_t kEnough = 98 << 20;
  cluster_.AddWorker("w0", 4, kEnough, {}, /*multiplies_bf16=*/true);
  for (int start = 0; start < 2; ++start) {
    const auto job = cluster_.Submit(spec);
    ASSERT_TRUE(job.ok()) << job.status();
    cluster_.RestartCoordinator();
  }
  cluster_.AddWorker("w1", 4, kEnough, {}, /*multiplies_bf16=*/false);
  const absl::Status status = cluster_.Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ContainsRegex("kernels' scratch +[0-9.]+ MiB"));
}

TEST_F(CoordinatorAdmissionTest, JobsShareTheClusterInOrderOfSubmission) {
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0", 2);
  cluster_.AddWorker("w1", 1);
  v1::JobSpec one = SmallJob();
  one.set_workers(1);
  const std::string a = *cluster_.Submit(one);
  const std::string large = *cluster_.Submit([&] {
    v1::JobSpec spec = SmallJob();
    spec.set_workers(3);
    return spec;
  }());
  const std::string b = *cluster_.Submit(one);
  EXPECT_EQ(cluster_.State(a), v1::PLACING);
  EXPECT_EQ(cluster_.State(large), v1::PENDING);
  EXPECT_THAT(cluster_.Status(large).waiting_for(), HasSubstr("2 of 3 worker slots free"));
  EXPECT_EQ(cluster_.State(b), v1::PENDING) << "must not starve the large one";
  EXPECT_THAT(cluster_.Status(b).waiting_for(), HasSubstr("waits behind job " + large));
  cluster_.Finish(a);
  EXPECT_EQ(cluster_.State(a), v1::SUCCEEDED);
  EXPECT_EQ(cluster_.State(large), v1::PLACING);
  cluster_.Finish(large);
  EXPECT_EQ(cluster_.State(b), v1::PLACING);
}

TEST_F(CoordinatorAdmissionTest, AccountsForMemory) {
  cluster_.AddServer("s0", 8000);
  cluster_.AddWorker("w0", 8);
  const std::string a = *cluster_.Submit(SmallJob());
  const std::string b = *cluster_.Submit(SmallJob());
  const std::string c = *cluster_.Submit(SmallJob());
  EXPECT_EQ(cluster_.State(b), v1::PLACING);
  EXPECT_EQ(cluster_.State(c), v1::PENDING);
  EXPECT_THAT(cluster_.Status(c).waiting_for(), HasSubstr("server s0 has"));
}

}  // namespace
}  // namespace muster
