#include "server/coordinator/scheduling/held_slots.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/job/test_jobs.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

class HeldSlotsTest : public ::testing::Test {
 protected:
  using Slots = std::set<std::pair<std::string, uint32_t>>;

  // Returns the slots that each worker's orders are of.
  std::map<std::string, Slots> Ordered() {
    std::map<std::string, Slots> ordered;
    for (const auto& [id, daemon] : cluster_.daemons()) {
      for (const v1::TaskOrder& order : daemon.orders.tasks()) {
        ordered[id].emplace(order.job_id(), order.slot());
      }
    }
    return ordered;
  }

  Slots Of(const std::string& worker, uint64_t incarnation) {
    Slots slots;
    for (const HeldSlot& held : held_.Of(worker, incarnation)) {
      slots.emplace(held.job->id(), held.slot);
    }
    return slots;
  }

  void ExpectAsOrdered() {
    for (auto& [id, slots] : Ordered()) {
      EXPECT_EQ(Of(id, cluster_.daemon(id).incarnation), slots) << id;
    }
  }

  SimulatedCluster cluster_;
  HeldSlots held_{cluster_.coordinator().table()};
};

TEST_F(HeldSlotsTest, FollowsJobsAndIncarnations) {
  cluster_.AddWorker("w0", 2);
  cluster_.AddWorker("w1", 3);
  const std::string a = *cluster_.Submit(AllReduceJob());
  const std::string b = *cluster_.Submit(AllReduceJob());
  ASSERT_EQ(Ordered().size(), 2);
  ExpectAsOrdered();

  const uint64_t before = cluster_.daemon("w0").incarnation;
  EXPECT_FALSE(Of("w0", before).empty());
  cluster_.RestartDaemon("w0");
  EXPECT_TRUE(Of("w0", before).empty());
  ExpectAsOrdered();

  cluster_.MeetAll(a);
  v1::CancelJobRequest cancel;
  cancel.set_job_id(a);
  ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
  cluster_.Run();
  cluster_.BeatAll();
  ExpectAsOrdered();
  for (const std::string worker : {"w0", "w1"}) {
    for (const auto& [job, slot] : Of(worker, cluster_.daemon(worker).incarnation)) {
      EXPECT_EQ(job, b);
    }
  }
  EXPECT_TRUE(Of("w2", 1).empty());
}

}  // namespace
}  // namespace muster
