// Random histories on a fake clock: daemons die and come back, tasks do whatever tasks do, the
// coordinator restarts, the disk fails. Whatever happens, what the coordinator promises holds after
// every step; and when the trouble is over, every job ends.
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_state_machine.h"
#include "server/coordinator/simulated_cluster.h"
#include "server/coordinator/test_jobs.h"

namespace muster {
namespace {

constexpr int kSteps = 400;
constexpr uint64_t kJobSteps = 10;
const std::vector<std::string> kServers = {"s0", "s1", "s2"};
const std::vector<std::string> kWorkers = {"w0", "w1", "w2"};
constexpr uint32_t kSlotsPerWorker = 2;

class SimulationTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  SimulationTest() : random_(GetParam()) {
    for (const std::string& id : kServers) cluster_.AddServer(id);
    for (const std::string& id : kWorkers) cluster_.AddWorker(id, kSlotsPerWorker);
  }

  uint64_t Draw(uint64_t n) { return random_() % n; }

  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Draw(from.size())];
  }

  void SubmitSomething() {
    v1::JobSpec spec = SmallJob();
    spec.set_workers(1 + Draw(4));
    spec.mutable_update()->set_partitions(1 + Draw(5));
    spec.mutable_update()->set_durability(Draw(2) == 0 ? v1::UpdateSpec::EVERY_PUSH
                                                       : v1::UpdateSpec::CHECKPOINT);
    if (Draw(3) == 0) spec.mutable_stop()->set_target(0.9);
    const auto job = cluster_.Submit(spec, absl::StrCat("r", Draw(1000)));
    if (job.ok()) jobs_.insert(*job);
  }

  // Something that a task may do at any time, sensible or not.
  void TaskActs() {
    std::vector<v1::TaskOrder> orders;
    for (const auto& [id, daemon] : cluster_.daemons()) {
      orders.insert(orders.end(), daemon.orders.tasks().begin(), daemon.orders.tasks().end());
    }
    orders.insert(orders.end(), old_orders_.begin(), old_orders_.end());
    if (orders.empty()) return;
    const v1::TaskOrder order = Pick(orders);
    if (Draw(10) == 0) old_orders_.push_back(order);
    switch (Draw(9)) {
      case 0:
      case 1:
        cluster_.Rendezvous(order, kJobSteps, Draw(200) == 0 ? 9 : 7);
        break;
      case 2:
      case 3:
        cluster_.Progress(order, order.start_clock() + Draw(kJobSteps)).IgnoreError();
        break;
      case 4:
        cluster_.Evaluate(order, 5, Draw(11));
        break;
      case 5:
        cluster_.Checkpoint(order, 1 + Draw(kJobSteps));
        break;
      case 6:
        cluster_.GetShardMap(order, Draw(4), absl::Seconds(Draw(10)));
        break;
      case 7:
        cluster_.Die(order);
        break;
      case 8:
        cluster_.End(order, static_cast<int>(Draw(20) == 0 ? absl::StatusCode::kInvalidArgument
                                                           : absl::StatusCode::kUnavailable));
        break;
    }
  }

  void Step() {
    switch (Draw(16)) {
      case 0:
      case 1:
        return SubmitSomething();
      case 2:
        return cluster_.Kill(Draw(2) == 0 ? Pick(kServers) : Pick(kWorkers));
      case 3:
      case 4:
        return Revive(Draw(2) == 0 ? Pick(kServers) : Pick(kWorkers));
      case 5:
        return cluster_.Pass(absl::Milliseconds(500 * (1 + Draw(14))));
      case 6:
        return cluster_.RestartCoordinator();
      case 7:
        cluster_.store.failing = Draw(3) == 0;
        return;
      case 8: {
        if (jobs_.empty()) return;
        v1::CancelJobRequest request;
        request.set_job_id(Pick(std::vector<std::string>(jobs_.begin(), jobs_.end())));
        if (Draw(3) == 0) cluster_.coordinator().jobs().Cancel(request).IgnoreError();
        return cluster_.Run();
      }
      case 9: {
        if (jobs_.empty()) return;
        Answer<v1::DeleteJobReply> answer;
        const std::string job = Pick(std::vector<std::string>(jobs_.begin(), jobs_.end()));
        cluster_.coordinator().jobs().Delete(job, answer.call());
        return cluster_.Run();
      }
      default:
        return TaskActs();
    }
  }

  void Revive(const std::string& id) {
    if (cluster_.daemons().contains(id)) {
      cluster_.RestartDaemon(id);
    } else if (id[0] == 's') {
      cluster_.AddServer(id);
    } else {
      cluster_.AddWorker(id, kSlotsPerWorker);
    }
  }

  void CheckInvariants() {
    const JobTable& table = cluster_.coordinator().table();
    const Membership& members = cluster_.coordinator().members();
    std::map<std::string, uint32_t> used;
    std::set<std::tuple<std::string, uint32_t, uint64_t>> held;
    for (const auto& [number, job] : table.jobs()) {
      const v1::JobRecord& record = job->record;
      CheckHistory(record);
      if (!IsActive(record.state())) continue;
      for (uint32_t slot = 0; slot < job->slots(); ++slot) {
        const v1::SlotRecord& holder = record.slots(slot);
        if (holder.done() || holder.worker_id().empty()) continue;
        if (members.Holds(holder.worker_id(), holder.worker_incarnation())) {
          ++used[holder.worker_id()];
        }
      }
      // All or nothing: a job has every partition placed, or none and no slot.
      if (record.servers().empty()) {
        for (const v1::SlotRecord& slot : record.slots()) EXPECT_EQ(slot.worker_id(), "");
      } else {
        EXPECT_EQ(record.partitions_size(), record.spec().update().partitions());
      }
    }
    for (const auto& [id, slots] : used) EXPECT_LE(slots, kSlotsPerWorker) << id;

    // No incarnation of a slot was ever ordered from two daemons.
    for (const auto& [id, daemon] : cluster_.daemons()) {
      for (const v1::TaskOrder& order : daemon.orders.tasks()) {
        EXPECT_TRUE(held.insert({order.job_id(), order.slot(), order.incarnation()}).second);
        const auto [it, added] = ordered_from_.insert(
            {{order.job_id(), order.slot(), order.incarnation()}, {id, daemon.incarnation}});
        EXPECT_EQ(it->second, std::make_pair(id, daemon.incarnation))
            << order.job_id() << " slot " << order.slot();
      }
    }
  }

  // Counters only grow, and what has ended stays as it ended.
  void CheckHistory(const v1::JobRecord& record) {
    v1::JobRecord& before = seen_[record.job_id()];
    if (before.job_id().empty()) before = record;
    EXPECT_GE(record.generation(), before.generation());
    EXPECT_GE(record.shard_map_version(), before.shard_map_version());
    EXPECT_GE(record.term(), before.term());
    for (int slot = 0; slot < record.slots_size(); ++slot) {
      EXPECT_GE(record.slots(slot).incarnation(), before.slots(slot).incarnation());
    }
    if (IsFinal(before.state())) {
      EXPECT_EQ(record.state(), before.state());
      EXPECT_EQ(record.message(), before.message());
    }
    if (record.shard_map_version() == before.shard_map_version() && record.partitions_size() > 0 &&
        before.partitions_size() > 0) {
      EXPECT_EQ(record.partitions(0).SerializeAsString(), before.partitions(0).SerializeAsString())
          << "a change of the map without a new version";
    }
    before = record;
  }

  SimulatedCluster cluster_;
  std::mt19937_64 random_;
  std::set<std::string> jobs_;
  // Of tasks that may have been replaced since.
  std::vector<v1::TaskOrder> old_orders_;
  std::map<std::string, v1::JobRecord> seen_;
  std::map<std::tuple<std::string, uint32_t, uint64_t>, std::pair<std::string, uint64_t>>
      ordered_from_;
};

TEST_P(SimulationTest, KeepsItsPromisesAndEndsEveryJob) {
  for (int step = 0; step < kSteps; ++step) {
    Step();
    CheckInvariants();
    if (HasFailure()) FAIL() << "at step " << step;
  }

  // The trouble is over.
  cluster_.store.failing = false;
  for (const std::string& id : kServers) Revive(id);
  for (const std::string& id : kWorkers) Revive(id);
  cluster_.Pass(absl::Minutes(2));
  for (int round = 0; round < 500; ++round) {
    std::string next;
    for (const auto& [number, job] : cluster_.coordinator().table().jobs()) {
      if (IsActive(job->record.state()) && next.empty()) next = job->id();
    }
    if (next.empty()) break;
    cluster_.Finish(next, kJobSteps);
    cluster_.Pass(absl::Seconds(1));
    CheckInvariants();
  }
  for (const auto& [number, job] : cluster_.coordinator().table().jobs()) {
    EXPECT_TRUE(IsFinal(job->record.state()))
        << job->id() << " is " << v1::JobState_Name(job->record.state()) << ": "
        << job->waiting_for;
  }
  // What ended holds nothing, and servers were told to drop it.
  cluster_.Pass(absl::Minutes(1));
  const v1::GetClusterReply cluster = cluster_.coordinator().jobs().Cluster();
  for (const v1::DaemonStatus& daemon : cluster.daemons()) {
    EXPECT_EQ(daemon.slots_used(), 0) << daemon.id();
    EXPECT_EQ(daemon.memory_reserved_bytes(), 0) << daemon.id();
  }
  for (const auto& [id, daemon] : cluster_.daemons()) {
    EXPECT_EQ(daemon.orders.tasks_size(), 0) << id;
    EXPECT_EQ(daemon.orders.drop_jobs_size(), 0) << id;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationTest, ::testing::Range<uint64_t>(1, 17));

}  // namespace
}  // namespace muster
