#include "worker/strategy/servers/shard_router.h"

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/base/fake_clock_for_testing.h"
#include "common/base/lost_state.h"
#include "common/rpc/rpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// The servers of a test; operations are answered at once, unless a script says otherwise.
struct World {
  // Answers to OpenTables by address, the last one for good. None: not reachable.
  std::map<std::string, std::deque<absl::StatusOr<uint64_t>>> opens;
  // Addresses of servers to which the slot has pushed withdrawn gradients of its open clock, and
  // which it has told so in its last close.
  std::set<std::string> withdrawn, closed_withdrawn;
  // Answers to exchanges, one each, of all servers; OK when none is left.
  std::deque<absl::Status> answers;
  // "address operation clock" of every exchange that arrived.
  std::vector<std::string> arrived;
  // Their terms.
  std::vector<uint64_t> terms;
  std::vector<v1::OpenTablesRequest> opened;
  v1::ShardMap newest;
  absl::Status newest_status;
  std::vector<std::string> log;
  std::vector<std::string> waits;
};

class FakeServerClient final : public ParameterClient {
 public:
  FakeServerClient(World& world, std::string address) : world_(world), address_(address) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    absl::MutexLock lock(&mutex());
    auto it = world_.opens.find(address_);
    if (it == world_.opens.end()) return absl::UnavailableError("no such server");
    absl::StatusOr<uint64_t> closed = it->second.front();
    if (it->second.size() > 1) it->second.pop_front();
    if (!closed.ok()) return closed.status();
    world_.opened.push_back(request);
    v1::OpenTablesReply reply;
    for (const v1::PartitionTerm& partition : request.partitions()) {
      v1::PartitionClocks* clocks = reply.add_partitions();
      clocks->set_partition(partition.partition());
      clocks->add_closed(99);
      clocks->add_closed(*closed);
      clocks->set_withdrawn(world_.withdrawn.contains(address_));
      clocks->set_closed_withdrawn(world_.closed_withdrawn.contains(address_));
    }
    return reply;
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest&,
                                                       absl::Duration) override {
    return v1::EndGenerationReply();
  }
  absl::Status DropTables(const std::string&, absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration) override {
    return v1::GetServerStatsReply();
  }
  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    if (!aborted_.ok()) return done(aborted_);
    const char* name = request.has_close()        ? "close"
                       : request.has_dense_push() ? "push"
                       : request.has_dense_pull() ? "pull"
                                                  : "other";
    world_.arrived.push_back(absl::StrCat(address_, " ", name, " ", request.clock(), " p",
                                          request.partition(), " s", request.slot(), " i",
                                          request.incarnation()));
    world_.terms.push_back(request.term());
    absl::Status answer;
    if (!world_.answers.empty()) {
      answer = world_.answers.front();
      world_.answers.pop_front();
    }
    if (!answer.ok()) return done(answer);
    done(ExchangeResult{std::make_shared<const v1::ExchangeReply>(), std::move(payload)});
  }
  void Abort(absl::Status reason) override { aborted_ = reason; }

 private:
  static absl::Mutex& mutex() {
    static absl::Mutex* mutex = new absl::Mutex;
    return *mutex;
  }

  World& world_;
  const std::string address_;
  absl::Status aborted_;
};

// Time passes only where the router waits.
class CountingWaiter final : public Waiter {
 public:
  explicit CountingWaiter(FakeClock& clock) : clock_(clock) {}
  bool Wait(absl::Duration duration) override {
    clock_.Advance(duration);
    if (on_wait != nullptr) on_wait();
    return true;
  }
  void Stop() override {}

  // Called after each wait; null: nothing is.
  std::function<void()> on_wait;

 private:
  FakeClock& clock_;
};

class ShardRouterTest : public ::testing::Test {
 protected:
  ShardRouterTest() {
    world_.opens["a"] = {uint64_t{3}};
    world_.opens["b"] = {uint64_t{4}};
    map_ = Map(1, "a", "b");
    world_.newest = map_;
    tables_.set_job_id("job");
    tables_.set_generation(5);
    tables_.mutable_schema()->set_partitions(2);
    options_.slot = 1;
    options_.incarnation = 8;
  }

  static v1::ShardMap Map(uint64_t version, const std::string& first, const std::string& second) {
    v1::ShardMap map;
    map.set_version(version);
    for (const std::string& address : {first, second}) {
      v1::PartitionPlacement* placement = map.add_partitions();
      placement->set_partition(map.partitions_size() - 1);
      v1::Replica* replica = placement->add_replicas();
      replica->set_address(address);
      replica->set_role(v1::Replica::PRIMARY);
      replica->set_term(version);
      replica->set_process_nonce(100 * version + address[0]);
    }
    return map;
  }

  std::unique_ptr<ShardRouter> MakeRouter() {
    ShardRouterDependencies dependencies;
    dependencies.make_client = [this](const std::string& address) {
      return std::make_unique<FakeServerClient>(world_, address);
    };
    dependencies.newest_shard_map = [this]() -> absl::StatusOr<v1::ShardMap> {
      if (!world_.newest_status.ok()) return world_.newest_status;
      return world_.newest;
    };
    dependencies.log = [this](absl::string_view line) { world_.log.emplace_back(line); };
    dependencies.tell_wait = [this](absl::string_view text) { world_.waits.emplace_back(text); };
    dependencies.clock = &clock_;
    dependencies.waiter = &waiter_;
    return std::make_unique<ShardRouter>(tables_, map_, options_, std::move(dependencies));
  }

  static v1::ExchangeRequest Push(uint64_t clock) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    request.mutable_dense_push();
    return request;
  }
  static v1::ExchangeRequest Close(uint64_t clock) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    request.mutable_close();
    return request;
  }
  static v1::ExchangeRequest Pull(uint64_t clock) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    request.mutable_dense_pull();
    return request;
  }

  World world_;
  FakeClock clock_;
  CountingWaiter waiter_{clock_};
  v1::OpenTablesRequest tables_;
  v1::ShardMap map_;
  ShardRouterOptions options_;
};

TEST_F(ShardRouterTest, OpensEachServersPartitionsAndStartsAtTheLeastClock) {
  auto router = MakeRouter();
  EXPECT_EQ(router->Open().value().closed, 3);
  ASSERT_EQ(world_.opened.size(), 2);
  std::vector<uint32_t> partitions;
  for (const auto& request : world_.opened) {
    EXPECT_EQ(request.job_id(), "job");
    EXPECT_EQ(request.shard_map_version(), 1);
    ASSERT_EQ(request.partitions_size(), 1);
    EXPECT_EQ(request.partitions(0).term(), 1);
    EXPECT_FALSE(request.expect_state());
    EXPECT_EQ(request.process_nonce(), 100 + (request.partitions(0).partition() == 0 ? 'a' : 'b'));
    partitions.push_back(request.partitions(0).partition());
  }
  EXPECT_THAT(partitions, UnorderedElementsAre(0, 1));
}

// The clock is closed on partition 1, if that has closed more of them.
TEST_F(ShardRouterTest, TellsWhatStandsOfTheFirstClockThatIsNotClosedEverywhere) {
  const auto withdrawn = [&](std::set<std::string> open, std::set<std::string> closed) {
    world_.withdrawn = std::move(open);
    world_.closed_withdrawn = std::move(closed);
    return MakeRouter()->Open().value().withdrawn;
  };
  EXPECT_TRUE(MakeRouter()->Open().value().closing);
  EXPECT_FALSE(withdrawn({}, {}));
  EXPECT_TRUE(withdrawn({"a"}, {}));
  EXPECT_TRUE(withdrawn({}, {"b"}));
  EXPECT_FALSE(withdrawn({"b"}, {"a"})) << "of the clock after it, and of the one before";
  world_.opens["b"] = {uint64_t{3}};
  EXPECT_FALSE(MakeRouter()->Open().value().closing);
  EXPECT_TRUE(withdrawn({"b"}, {}));
  EXPECT_FALSE(withdrawn({}, {"a", "b"}));
}

TEST_F(ShardRouterTest, SendsToThePartitionsServerWithTheTasksIdentity) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  auto pull = router->Send(1, Pull(3), Payload(), ShardRouter::Order::kFree);
  ASSERT_EQ(router->Wait(pull), absl::OkStatus());
  EXPECT_THAT(world_.arrived, ElementsAre("b pull 3 p1 s1 i8"));
}

TEST_F(ShardRouterTest, AnAnswerLandsAtItsPlaceAlsoWhenItTookTwoConnections) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.answers = {absl::UnavailableError("broken")};
  std::vector<float> arena(2);
  const absl::Span<std::byte> landing(reinterpret_cast<std::byte*>(arena.data()), 8);
  // The fake answers with what it was sent.
  auto pull = router->Send(1, Pull(3), Payload::Of(std::vector<float>{4, 5}),
                           ShardRouter::Order::kFree, landing);
  ASSERT_EQ(router->Wait(pull), absl::OkStatus());
  EXPECT_THAT(arena, ElementsAre(4, 5));
  ASSERT_EQ(pull->result().payload.spans().size(), 1);
  EXPECT_EQ(pull->result().payload.spans()[0].data(), landing.data());
  EXPECT_THAT(world_.arrived, ElementsAre("b pull 3 p1 s1 i8", "b pull 3 p1 s1 i8"));
}

// Callers that drop answered contributions use the memory of their payloads again.
TEST_F(ShardRouterTest, WhatIsAnsweredIsLetGoWhereTheOptionsSaySo) {
  for (const auto answered :
       {ShardRouterOptions::Answered::kKept, ShardRouterOptions::Answered::kDropped}) {
    const bool drops = answered == ShardRouterOptions::Answered::kDropped;
    options_.answered = answered;
    world_.arrived.clear();
    auto router = MakeRouter();
    ASSERT_TRUE(router->Open().ok());
    Payload payload = Payload::Of(std::vector<float>{4, 5});
    const std::weak_ptr<const void> pushed = payload.owner();
    auto push = router->Send(0, Push(3), std::move(payload), ShardRouter::Order::kLane);
    // The fake's answer has the payload, too.
    ASSERT_EQ(router->Wait(push), absl::OkStatus());
    push.reset();
    EXPECT_EQ(pushed.expired(), drops);
    // The server is opened anew.
    world_.answers = {absl::UnavailableError("broken")};
    router->Send(0, Close(3), Payload(), ShardRouter::Order::kLane);
    ASSERT_EQ(router->WaitForLanes(), absl::OkStatus());
    EXPECT_TRUE(pushed.expired());
    std::vector<std::string> expected = {"a push 3 p0 s1 i8", "a close 3 p0 s1 i8",
                                         "a push 3 p0 s1 i8", "a close 3 p0 s1 i8"};
    if (drops) expected.erase(expected.begin() + 2);
    EXPECT_EQ(world_.arrived, expected);
  }
}

TEST_F(ShardRouterTest, WaitsForServersThatAreNotThereYet) {
  world_.opens["b"] = {absl::UnavailableError("starting"), absl::UnavailableError("starting"),
                       uint64_t{3}};
  EXPECT_EQ(MakeRouter()->Open().value().closed, 3);
}

TEST_F(ShardRouterTest, AServerThatWasStartedAgainIsOpenedAsSoonAsTheMapNamesItsNewProcess) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.opened.clear();
  world_.opens["a"] = {absl::UnavailableError("another process"), uint64_t{3}};
  world_.newest = Map(2, "a", "b");
  world_.answers = {absl::UnavailableError("gone")};
  auto pull = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  ASSERT_EQ(router->Wait(pull), absl::OkStatus());
  ASSERT_FALSE(world_.opened.empty());
  for (const auto& request : world_.opened) {
    EXPECT_EQ(request.process_nonce(), 200 + (request.partitions(0).partition() == 0 ? 'a' : 'b'));
  }
}

TEST_F(ShardRouterTest, AServerThatCannotBeReachedIsToldOfWithinSeconds) {
  v1::Replica& replica = *map_.mutable_partitions(1)->mutable_replicas(0);
  replica.set_server_id("s1");
  replica.set_address("no-such-host:7");
  world_.newest = map_;
  world_.opens["no-such-host:7"] = std::deque<absl::StatusOr<uint64_t>>(
      8, absl::UnavailableError("DNS resolution failed for no-such-host:7"));
  world_.opens["no-such-host:7"].push_back(uint64_t{3});
  EXPECT_EQ(MakeRouter()->Open().value().closed, 3);
  const auto why = HasSubstr(
      "open tables on server s1 at no-such-host:7: DNS resolution failed for no-such-host:7");
  // Once, and that it is over.
  EXPECT_THAT(world_.waits, ElementsAre(why, ""));
  EXPECT_THAT(world_.log, ElementsAre(why));
}

TEST_F(ShardRouterTest, AShortRestartIsNotToldOf) {
  world_.opens["b"] = {absl::UnavailableError("starting"), absl::UnavailableError("starting"),
                       uint64_t{3}};
  EXPECT_EQ(MakeRouter()->Open().value().closed, 3);
  EXPECT_THAT(world_.waits, IsEmpty());
  EXPECT_THAT(world_.log, IsEmpty());
}

TEST_F(ShardRouterTest, GivesUpAfterItsPatience) {
  world_.opens.erase("b");
  absl::Status status = MakeRouter()->Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("open tables on b"));
  EXPECT_GE(clock_.Monotonic(), kServersPatience / 2);
}

TEST_F(ShardRouterTest, ARefusalToOpenIsFinal) {
  world_.opens["b"] = {absl::AbortedError("generation 6 is open")};
  absl::Status status = MakeRouter()->Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("open tables on b: generation 6 is open"));
}

TEST_F(ShardRouterTest, AFullQueueIsAskedAgainWhenItSaid) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.answers = {WithRetryAfter(absl::ResourceExhaustedError("full"), absl::ZeroDuration())};
  auto pull = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  ASSERT_EQ(router->Wait(pull), absl::OkStatus());
  EXPECT_EQ(world_.arrived.size(), 2);
}

TEST_F(ShardRouterTest, ACloseThatOvertookItsPushIsRepeatedBehindIt) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.answers = {WithRetryAfter(absl::ResourceExhaustedError("full"), absl::ZeroDuration()),
                    absl::OkStatus(), absl::FailedPreconditionError("a chunk is missing")};
  router->Send(0, Push(3), Payload(), ShardRouter::Order::kLane);
  router->Send(0, Push(3), Payload(), ShardRouter::Order::kLane);
  router->Send(0, Close(3), Payload(), ShardRouter::Order::kLane);
  ASSERT_EQ(router->WaitForLanes(), absl::OkStatus());
  EXPECT_THAT(world_.arrived,
              ElementsAre("a push 3 p0 s1 i8", "a push 3 p0 s1 i8", "a close 3 p0 s1 i8",
                          "a push 3 p0 s1 i8", "a close 3 p0 s1 i8"));
}

TEST_F(ShardRouterTest, ALostConnectionRepeatsTheWholeContribution) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  router->set_closed(3);
  world_.answers = {absl::OkStatus(), absl::OkStatus(), absl::UnavailableError("gone")};
  router->Send(0, Push(3), Payload(), ShardRouter::Order::kLane);
  router->Send(1, Push(3), Payload(), ShardRouter::Order::kLane);
  router->Send(0, Close(3), Payload(), ShardRouter::Order::kLane);
  world_.opened.clear();
  ASSERT_EQ(router->WaitForLanes(), absl::OkStatus());
  // The first push had been acknowledged; the server may have lost it all the same. The other
  // server is left alone.
  EXPECT_THAT(world_.arrived,
              ElementsAre("a push 3 p0 s1 i8", "b push 3 p1 s1 i8", "a close 3 p0 s1 i8",
                          "a push 3 p0 s1 i8", "a close 3 p0 s1 i8"));
  ASSERT_EQ(world_.opened.size(), 1);
  EXPECT_TRUE(world_.opened[0].expect_state());
  EXPECT_THAT(world_.log, ElementsAre(HasSubstr("connection to server a failed: gone")));
  // What is acknowledged whole is not repeated later.
  world_.arrived.clear();
  world_.answers = {absl::UnavailableError("gone")};
  router->Send(0, Push(4), Payload(), ShardRouter::Order::kLane);
  ASSERT_EQ(router->WaitForLanes(), absl::OkStatus());
  EXPECT_THAT(world_.arrived, ElementsAre("a push 4 p0 s1 i8", "a push 4 p0 s1 i8"));
}

TEST_F(ShardRouterTest, FollowsAPartitionToItsNewServer) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.opens["c"] = {uint64_t{3}};
  world_.newest = Map(2, "c", "b");
  world_.answers = {absl::UnavailableError("gone")};
  auto pull = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  ASSERT_EQ(router->Wait(pull), absl::OkStatus());
  EXPECT_THAT(world_.arrived, ElementsAre("a pull 3 p0 s1 i8", "c pull 3 p0 s1 i8"));
}

TEST_F(ShardRouterTest, AnOutdatedMapIsRefreshedOnce) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.newest = Map(2, "b", "a");
  world_.answers = {absl::FailedPreconditionError("not this server's partition")};
  auto pull = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  ASSERT_EQ(router->Wait(pull), absl::OkStatus());
  EXPECT_THAT(world_.arrived, ElementsAre("a pull 3 p0 s1 i8", "b pull 3 p0 s1 i8"));

  world_.answers = {absl::FailedPreconditionError("past the bound")};
  pull = router->Send(0, Pull(9), Payload(), ShardRouter::Order::kFree);
  absl::Status status = router->Wait(pull);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("dense pull at clock 9 on partition 0 (server b): past the bound"));
}

TEST_F(ShardRouterTest, APartitionThatIsBackAtItsServerIsAskedUnderItsNewTerm) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.newest = Map(3, "a", "b");
  world_.answers = {absl::FailedPreconditionError("served under later terms"),
                    absl::FailedPreconditionError("served under later terms")};
  // Both were on their way when the first refusal came.
  auto first = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  auto second = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  ASSERT_EQ(router->Wait(first), absl::OkStatus());
  ASSERT_EQ(router->Wait(second), absl::OkStatus());
  EXPECT_THAT(world_.terms, ElementsAre(1, 1, 3, 3));
}

TEST_F(ShardRouterTest, ARefusalToOpenByAnOldMapIsNotFinalWhileTheCoordinatorIsAway) {
  world_.opens["b"] = {absl::FailedPreconditionError("not on this server"), uint64_t{3}};
  world_.newest_status = absl::UnavailableError("no coordinator");
  EXPECT_EQ(MakeRouter()->Open().value().closed, 3);
}

TEST_F(ShardRouterTest, AServerThatLostAcknowledgedClocksEndsTheTask) {
  world_.opens["a"] = {uint64_t{3}, uint64_t{1}};
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  router->set_closed(3);
  world_.answers = {absl::UnavailableError("gone")};
  auto pull = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  absl::Status status = router->Wait(pull);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(status.message(), HasSubstr("partition 0 holds 1 closed clocks of slot 1 where 3"));
  EXPECT_EQ(LostStateOf(status), LostState::kServerState) << "the job goes back, whatever it keeps";
}

TEST_F(ShardRouterTest, FencingIsFinal) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.answers = {absl::AbortedError("incarnation 9 holds the slot")};
  router->Send(0, Push(3), Payload(), ShardRouter::Order::kLane);
  EXPECT_EQ(router->WaitForLanes().code(), absl::StatusCode::kAborted);
}

TEST_F(ShardRouterTest, AnInterruptionEndsWaitsForWhatIsNotThere) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  const auto there = router->Send(1, Pull(3), Payload(), ShardRouter::Order::kFree);
  world_.answers = {absl::UnavailableError("broken")};
  const auto missing = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  router->Interrupt("the round is over");
  EXPECT_EQ(router->Wait(there), absl::OkStatus());
  EXPECT_EQ(router->Wait(missing), absl::AbortedError("slot 1 waits no longer: the round is over"));
}

TEST_F(ShardRouterTest, AnInterruptionEndsAttemptsToConnect) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.opens.erase("a");
  world_.answers = {absl::UnavailableError("broken")};
  const auto missing = router->Send(0, Pull(3), Payload(), ShardRouter::Order::kFree);
  int waits = 0;
  waiter_.on_wait = [&] {
    if (++waits == 3) router->Interrupt("the round is over");
  };
  EXPECT_EQ(router->Wait(missing), absl::AbortedError("slot 1 waits no longer: the round is over"));
  EXPECT_EQ(waits, 3);
}

TEST_F(ShardRouterTest, EndsWhenTheCoordinatorSaysSoWhileServersAreAway) {
  auto router = MakeRouter();
  ASSERT_TRUE(router->Open().ok());
  world_.opens.erase("a");
  world_.newest_status = absl::NotFoundError("job is gone");
  world_.answers = {absl::UnavailableError("gone")};
  router->Send(0, Push(3), Payload(), ShardRouter::Order::kLane);
  EXPECT_EQ(router->WaitForLanes().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
