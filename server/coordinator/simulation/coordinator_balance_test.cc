// Data ranks get shares by the speeds that their tasks measure, decided once, whoever is lost.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two data ranks of two tensor ranks each. Slots 2 and 3 are data rank 1.
class BalanceTest : public testing::Test {
 protected:
  BalanceTest() {
    cluster_.AddServer("s0");
    for (const char* worker : {"w0", "w1", "w2", "w3", "w4"}) cluster_.AddWorker(worker);
    spec_ = AllReduceJob();
    spec_.set_workers(4);
    spec_.mutable_parallelism()->set_tensor(2);
    spec_.mutable_balance()->set_every_steps(5);
    spec_.mutable_checkpoint()->set_every_steps(5);
    spec_.mutable_stop()->set_steps(20);
    job_ = *cluster_.Submit(spec_);
    cluster_.MeetAll(job_);
  }

  // Has all tasks ask, each after 100 examples in its own number of seconds. Returns the parts that
  // hold from then on.
  std::vector<uint32_t> Ask(uint64_t clock, const std::vector<double>& seconds) {
    Answer<v1::AdjustReply> answer;
    for (uint32_t slot = 0; slot < 4; ++slot) {
      v1::AdjustRequest request;
      request.set_examples(100);
      request.set_compute_seconds(seconds[slot]);
      answer = cluster_.Adjust(*cluster_.Order(job_, slot), clock, request);
    }
    EXPECT_TRUE(answer.came() && answer.get().ok()) << answer.status();
    return PartsOf(answer.get()->adjustments());
  }

  static std::vector<uint32_t> PartsOf(
      const google::protobuf::RepeatedPtrField<v1::Adjustment>& decided) {
    if (decided.empty()) return {};
    const auto& shares = decided.rbegin()->shares();
    return {shares.begin(), shares.end()};
  }

  SimulatedCluster cluster_;
  v1::JobSpec spec_;
  std::string job_;
};

TEST_F(BalanceTest, TheSlowestTaskOfADataRankCounts) {
  cluster_.ProgressAll(job_, 5);
  EXPECT_THAT(Ask(5, {1, 1, 1, 3}), ElementsAre(1250, 750));
  EXPECT_TRUE(cluster_.HasEvent(job_, "data ranks take 1.25, 0.75 of an equal share"));
  EXPECT_THAT(cluster_.Status(job_).adjustments(0).reason(),
              HasSubstr("slot 3 computes 33.3"));
  cluster_.ProgressAll(job_, 10);
  EXPECT_THAT(Ask(10, {1, 1, 1, 3}), ElementsAre(1375, 625));
}

TEST_F(BalanceTest, NothingChangesWithoutMeasurements) {
  cluster_.ProgressAll(job_, 5);
  EXPECT_THAT(Ask(5, {0, 0, 0, 0}), IsEmpty());
  EXPECT_THAT(Ask(10, {1, 1, 1.01, 1}), IsEmpty());
}

TEST_F(BalanceTest, TasksThatMeetAgainKeepTheShares) {
  cluster_.ProgressAll(job_, 5);
  Ask(5, {1, 1, 1, 3});
  cluster_.RestartCoordinator();
  cluster_.Pass(absl::Seconds(1));
  cluster_.Die(*cluster_.Order(job_, 1));
  cluster_.Pass(absl::Seconds(10));
  v1::RendezvousReply told;
  cluster_.on_round = [&told](const v1::TaskOrder&, uint64_t, const v1::RendezvousReply& reply) {
    told = reply;
  };
  cluster_.MeetAll(job_);
  cluster_.Pass(absl::Seconds(10));
  EXPECT_THAT(PartsOf(told.adjustments()), ElementsAre(1250, 750));
}

TEST_F(BalanceTest, AJobThatResumesKeepsThemIfItIsBalancedToo) {
  cluster_.ProgressAll(job_, 5);
  Ask(5, {1, 1, 1, 3});
  cluster_.Checkpoint(*cluster_.Order(job_, 0), 5);
  cluster_.Finish(job_);
  spec_.set_resume_from(job_);
  spec_.mutable_stop()->set_steps(40);
  EXPECT_THAT(PartsOf(cluster_.Status(*cluster_.Submit(spec_)).adjustments()),
              ElementsAre(1250, 750));
  spec_.clear_balance();
  EXPECT_THAT(PartsOf(cluster_.Status(*cluster_.Submit(spec_)).adjustments()), IsEmpty());
}

}  // namespace
}  // namespace muster
