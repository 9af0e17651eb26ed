#include "worker/strategy/servers/takeover.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fake_clock_for_testing.h"
#include "common/base/lost_state.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/retry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::PartitionClocks Clocks(uint32_t partition, const std::vector<uint64_t>& closed) {
  v1::PartitionClocks clocks;
  clocks.set_partition(partition);
  clocks.mutable_closed()->Assign(closed.begin(), closed.end());
  return clocks;
}

TEST(TakeoverTest, GoesOnAtTheHighestClockThatAllSlotsClosedSomewhere) {
  EXPECT_EQ(*ClockToGoOnAt({Clocks(0, {4, 4, 4}), Clocks(1, {4, 4, 4})}, 2), 4);
  EXPECT_EQ(*ClockToGoOnAt({Clocks(0, {5, 4}), Clocks(1, {4, 5})}, 2), 4) << "none has completed 5";
  EXPECT_EQ(*ClockToGoOnAt({Clocks(0, {5, 5}), Clocks(1, {4, 5})}, 2), 5);
  EXPECT_EQ(*ClockToGoOnAt({Clocks(0, {0, 1})}, 1), 0);
}

TEST(TakeoverTest, PartitionsThatAreFurtherBehindOrMissingAreLost) {
  const auto behind = ClockToGoOnAt({Clocks(0, {5, 5}), Clocks(1, {3, 5})}, 2);
  EXPECT_EQ(LostStateOf(behind.status()), LostState::kServerState) << behind.status();
  EXPECT_THAT(std::string(behind.status().message()), HasSubstr("partition 1 has completed 3"));
  const auto missing = ClockToGoOnAt({Clocks(0, {5, 5})}, 2);
  EXPECT_EQ(LostStateOf(missing.status()), LostState::kServerState) << missing.status();
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("1 of its 2 partitions"));
}

TEST(TakeoverTest, TowardsServersASlotIsItsPlaceAmongThoseThatTrain) {
  v1::TaskOrder order;
  order.set_slot(4);
  order.mutable_spec()->set_workers(3);
  order.set_restore_uri("checkpoints/7");
  const v1::TaskOrder all = OrderOfMember(order, 9);
  EXPECT_EQ(all.slot(), 4);
  EXPECT_EQ(all.spec().workers(), 3);
  for (const uint32_t slot : {1, 4}) order.add_member_slots(slot);
  const v1::TaskOrder first = OrderOfMember(order, 9);
  EXPECT_EQ(first.slot(), 1);
  EXPECT_EQ(first.spec().workers(), 2);
  EXPECT_EQ(first.restore_uri(), "checkpoints/7");
  EXPECT_EQ(first.start_clock(), 0);
  order.set_takes_over_generation(2);
  const v1::TaskOrder later = OrderOfMember(order, 9);
  EXPECT_EQ(later.restore_uri(), "") << "the tables are there";
  EXPECT_EQ(later.start_clock(), 9);
}

// Servers by address, which answer EndGeneration with what they are told to.
class EndingServers {
 public:
  class Client final : public ParameterClient {
   public:
    Client(EndingServers& servers, std::string address)
        : servers_(servers), address_(std::move(address)) {}

    absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest&,
                                                   absl::Duration) override {
      return absl::InternalError("not asked");
    }
    absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                         absl::Duration) override {
      servers_.requests[address_] = request;
      auto& answers = servers_.answers[address_];
      const auto answer = answers.front();
      if (answers.size() > 1) answers.pop_front();
      return answer;
    }
    absl::Status DropTables(const std::string&, absl::Duration) override {
      return absl::InternalError("not asked");
    }
    absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration) override {
      return absl::InternalError("not asked");
    }
    void Call(v1::ExchangeRequest, Payload, Done done) override {
      done(absl::InternalError("not asked"));
    }
    void Abort(absl::Status) override {}

   private:
    EndingServers& servers_;
    const std::string address_;
  };

  std::map<std::string, std::deque<absl::StatusOr<v1::EndGenerationReply>>> answers;
  std::map<std::string, v1::EndGenerationRequest> requests;
};

class WaitsNot final : public Waiter {
 public:
  bool Wait(absl::Duration) override { return true; }
  void Stop() override {}
};

class EndEarlierGenerationsTest : public ::testing::Test {
 protected:
  EndEarlierGenerationsTest() {
    order_.set_job_id("job");
    order_.set_generation(5);
    order_.set_takes_over_generation(3);
    for (uint32_t partition = 0; partition < 3; ++partition) {
      v1::PartitionPlacement& placement = *order_.mutable_shard_map()->add_partitions();
      placement.set_partition(partition);
      v1::Replica& replica = *placement.add_replicas();
      replica.set_role(v1::Replica::PRIMARY);
      replica.set_address(partition < 2 ? "one" : "two");
      replica.set_term(10 + partition);
    }
    servers_.make_client = [this](const std::string& address) {
      return std::make_unique<EndingServers::Client>(fakes_, address);
    };
    servers_.newest_shard_map = [this]() -> absl::StatusOr<v1::ShardMap> {
      ++maps_;
      return order_.shard_map();
    };
    servers_.clock = &clock_;
    servers_.waiter = &waiter_;
    v1::EndGenerationReply one, two;
    *one.add_partitions() = Clocks(0, {6, 6});
    *one.add_partitions() = Clocks(1, {6, 5});
    *two.add_partitions() = Clocks(2, {6, 6});
    fakes_.answers["one"].push_back(one);
    fakes_.answers["two"].push_back(two);
  }

  v1::TaskOrder order_;
  EndingServers fakes_;
  FakeClock clock_;
  WaitsNot waiter_;
  ShardRouterDependencies servers_;
  int maps_ = 0;
};

TEST_F(EndEarlierGenerationsTest, AsksEveryServerForItsPartitions) {
  const auto clock = EndEarlierGenerations(order_, servers_);
  ASSERT_TRUE(clock.ok()) << clock.status();
  EXPECT_EQ(*clock, 6);
  const v1::EndGenerationRequest& one = fakes_.requests["one"];
  EXPECT_EQ(one.job_id(), "job");
  EXPECT_EQ(one.next_generation(), 5);
  EXPECT_EQ(one.oldest_generation(), 3);
  ASSERT_EQ(one.partitions_size(), 2);
  EXPECT_EQ(one.partitions(1).term(), 11);
  EXPECT_EQ(fakes_.requests["two"].partitions_size(), 1);
}

TEST_F(EndEarlierGenerationsTest, RepeatsWithTheNewestMapWhatAServerCouldNotAnswer) {
  fakes_.answers["two"].push_front(absl::UnavailableError("it starts"));
  const auto clock = EndEarlierGenerations(order_, servers_);
  ASSERT_TRUE(clock.ok()) << clock.status();
  EXPECT_EQ(*clock, 6);
  EXPECT_EQ(maps_, 1);
}

TEST_F(EndEarlierGenerationsTest, SaysThatTablesAreLost) {
  fakes_.answers["two"].front() = absl::FailedPreconditionError("partition 2 is not here");
  const auto lost = EndEarlierGenerations(order_, servers_);
  EXPECT_EQ(LostStateOf(lost.status()), LostState::kServerState);
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("partition 2 is not here"));
}

TEST_F(EndEarlierGenerationsTest, EndsIfALaterGenerationIsOpen) {
  fakes_.answers["one"].front() = absl::AbortedError("generation 6 is open");
  const auto fenced = EndEarlierGenerations(order_, servers_);
  EXPECT_TRUE(absl::IsAborted(fenced.status()));
  EXPECT_EQ(LostStateOf(fenced.status()), LostState::kNone);
}

}  // namespace
}  // namespace muster
