// Jobs on servers whose slots come and go while the tables stay where they are.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A server with one partition, as far as generations and clocks go.
class OnePartition {
 public:
  // Who made a clock: the generation, and how many slots it had.
  struct Made {
    uint64_t generation = 0;
    size_t members = 0;
  };

  // Returns the clocks that all slots of the ended generation had closed.
  uint64_t EndGeneration(uint64_t next, uint64_t oldest) {
    EXPECT_GE(std::max(generation_, ended_), oldest) << "the tables are of an earlier lineage";
    if (generation_ < next) ended_ = std::max(ended_, next);
    return made_.size();
  }

  void Open(uint64_t generation, size_t members, uint64_t start_clock) {
    if (generation == generation_) return;
    ASSERT_GT(generation, generation_);
    ASSERT_EQ(made_.size(), start_clock) << "the coordinator and the server do not agree";
    generation_ = generation;
    closed_.assign(members, start_clock);
  }

  // Returns whether the slot at this position may close its next clock, and closes it.
  bool Close(uint64_t generation, size_t position) {
    if (generation != generation_ || generation < ended_) return false;
    if (closed_.at(position) > made_.size()) return false;
    ++closed_.at(position);
    if (*std::min_element(closed_.begin(), closed_.end()) > made_.size()) {
      made_.push_back({generation, closed_.size()});
    }
    return true;
  }

  uint64_t closed(size_t position) const { return closed_.at(position); }
  bool HasOpen(uint64_t generation) const { return generation == generation_; }
  const std::vector<Made>& made() const { return made_; }

 private:
  uint64_t generation_ = 0;
  uint64_t ended_ = 0;
  std::vector<uint64_t> closed_;
  std::vector<Made> made_;
};

class MembersTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSteps = 100'000;

  MembersTest() { cluster_.AddServer("s0"); }

  void AddWorkers(int count) {
    for (int i = 0; i < count; ++i) cluster_.AddWorker(absl::StrCat("w", next_worker_++));
  }

  static v1::JobSpec Elastic(uint32_t workers, uint32_t max_workers = 0) {
    v1::JobSpec spec = SmallJob();
    spec.set_workers(workers);
    spec.set_min_workers(1);
    spec.set_max_workers(max_workers);
    spec.mutable_stop()->set_steps(kSteps);
    return spec;
  }

  // Submits the job, whose tasks meet and make a step.
  std::string Running(const v1::JobSpec& spec) {
    const std::string job = *cluster_.Submit(spec);
    Turns(job, 4);
    EXPECT_EQ(cluster_.State(job), v1::RUNNING);
    EXPECT_FALSE(partition_.made().empty());
    return job;
  }

  // All tasks do what they can do now, in order of slots.
  void Turn(const std::string& job) {
    for (const v1::TaskOrder& order : cluster_.Orders(job)) Act(order);
    cluster_.BeatAll();
  }

  void Turns(const std::string& job, int count) {
    for (int i = 0; i < count; ++i) Turn(job);
  }

  // Time passes while the tasks go on.
  void Pass(const std::string& job, absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Milliseconds(500)) {
      cluster_.Pass(absl::Milliseconds(500));
      Turn(job);
    }
  }

  void Act(const v1::TaskOrder& order) {
    const std::string task = SimulatedCluster::EndpointOf(order);
    if (ended_.contains(task)) return;
    const auto& members = order.member_slots();
    const auto place = std::find(members.begin(), members.end(), order.slot());
    ASSERT_NE(place, members.end()) << "slot " << order.slot() << " does not train";
    const auto position = static_cast<size_t>(place - members.begin());
    if (!met_.contains(task)) {
      SimulatedCluster::Rank& rank = cluster_.rank(order);
      if (order.takes_over_generation() > 0 && position == 0) {
        rank.taken_over_clock =
            partition_.EndGeneration(order.generation(), order.takes_over_generation());
      }
      auto [arrived, first] = arrived_.try_emplace(task);
      if (first || (arrived->second.came() && !arrived->second.get().ok())) {
        arrived->second = cluster_.Rendezvous(order, kSteps);
      }
      if (!arrived->second.came() || !arrived->second.get().ok()) return;
      met_.insert(task);
      partition_.Open(order.generation(), members.size(), arrived->second.get()->start_clock());
    }
    if (!partition_.HasOpen(order.generation())) return;
    partition_.Close(order.generation(), position);
    if (!cluster_.Progress(order, partition_.closed(position)).ok()) return;
    const uint64_t end = cluster_.progress_reply.end_after_clock();
    if (end == 0 || partition_.closed(position) < end) return;
    ended_.insert(task);
    cluster_.End(order, static_cast<int>(absl::StatusCode::kCancelled), "others train on");
  }

  std::vector<uint32_t> Members(const std::string& job) {
    const auto& slots = cluster_.coordinator().table().Find(job)->record.member_slots();
    return {slots.begin(), slots.end()};
  }

  uint64_t Generation(const std::string& job) { return cluster_.Status(job).generation(); }

  // Ends the worker of a slot, and waits until it is missed.
  void Lose(const std::string& job, uint32_t slot) {
    cluster_.Kill(WorkerOf(job, slot));
    Pass(job, kLease + absl::Seconds(1));
  }

  std::string WorkerOf(const std::string& job, uint32_t slot) {
    return cluster_.coordinator()
        .table()
        .Find(job)
        ->record.slots(static_cast<int>(slot))
        .worker_id();
  }

  SimulatedCluster cluster_;
  OnePartition partition_;
  std::map<std::string, Answer<v1::RendezvousReply>> arrived_;
  std::set<std::string> met_;
  std::set<std::string> ended_;
  int next_worker_ = 0;
};

TEST_F(MembersTest, TheOthersGoOnInPlaceAfterALoss) {
  AddWorkers(3);
  const std::string job = Running(Elastic(3));
  EXPECT_THAT(Members(job), ElementsAre(0, 1, 2));
  Lose(job, 1);
  const uint64_t made = partition_.made().size();
  EXPECT_EQ(Generation(job), 1) << "another worker may still come";
  Pass(job, absl::Seconds(5));
  EXPECT_EQ(Generation(job), 2);
  EXPECT_THAT(Members(job), ElementsAre(0, 2));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_GT(partition_.made().size(), made);
  EXPECT_EQ(partition_.made().back().members, 2);
  EXPECT_TRUE(cluster_.HasEvent(job, "2 workers go on"));
  EXPECT_TRUE(cluster_.HasEvent(job, absl::StrCat("to go on at step ", made)));
  EXPECT_EQ(cluster_.coordinator().table().Find(job)->record.last_rollback(), "");

  AddWorkers(1);
  Pass(job, absl::Seconds(8));
  EXPECT_EQ(Generation(job), 3);
  EXPECT_THAT(Members(job), ElementsAre(0, 1, 2));
  EXPECT_EQ(partition_.made().back().members, 3);
  EXPECT_TRUE(cluster_.HasEvent(job, "slot 1 joins at step "));
}

TEST_F(MembersTest, AFreeWorkerTakesALostSlotInTheSameGeneration) {
  AddWorkers(4);
  const std::string job = Running(Elastic(3));
  Lose(job, 1);
  Pass(job, absl::Seconds(2));
  EXPECT_EQ(Generation(job), 1);
  EXPECT_THAT(Members(job), ElementsAre(0, 1, 2));
}

TEST_F(MembersTest, AWorkerThatMustEndLeavesAfterAStepOfAll) {
  AddWorkers(3);
  const std::string job = Running(Elastic(3));
  const std::string worker = WorkerOf(job, 0);
  cluster_.daemon(worker).leaves = true;
  Pass(job, absl::Seconds(2));
  EXPECT_EQ(Generation(job), 2);
  EXPECT_THAT(Members(job), ElementsAre(1, 2));
  EXPECT_EQ(cluster_.Order(job, 0), nullptr);
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_TRUE(cluster_.HasEvent(
      job, absl::StrCat("slot 0 left (its worker ", worker, " was told to leave); 2 workers")));
  // Slot 1 speaks for the job now.
  const v1::TaskOrder first = *cluster_.Order(job, 1);
  EXPECT_TRUE(cluster_.Checkpoint(first, partition_.made().size()).status().ok());
  EXPECT_FALSE(cluster_.Checkpoint(*cluster_.Order(job, 2), 1).status().ok());
}

TEST_F(MembersTest, WorkersThatComeTogetherJoinInOneChange) {
  AddWorkers(2);
  const std::string job = Running(Elastic(2, 5));
  AddWorkers(3);
  Pass(job, absl::Seconds(2));
  EXPECT_EQ(Generation(job), 2);
  EXPECT_THAT(Members(job), SizeIs(5));
  EXPECT_EQ(partition_.made().back().members, 5);
}

TEST_F(MembersTest, TheJobDoesNotChangeForEachWorkerThatComes) {
  AddWorkers(2);
  const std::string job = Running(Elastic(2, 8));
  for (int i = 0; i < 6; ++i) {
    AddWorkers(1);
    Pass(job, absl::Milliseconds(500));
  }
  Pass(job, absl::Seconds(8));
  EXPECT_THAT(Members(job), SizeIs(8));
  EXPECT_EQ(Generation(job), 3) << "the first alone, the others together after a pause";
}

TEST_F(MembersTest, SlotsAreGivenToAJobThatWaits) {
  AddWorkers(4);
  const std::string job = Running(Elastic(2, 4));
  Pass(job, absl::Seconds(2));
  ASSERT_THAT(Members(job), SizeIs(4));
  v1::JobSpec other = SmallJob();
  const std::string waits = *cluster_.Submit(other);
  Pass(job, absl::Seconds(2));
  EXPECT_THAT(Members(job), ElementsAre(0, 1));
  EXPECT_THAT(cluster_.Orders(waits), SizeIs(2));
  EXPECT_TRUE(cluster_.HasEvent(job, absl::StrCat("job ", waits, " waits for its worker")));
}

TEST_F(MembersTest, TooFewWorkersWaitForMore) {
  AddWorkers(3);
  v1::JobSpec spec = Elastic(3);
  spec.set_min_workers(3);
  const std::string job = Running(spec);
  Lose(job, 1);
  Pass(job, absl::Seconds(30));
  EXPECT_EQ(Generation(job), 1);
  EXPECT_EQ(cluster_.State(job), v1::RECOVERING);
  AddWorkers(1);
  Pass(job, absl::Seconds(2));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
  EXPECT_EQ(Generation(job), 1);
}

TEST_F(MembersTest, AServersLossTakesTheJobBackWithAllItsWorkers) {
  AddWorkers(3);
  cluster_.AddServer("s1");
  v1::JobSpec spec = Elastic(3);
  spec.set_servers(1);
  const std::string job = Running(spec);
  Lose(job, 2);
  Pass(job, absl::Seconds(5));
  ASSERT_THAT(Members(job), ElementsAre(0, 1));
  AddWorkers(1);
  partition_ = OnePartition();
  cluster_.Kill(cluster_.coordinator().table().Find(job)->record.servers(0).server_id());
  Pass(job, kLease + absl::Seconds(2));
  const v1::JobRecord& record = cluster_.coordinator().table().Find(job)->record;
  EXPECT_EQ(record.takes_over_generation(), 0) << "it starts from the beginning";
  EXPECT_EQ(record.start_clock(), 0);
  EXPECT_THAT(Members(job), ElementsAre(0, 1, 2));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(MembersTest, AnEvaluationDoesNotWaitForALostSlot) {
  AddWorkers(3);
  const std::string job = Running(Elastic(3));
  const uint64_t clock = partition_.made().size();
  std::vector<Answer<v1::ReportEvaluationReply>> answers;
  for (const uint32_t slot : {0, 2}) {
    answers.push_back(cluster_.Evaluate(*cluster_.Order(job, slot), clock));
  }
  cluster_.Kill(WorkerOf(job, 1));
  cluster_.Pass(kLease + absl::Seconds(6));
  for (const auto& answer : answers) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
  }
  Pass(job, absl::Seconds(1));
  EXPECT_THAT(Members(job), ElementsAre(0, 2));
  for (const v1::TaskOrder& order : cluster_.Orders(job)) {
    answers.push_back(cluster_.Evaluate(order, clock));
  }
  EXPECT_TRUE(answers.back().status().ok()) << "two members are all";
}

TEST_F(MembersTest, ACoordinatorThatIsStartedAgainMeanwhileDecidesAnew) {
  AddWorkers(3);
  const std::string job = Running(Elastic(3));
  cluster_.daemon(WorkerOf(job, 2)).leaves = true;
  cluster_.Pass(absl::Milliseconds(500));
  // One task has heard, and ends.
  Act(*cluster_.Order(job, 0));
  Act(*cluster_.Order(job, 0));
  cluster_.RestartCoordinator();
  cluster_.BeatAll();
  Pass(job, absl::Seconds(12));
  EXPECT_THAT(Members(job), ElementsAre(0, 1));
  EXPECT_EQ(cluster_.State(job), v1::RUNNING);
}

TEST_F(MembersTest, EveryStepIsMadeOnceThroughAHundredChanges) {
  AddWorkers(3);
  const std::string job = Running(Elastic(3, 6));
  std::mt19937 random(7);
  for (int change = 0; change < 100; ++change) {
    std::vector<std::string> workers;
    for (const auto& [id, daemon] : cluster_.daemons()) {
      if (daemon.kind == v1::WORKER) workers.push_back(id);
    }
    const bool comes = workers.size() <= 2 || (workers.size() < 7 && random() % 2 == 0);
    if (comes) {
      AddWorkers(1);
    } else {
      const std::string& id = workers[random() % workers.size()];
      // A lost worker, or one that is told to leave and ends a little later.
      if (random() % 2 == 0) {
        cluster_.daemon(id).leaves = true;
        Pass(job, absl::Seconds(3));
      }
      cluster_.Kill(id);
    }
    if (random() % 10 == 0) {
      cluster_.RestartCoordinator();
      cluster_.BeatAll();
    }
    Pass(job, absl::Milliseconds(500) * static_cast<int>(random() % 20));
  }
  AddWorkers(2);
  Pass(job, absl::Seconds(40));
  ASSERT_EQ(cluster_.State(job), v1::RUNNING) << cluster_.Status(job).message();
  EXPECT_GT(Generation(job), 40);
  EXPECT_EQ(cluster_.coordinator().table().Find(job)->record.last_rollback(), "")
      << "the tables stayed where they were";
  // OnePartition has checked that each generation began where all steps so far had ended.
  EXPECT_GT(partition_.made().size(), 200);
  EXPECT_EQ(partition_.made().back().generation, Generation(job));
}

}  // namespace
}  // namespace muster
