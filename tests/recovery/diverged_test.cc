// A loss that is not finite ends a job whose tasks train together, with the step named; or it takes
// the job back, if the job asks for that.

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/no_lease_for_testing.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns a job that makes a checkpoint after each step, on data of which one example diverges.
v1::JobSpec JobWithABadExample(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name, ".libsvm");
  {
    std::ofstream file(path);
    for (int i = 0; i < 400; ++i) file << (i % 2 == 0 ? "1 1:1\n" : "0 2:1\n");
    // Times the weight that the first step has made, it is beyond the largest float.
    file << "0 1:3e38\n";
  }
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    name: "diverging"
    model { logistic_regression {} }
    data { libsvm {} }
    optimizer { name: "sgd" learning_rate: 10 }
    update { dense: ALL_REDUCE sparse: ALL_REDUCE deterministic: true }
    parallelism { zero { stage: 1 } }
    workers: 2
    batch_size: 10
    checkpoint { every_steps: 1 }
    stop { epochs: 1 }
    seed: 7
  )pb");
  spec.mutable_data()->mutable_libsvm()->set_path(path);
  return spec;
}

// Runs a job of two workers that goes back once and succeeds then. `decided` is what it goes on
// with.
void SucceedsAfterOneReturn(const v1::JobSpec& spec, int servers, v1::Adjustment& decided) {
  auto started = ProcessCluster::Start({.servers = servers, .lease = kNoLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto end = cluster.AwaitEnd(*id);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), v1::SUCCEEDED) << end->message() << cluster.Diagnose(*id);
  EXPECT_EQ(end->generation(), 2u);
  ASSERT_EQ(end->adjustments_size(), 1);
  decided = end->adjustments(0);
}

// One rank's loss is not finite; the other rank only sees that a call fails.
TEST(DivergedTest, OneRanksDivergenceFailsTheJob) {
  const v1::JobSpec spec = JobWithABadExample("failing");
  auto started = ProcessCluster::Start({.servers = 0, .lease = kNoLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto end = cluster.Await(*id, [](const v1::JobStatus& status) {
    return status.finished_unix_ms() > 0 || status.generation() > 1;
  });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->generation(), 1u) << cluster.Diagnose(*id);
  EXPECT_EQ(end->state(), v1::FAILED);
  EXPECT_THAT(end->message(), AllOf(HasSubstr("diverged at step "), HasSubstr("loss is ")));
  EXPECT_GT(end->checkpoint_clock(), 0u) << "no step was made before";
}

// The steps that are made again take the examples behind the bad one.
TEST(DivergedTest, AJobGoesOnBehindABadExample) {
  v1::JobSpec spec = JobWithABadExample("returning");
  spec.mutable_divergence()->set_max_returns(1);
  spec.mutable_divergence()->set_rate_factor(1);
  spec.mutable_divergence()->set_skip_examples(true);
  v1::Adjustment decided;
  ASSERT_NO_FATAL_FAILURE(SucceedsAfterOneReturn(spec, /*servers=*/0, decided));
  EXPECT_GT(decided.skipped_examples(), 0u);
  EXPECT_THAT(decided.reason(), HasSubstr("loss is "));
}

class DivergedStageTest : public ::testing::TestWithParam<v1::UpdateSpec::Road> {};

// The last stage alone sees the loss. The first step's weights are so large that the second step's
// sums are infinite.
TEST_P(DivergedStageTest, TheLastStagesDivergenceEndsAllTasks) {
  v1::JobSpec spec = SmallJob();
  spec.set_workers(3);
  spec.set_micro_batches(3);
  spec.mutable_parallelism()->set_pipeline(3);
  spec.mutable_model()->mutable_mlp()->clear_hidden();
  for (int i = 0; i < 3; ++i) spec.mutable_model()->mutable_mlp()->add_hidden(8);
  spec.mutable_update()->set_dense(GetParam());
  spec.mutable_update()->set_sparse(GetParam());
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(1e30f);
  auto started = ProcessCluster::Start({.servers = 1, .workers = 3, .lease = kNoLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  const auto id = cluster.Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto end = cluster.Await(*id, [](const v1::JobStatus& status) {
    return status.finished_unix_ms() > 0 || status.generation() > 1;
  });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->generation(), 1u) << cluster.Diagnose(*id);
  EXPECT_EQ(end->state(), v1::FAILED);
  EXPECT_THAT(end->message(), AllOf(HasSubstr("diverged at step 2"), HasSubstr("loss is ")));
  for (const std::string worker : {"worker-0", "worker-1", "worker-2"}) {
    while (!cluster.ChildrenOf(worker).empty()) absl::SleepFor(absl::Milliseconds(10));
  }
}

// The rate is far too high, until the job has gone back.
TEST_P(DivergedStageTest, AJobGoesBackToALowerRate) {
  v1::JobSpec spec = SmallJob();
  spec.set_workers(2);
  spec.mutable_update()->set_dense(GetParam());
  spec.mutable_update()->set_sparse(GetParam());
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(1e30f);
  spec.mutable_divergence()->set_max_returns(1);
  spec.mutable_divergence()->set_rate_factor(1e-31f);
  v1::Adjustment decided;
  ASSERT_NO_FATAL_FAILURE(SucceedsAfterOneReturn(spec, /*servers=*/1, decided));
  EXPECT_FLOAT_EQ(decided.rate_factor(), 1e-31f);
}

INSTANTIATE_TEST_SUITE_P(Roads, DivergedStageTest,
                         ::testing::Values(v1::UpdateSpec::ALL_REDUCE,
                                           v1::UpdateSpec::PARAMETER_SERVER),
                         [](const auto& info) {
                           const bool servers = info.param == v1::UpdateSpec::PARAMETER_SERVER;
                           return servers ? "OnServers" : "ByAllReduce";
                         });

}  // namespace
}  // namespace muster
