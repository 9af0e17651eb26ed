// Jobs whose workers come and go: with notice, without, and in addition.

#include <signal.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/endless_job.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/recovery/no_lease_for_testing.h"

namespace muster {
namespace {

// The part that the others have of a worker's state: all, copies of its shard, or nothing.
enum class Others { kHaveAll, kHaveCopies, kHaveNothing };

class ComingAndGoingTest : public ::testing::TestWithParam<Others> {};

TEST_P(ComingAndGoingTest, EachStepIsMadeOnceWithTheSameExamples) {
  auto started = ProcessCluster::Start({.servers = 0, .workers = 3, .lease = kNoLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  spec.set_min_workers(1);
  spec.set_max_workers(3);
  v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
  if (GetParam() != Others::kHaveAll) zero.set_stage(2);
  if (GetParam() == Others::kHaveCopies) zero.set_redundancy(1);
  const auto id = cluster.Submit(Endless(std::move(spec), 200));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto has_event = [&](absl::string_view text) {
    v1::ListEventsReply reply;
    cluster.jobs().Events(*id, reply).IgnoreError();
    return std::any_of(reply.events().begin(), reply.events().end(), [&](const v1::JobEvent& each) {
      return absl::StrContains(each.text(), text);
    });
  };
  const auto await_event = [&](const std::string& text) {
    const auto came = cluster.Await(*id, [&](const v1::JobStatus&) { return has_event(text); });
    EXPECT_TRUE(came.ok()) << text << ": " << came.status() << cluster.Diagnose(*id);
    return came.ok() && AwaitCheckpointSince(cluster, *id).ok();
  };
  ASSERT_TRUE(await_event("3 workers with 3 data ranks"));

  // One leaves with notice, while the job does not need it.
  cluster.Stop("worker-2");
  ASSERT_TRUE(await_event("leaves worker worker-2, which must end, at clock"));
  ASSERT_TRUE(await_event("2 workers with 2 data ranks, of which 0 joined, met again"));
  // Another leaves that it would need; the job goes on without.
  cluster.Stop("worker-1");
  ASSERT_TRUE(await_event("goes on with 1 of 2 workers again"));
  ASSERT_TRUE(cluster.Restart("worker-1").ok());
  ASSERT_TRUE(await_event("2 workers with 2 data ranks, of which 1 joined, met again"));
  ASSERT_TRUE(cluster.Restart("worker-2").ok());
  ASSERT_TRUE(await_event("3 workers with 3 data ranks, of which 1 joined, met again"));
  if (GetParam() == Others::kHaveNothing) {
    EXPECT_TRUE(has_event("handed over what nobody else had"));
  } else {
    // One dies.
    cluster.Kill("worker-0", SIGKILL);
    ASSERT_TRUE(cluster.Restart("worker-0").ok());
    ASSERT_TRUE(await_event("lost its worker worker-0"));
  }

  const auto trained = AwaitCheckpointSince(cluster, *id);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(trained->generation(), 1u) << "nothing is made again";
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status() << cluster.Diagnose(*id);
  // Sums of other numbers of ranks round otherwise.
  EXPECT_LT(MostApart(weights->disturbed, weights->undisturbed), 0.01);
}

// A job with fixed workers that is told the batches of one whose batches scaled comes to the same.
TEST(ScalingBatchTest, StepsHaveTheBatchOfTheWorkersThere) {
  auto started = ProcessCluster::Start({.servers = 0, .workers = 3, .lease = kNoLease});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  spec.set_min_workers(1);
  spec.set_max_workers(3);
  spec.set_scale_batch(true);
  const uint32_t share = spec.batch_size() / spec.workers();
  const auto id = cluster.Submit(Endless(std::move(spec), 200));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto await_batch = [&](uint32_t workers) {
    const auto came = cluster.Await(*id, [&](const v1::JobStatus& status) {
      return !status.adjustments().empty() &&
             status.adjustments().rbegin()->batch_size() == workers * share;
    });
    EXPECT_TRUE(came.ok()) << workers << ": " << came.status() << cluster.Diagnose(*id);
    return came.ok() && AwaitCheckpointSince(cluster, *id).ok();
  };
  ASSERT_TRUE(await_batch(3));
  cluster.Stop("worker-2");
  ASSERT_TRUE(await_batch(2));
  cluster.Stop("worker-1");
  ASSERT_TRUE(await_batch(1));
  ASSERT_TRUE(cluster.Restart("worker-1").ok());
  ASSERT_TRUE(await_batch(2));
  ASSERT_TRUE(cluster.Restart("worker-2").ok());
  ASSERT_TRUE(await_batch(3));
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status() << cluster.Diagnose(*id);
  EXPECT_LT(MostApart(weights->disturbed, weights->undisturbed), 0.01);
}

// On servers the tables stay where they are, and what the job comes to is what nobody disturbed.
TEST(MembersOnServersTest, EachStepIsMadeOnceWithTheSameExamples) {
  auto started = ProcessCluster::Start(
      {.servers = 2, .workers = 3, .coordinator_arguments = {"--elastic-wait-ms=500"}});
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster& cluster = **started;
  v1::JobSpec spec = SmallJob();
  spec.set_min_workers(1);
  spec.set_max_workers(3);
  const auto id = cluster.Submit(Endless(std::move(spec), 200));
  ASSERT_TRUE(id.ok()) << id.status();
  const auto await_members = [&](int members) {
    const auto came = cluster.Await(*id, [&](const v1::JobStatus& status) {
      const auto& tasks = status.tasks();
      return status.state() == v1::RUNNING &&
             std::count_if(tasks.begin(), tasks.end(), [](const v1::TaskStatus& task) {
               return task.state() == "RUNNING";
             }) == members;
    });
    EXPECT_TRUE(came.ok()) << members << ": " << came.status() << cluster.Diagnose(*id);
    return came.ok() && AwaitCheckpointSince(cluster, *id).ok();
  };
  // It has two workers, and takes the third.
  ASSERT_TRUE(await_members(3));
  // One leaves with notice, another dies.
  cluster.Stop("worker-2");
  ASSERT_TRUE(await_members(2));
  cluster.Kill("worker-1", SIGKILL);
  ASSERT_TRUE(await_members(1));
  ASSERT_TRUE(cluster.Restart("worker-1").ok());
  ASSERT_TRUE(cluster.Restart("worker-2").ok());
  ASSERT_TRUE(await_members(3));

  v1::ListEventsReply reply;
  ASSERT_TRUE(cluster.jobs().Events(*id, reply).ok());
  const auto count = [&](absl::string_view text) {
    return std::count_if(reply.events().begin(), reply.events().end(),
                         [&](const auto& event) { return absl::StrContains(event.text(), text); });
  };
  EXPECT_GE(count("joins at step"), 2);
  EXPECT_EQ(count("(its worker worker-2 was told to leave); 2 workers go on"), 1);
  EXPECT_EQ(count("none is free); 1 worker goes on"), 1);
  EXPECT_EQ(count("starts again from clock"), 0) << "the tables stayed where they were";
  const auto weights = EndAndTrainUndisturbed(cluster, *id);
  ASSERT_TRUE(weights.ok()) << weights.status() << cluster.Diagnose(*id);
  // Sums of other numbers of slots round otherwise.
  EXPECT_LT(MostApart(weights->disturbed, weights->undisturbed), 0.01);
}

INSTANTIATE_TEST_SUITE_P(Shards, ComingAndGoingTest,
                         ::testing::Values(Others::kHaveAll, Others::kHaveCopies,
                                           Others::kHaveNothing),
                         [](const auto& info) {
                           return info.param == Others::kHaveAll      ? "Whole"
                                  : info.param == Others::kHaveCopies ? "WithCopies"
                                                                      : "HandedOver";
                         });

}  // namespace
}  // namespace muster
