// Jobs that take free slots beyond their workers, and give them back.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/step/step_batches.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/scheduling/elastic_slots.h"
#include "server/coordinator/simulation/all_reduce_test_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class ElasticTest : public AllReduceTest {
 protected:
  v1::JobSpec Elastic(uint32_t workers, uint32_t max_workers, uint32_t min_workers = 1) {
    v1::JobSpec spec = Job(workers, min_workers);
    spec.set_max_workers(max_workers);
    return spec;
  }

  // All tasks report the step that closes `clock`, and meet if they are told to. Returns the number
  // of ranks of the round then.
  uint32_t Step(const std::string& job, uint64_t clock) {
    uint64_t meet_after = 0;
    for (const v1::TaskOrder& order : cluster_.Orders(job)) {
      if (cluster_.rank(order).round == 0) continue;
      cluster_.rank(order).clock = clock;
      EXPECT_TRUE(cluster_.Progress(order, clock).ok());
      meet_after = std::max(meet_after, cluster_.progress_reply.meet_after_round());
    }
    if (meet_after > 0) Meet(job);
    return Ranks(job);
  }

  // Those of the round come to meet, and those that it opens without afterwards.
  void Meet(const std::string& job) {
    cluster_.MeetAll(job);
    cluster_.Pass(absl::Milliseconds(100));
    cluster_.BeatAll();
  }

  uint64_t LastRound(const std::string& job) {
    uint64_t round = 0;
    for (const v1::TaskOrder& order : cluster_.Orders(job)) {
      round = std::max(round, cluster_.rank(order).round);
    }
    return round;
  }

  uint32_t Ranks(const std::string& job) {
    const uint64_t round = LastRound(job);
    const std::vector<v1::TaskOrder> orders = cluster_.Orders(job);
    return std::count_if(orders.begin(), orders.end(), [&](const v1::TaskOrder& order) {
      return cluster_.rank(order).round == round;
    });
  }

  // Returns the examples of the step at a clock, as they were decided.
  StepBatch BatchAt(const v1::JobStatus& status, uint64_t clock) {
    const std::vector<v1::Adjustment> decided(status.adjustments().begin(),
                                              status.adjustments().end());
    return BatchesOf(status.spec(), {}, decided).At(static_cast<int64_t>(clock));
  }

  bool Cancel(const std::string& job) {
    v1::CancelJobRequest request;
    request.set_job_id(job);
    return cluster_.coordinator().jobs().Cancel(request).ok();
  }
};

TEST_F(ElasticTest, TakesAFreeSlotBetweenTwoSteps) {
  AddWorkers(2);
  const std::string job = Running(Elastic(2, 4));
  EXPECT_EQ(Ranks(job), 2u) << "it did not wait for more";
  EXPECT_EQ(cluster_.Orders(job).size(), 2u);
  cluster_.AddWorker("w9");
  ASSERT_EQ(Worker(job, 2), "w9");
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 2 is taken in addition, on worker w9"));
  EXPECT_EQ(Step(job, 4), 2u) << "the newcomer's task is starting";
  auto joins = cluster_.Rendezvous(Order(job, 2));
  EXPECT_FALSE(joins.came());
  EXPECT_EQ(Step(job, 5), 3u);
  ASSERT_TRUE(joins.status().ok()) << joins.status();
  EXPECT_EQ(cluster_.rank(Order(job, 2)).clock, 5);
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
  EXPECT_TRUE(cluster_.HasEvent(
      job, "3 workers with 3 data ranks, of which 1 joined, met again in round 2"));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  // The job needs it no more than before.
  Kill("w9");
  Meet(job);
  EXPECT_EQ(Ranks(job), 2u);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING) << cluster_.Status(job).waiting_for();
  EXPECT_EQ(cluster_.Status(job).waiting_for(), "");
  cluster_.Finish(job);
  EXPECT_EQ(cluster_.State(job), v1::SUCCEEDED) << cluster_.Status(job).message();
}

TEST_F(ElasticTest, GivesSlotsBackToAJobThatWaits) {
  AddWorkers(4);
  const std::string job = Running(Elastic(2, 4));
  EXPECT_EQ(Ranks(job), 4u) << "all were free";
  const std::string other = *cluster_.Submit(Job(1));
  EXPECT_EQ(cluster_.State(other), v1::PENDING);
  EXPECT_EQ(cluster_.Orders(job).size(), 4u) << "until the step is over";
  EXPECT_EQ(Step(job, 4), 3u) << "no more than the other job needs";
  EXPECT_TRUE(
      cluster_.HasEvent(job, absl::StrCat(", for which job ", other, " waits, at clock 4")));
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
  cluster_.BeatAll();
  EXPECT_EQ(cluster_.Orders(other).size(), 1u);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  cluster_.MeetAll(other);
  cluster_.Finish(other);
  ASSERT_EQ(cluster_.State(other), v1::SUCCEEDED);
  // Short jobs must not make it change all the time.
  cluster_.Pass(kGrowthPause / 2);
  EXPECT_EQ(cluster_.Orders(job).size(), 3u);
  cluster_.Pass(kGrowthPause / 2);
  EXPECT_EQ(cluster_.Orders(job).size(), 4u);
}

TEST_F(ElasticTest, KeepsItsWorkersAndGivesNothingInVain) {
  AddWorkers(3);
  const std::string job = Running(Elastic(2, 4));
  EXPECT_EQ(Ranks(job), 3u);
  const std::string large = *cluster_.Submit(Job(2));
  EXPECT_EQ(Step(job, 4), 3u) << "one slot is not enough for the other job";
  EXPECT_THAT(cluster_.Status(large).waiting_for(), HasSubstr("0 of 2 worker slots free"));
  EXPECT_TRUE(Cancel(large));
  const std::string small = *cluster_.Submit(Job(1));
  EXPECT_EQ(Step(job, 5), 2u);
  const std::string waits = *cluster_.Submit(Job(1));
  EXPECT_EQ(Step(job, 6), 2u) << "these are its own";
  EXPECT_EQ(cluster_.State(waits), v1::PENDING);
  EXPECT_EQ(cluster_.Orders(small).size(), 1u);
}

TEST_F(ElasticTest, ARequestThatIsMootLetsTheSlotStay) {
  AddWorkers(3);
  const std::string job = Running(Elastic(2, 3));
  const std::string other = *cluster_.Submit(Job(1));
  EXPECT_TRUE(Cancel(other));
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(Step(job, 4), 3u);
}

TEST_F(ElasticTest, GrowsAndShrinksByWholeDataRanks) {
  AddWorkers(3);
  v1::JobSpec spec = Elastic(2, 6, 2);
  spec.mutable_parallelism()->set_tensor(2);
  const std::string job = Running(spec);
  EXPECT_EQ(cluster_.Orders(job).size(), 2u) << "half a data rank is of no use";
  cluster_.AddWorker("w8");
  EXPECT_EQ(cluster_.Orders(job).size(), 4u);
  cluster_.Rendezvous(Order(job, 2));
  EXPECT_EQ(Step(job, 4), 2u);
  cluster_.Rendezvous(Order(job, 3));
  EXPECT_EQ(Step(job, 5), 4u);
  EXPECT_TRUE(cluster_.HasEvent(job, "4 workers with 2 data ranks, of which 2 joined"));
  *cluster_.Submit(Job(1));
  EXPECT_EQ(Step(job, 6), 2u);
  EXPECT_EQ(cluster_.Orders(job).size(), 2u);
}

TEST_F(ElasticTest, ShardsAreDividedAnewAmongMoreRanks) {
  AddWorkers(2);
  v1::JobSpec spec = Elastic(2, 4);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  const std::string job = Running(spec);
  cluster_.AddWorker("w8");
  cluster_.AddWorker("w9");
  ASSERT_EQ(cluster_.Orders(job).size(), 4u);
  cluster_.Rendezvous(Order(job, 2));
  cluster_.Rendezvous(Order(job, 3));
  EXPECT_EQ(Step(job, 4), 4u);
  EXPECT_EQ(cluster_.rank(Order(job, 3)).shards, 4u);
  EXPECT_EQ(cluster_.rank(Order(job, 3)).shard, 3u);
  EXPECT_EQ(cluster_.Status(job).generation(), 1);
}

TEST_F(ElasticTest, TheBatchScalesWithTheWorkersIfAsked) {
  AddWorkers(2);
  v1::JobSpec spec = Elastic(2, 4);
  spec.set_batch_size(8);
  spec.set_scale_batch(true);
  const std::string job = Running(spec);
  EXPECT_EQ(cluster_.Status(job).adjustments_size(), 0) << "all workers are there";
  cluster_.AddWorker("w9");
  ASSERT_EQ(cluster_.Orders(job).size(), 3u);
  const auto joins = cluster_.Rendezvous(Order(job, 2));
  EXPECT_EQ(Step(job, 4), 3u);
  // The newcomer is told with its round.
  ASSERT_TRUE(joins.came() && joins.status().ok());
  ASSERT_EQ(joins.get()->adjustments_size(), 1);
  EXPECT_EQ(joins.get()->adjustments(0).clock(), 4u);
  EXPECT_EQ(joins.get()->adjustments(0).batch_size(), 12u);
  EXPECT_TRUE(cluster_.HasEvent(job, "from step 4 on a step has 12 examples"));
  // No step is made with it before it dies.
  Kill("w9");
  Meet(job);
  EXPECT_EQ(Ranks(job), 2u);
  const v1::JobStatus status = cluster_.Status(job);
  EXPECT_EQ(BatchAt(status, 3).size, 8);
  EXPECT_EQ(BatchAt(status, 4).size, 8);
  EXPECT_EQ(BatchAt(status, 5).begin, 40);
}

// One run in which workers join, get notice, and die at random. Steps follow one another without a
// gap or a repetition, whoever makes them, and so do their examples, of which each worker takes the
// same number.
TEST_F(ElasticTest, AHundredRandomJoinsAndLeaves) {
  std::mt19937 random(55);
  const auto draw = [&](size_t below) { return random() % below; };
  AddWorkers(4);
  v1::JobSpec spec = Elastic(3, 8, 2);
  spec.mutable_stop()->set_steps(1000);
  spec.set_batch_size(16);
  spec.set_scale_batch(true);
  const std::string job = *cluster_.Submit(spec);
  for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, 1000);
  ASSERT_EQ(cluster_.State(job), v1::RUNNING);
  int joins = 0, notices = 0, kills = 0;
  uint64_t clock = 0;
  int64_t seen = 0;
  while (joins + notices + kills < 100) {
    std::vector<std::string> stay;
    for (const auto& [id, daemon] : cluster_.daemons()) {
      if (!daemon.leaves) stay.push_back(id);
    }
    if (stay.size() < 4 || (stay.size() < 9 && draw(2) == 0)) {
      cluster_.AddWorker(absl::StrCat("joins-", joins++));
    } else if (draw(3) > 0) {
      cluster_.daemon(stay[draw(stay.size())]).leaves = true;
      cluster_.BeatAll();
      ++notices;
    } else {
      Kill(stay[draw(stay.size())]);
      ++kills;
    }
    // A few steps, in each of which every task of the round takes part.
    for (int i = 0; i < 4; ++i) {
      cluster_.Pass(absl::Milliseconds(100));
      for (const v1::TaskOrder& order : cluster_.Orders(job)) {
        if (cluster_.rank(order).round == 0) cluster_.Rendezvous(order, 1000);
      }
      const uint64_t round = LastRound(job);
      if (cluster_.State(job) != v1::RUNNING) {
        for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, 1000);
        cluster_.Pass(kElasticWait + kLongestPause);
        continue;
      }
      ++clock;
      uint32_t ranks = 0;
      uint64_t meet_after = 0;
      for (const v1::TaskOrder& order : cluster_.Orders(job)) {
        SimulatedCluster::Rank& rank = cluster_.rank(order);
        if (rank.round != round) continue;
        ASSERT_EQ(rank.clock, clock - 1) << "slot " << order.slot();
        ++ranks;
        rank.clock = clock;
        ASSERT_TRUE(cluster_.Progress(order, clock).ok());
        meet_after = std::max(meet_after, cluster_.progress_reply.meet_after_round());
      }
      EXPECT_GE(ranks, 2u);
      EXPECT_LE(ranks, 8u);
      const StepBatch batch = BatchAt(cluster_.Status(job), clock - 1);
      ASSERT_EQ(batch.begin, seen) << "of clock " << clock - 1;
      ASSERT_EQ(batch.size, ranks == 3 ? 16 : 16 * ranks / 3 / ranks * ranks);
      seen = batch.end();
      if (meet_after < round) continue;
      for (const v1::TaskOrder& order : cluster_.Orders(job)) {
        // The next round may have opened before the last of them come.
        if (cluster_.rank(order).round <= round) cluster_.Rendezvous(order, 1000);
      }
      cluster_.Pass(absl::Milliseconds(100));
      // Tasks that wait for a round make no steps.
      if (LastRound(job) == round) cluster_.Pass(kElasticWait + kLongestPause);
    }
    // Daemons that had notice end once they have no tasks.
    std::vector<std::string> gone;
    for (const auto& [id, daemon] : cluster_.daemons()) {
      if (daemon.leaves && daemon.orders.tasks().empty()) gone.push_back(id);
    }
    for (const std::string& id : gone) cluster_.Kill(id);
    ASSERT_EQ(cluster_.Status(job).generation(), 1) << "nothing is made again";
  }
  EXPECT_GT(joins, 20);
  EXPECT_GT(notices, 20);
  EXPECT_GT(kills, 5);
  EXPECT_GT(clock, 200u);
}

}  // namespace
}  // namespace muster
