// Partitions that move between engines: what arrives, and who answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_server.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PartitionMoveTest : public testing::Test {
 protected:
  void Do(TestServer& server, const v1::ExchangeRequest& request, Payload payload = {}) {
    const TestAnswer answer = server.Call(request, std::move(payload));
    ASSERT_TRUE(answer.arrived());
    ASSERT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
  }

  void Step(TestServer& server, uint64_t clock, float value) {
    Do(server, TestDensePush(0, clock, 0, 2), Floats(std::vector<float>(8, value)));
    Do(server, TestSparsePush(0, clock, 0, 1), KeysAndRows({5}, {value, value}));
    Do(server, TestClose(0, clock, 1));
  }

  absl::StatusCode PullCode(TestServer& server, uint64_t clock) {
    const TestAnswer answer = server.Call(TestDensePull(0, clock, 0, 2));
    return answer.arrived() ? answer.code() : absl::StatusCode::kUnknown;
  }

  void ExpectValues(TestServer& server, uint64_t clock, float dense, float row) {
    EXPECT_THAT(server.Call(TestDensePull(0, clock, 0, 2)).floats(), AllOf(SizeIs(8), Each(dense)));
    EXPECT_THAT(server.Call(TestSparsePull(0, clock, 1), KeysAndRows({5}, {})).floats(),
                AllOf(SizeIs(2), Each(row)));
  }

  MemoryStorage storage_;
  TestServer from_{storage_};
  TestServer to_{storage_};
};

TEST_F(PartitionMoveTest, ThePartitionGoesOnAtTheNewOwnerWhereItWas) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  Do(from_, TestCut(0, 1));
  Step(from_, 1, 1);
  Do(from_, TestDensePush(0, 2, 0, 1), Floats({2, 2, 2, 2}));
  const PartitionMove move = TestMove(7);
  EXPECT_TRUE(absl::IsUnavailable(Move(from_, to_, move))) << "nobody has ordered it";
  EXPECT_EQ(PullCode(from_, 2), absl::StatusCode::kOk);

  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, move).ok());
  EXPECT_EQ(PullCode(from_, 2), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(from_.Open(TestDurableRequest()), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(from_.mover().Permit({}, {move}).ok());
  ASSERT_TRUE(from_.mover().Release(move).ok());
  EXPECT_EQ(PullCode(from_, 2), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kFailedPrecondition);

  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_expect_state(true);
  request.mutable_partitions(0)->set_term(8);
  to_.SetTerm(8);
  const auto opened = to_.engine().OpenTables(request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->partitions(0).closed(), ElementsAre(2));
  EXPECT_TRUE(to_.Call(TestDensePush(0, 2, 0, 1), Floats({2, 2, 2, 2})).reply().already_applied());
  Do(to_, TestDensePush(0, 2, 1, 1), Floats({2, 2, 2, 2}));
  Do(to_, TestClose(0, 2, 0));
  ExpectValues(to_, 3, -3, -1.5);
  // It is the new owner's own from now on, and the old one's never again.
  to_.Kill(1);
  from_.Kill(1);
  EXPECT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(to_.Open(TestDurableRequest()), absl::StatusCode::kOk);
  ExpectValues(to_, 3, -3, -1.5);
  Step(to_, 3, 1);
  ExpectValues(to_, 4, -4, -2.5);
}

TEST_F(PartitionMoveTest, AMoveThatIsGivenUpLeavesThePartitionWhereItWas) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, move).ok());
  ASSERT_TRUE(from_.mover().Permit({}, {}).ok());
  ASSERT_TRUE(to_.mover().Release(move).ok());
  EXPECT_EQ(to_.Open(TestDurableRequest(), false), absl::StatusCode::kFailedPrecondition);
  Step(from_, 1, 1);
  ExpectValues(from_, 2, -1, -1.5);
  // And may move after all.
  const PartitionMove again = TestMove(9);
  ASSERT_TRUE(from_.mover().Permit({again}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, again).ok());
  EXPECT_TRUE(to_.mover().Release(move).ok()) << "an old order";
  to_.SetTerm(10);
  ASSERT_EQ(to_.Open(TestDurableRequest()), absl::StatusCode::kOk);
  ExpectValues(to_, 2, -1, -1.5);
}

TEST_F(PartitionMoveTest, ACopyServesNobodyBeforeTheMoveIsNoted) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove there = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({there}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, there).ok());
  ASSERT_TRUE(from_.mover().Permit({}, {there}).ok());
  ASSERT_TRUE(from_.mover().Release(there).ok());
  to_.SetTerm(8);
  Step(to_, 1, 1);
  const PartitionMove back = TestMove(9);
  ASSERT_TRUE(to_.mover().Permit({back}, {}).ok());
  ASSERT_TRUE(Move(to_, from_, back).ok());
  for (const bool after_a_crash : {false, true}) {
    if (after_a_crash) from_.Kill(1);
    // One who has slept since the server had the partition first; the term of the move itself; one
    // who knows no terms.
    for (const uint64_t term : {1, 9, 0}) {
      SCOPED_TRACE(absl::StrCat("term ", term, ", after a crash: ", after_a_crash));
      from_.SetTerm(term);
      EXPECT_EQ(from_.Open(TestDurableRequest()), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(PullCode(from_, 2), absl::StatusCode::kFailedPrecondition);
      const TestAnswer push =
          from_.Call(TestDensePush(0, 2, 0, 2), Floats(std::vector<float>(8, 1)));
      ASSERT_TRUE(push.arrived());
      EXPECT_EQ(push.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(push.reply().message(),
                  AllOf(HasSubstr("by the move of term 9"),
                        HasSubstr(absl::StrCat("the request has term ", term)),
                        HasSubstr("refresh the shard map")));
    }
  }
  // The move is given up, and nothing is missing where the partition goes on.
  ASSERT_TRUE(to_.mover().Permit({}, {}).ok());
  ASSERT_TRUE(from_.mover().Release(back).ok());
  Step(to_, 2, 1);
  ExpectValues(to_, 3, -2, -2.5);
}

TEST_F(PartitionMoveTest, TheTermOfTheMoveOutlivesImages) {
  TestServer to(storage_, 2000);
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from_, to, move).ok());
  to.SetTerm(8);
  int images = 0;
  to.SetAtPoint([&](absl::string_view point) { images += point == "image"; });
  for (uint64_t clock = 0; clock < 40; ++clock) Step(to, clock, 1);
  ASSERT_GT(images, 0);
  to.Kill(1);
  ASSERT_EQ(to.Open(TestDurableRequest()), absl::StatusCode::kOk);
  ExpectValues(to, 40, -39, -39.5);
  to.SetTerm(1);
  EXPECT_EQ(to.Open(TestDurableRequest()), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PullCode(to, 40), absl::StatusCode::kFailedPrecondition);
}

TEST_F(PartitionMoveTest, WhoStandsStillWaitsForOrdersAfterACrash) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, move).ok());
  from_.Kill(3);
  EXPECT_EQ(from_.Open(TestDurableRequest()), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  EXPECT_EQ(from_.Open(TestDurableRequest()), absl::StatusCode::kUnavailable);
  // Another copy can still be made.
  TestServer other(storage_);
  ASSERT_TRUE(Move(from_, other, move).ok());
  other.SetTerm(8);
  ASSERT_EQ(other.Open(TestDurableRequest()), absl::StatusCode::kOk);
  ExpectValues(other, 1, 0, -0.5);
  ASSERT_TRUE(from_.mover().Permit({}, {}).ok());
  ASSERT_EQ(from_.Open(TestDurableRequest()), absl::StatusCode::kOk);
  ExpectValues(from_, 1, 0, -0.5);
}

TEST_F(PartitionMoveTest, ADiskThatFailsAsItStopsLeavesItStandingOnlyForAWhile) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  from_.store().BreakAtSync(FlakyStore::When::kBefore);
  EXPECT_FALSE(Move(from_, to_, move).ok());
  EXPECT_EQ(PullCode(from_, 1), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(from_.mover().Permit({}, {}).ok());
  from_.store().Mend();
  ASSERT_TRUE(from_.mover().Permit({}, {}).ok());
  ExpectValues(from_, 1, 0, -0.5);

  move = TestMove(9);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  from_.store().BreakAtSync(FlakyStore::When::kBefore);
  EXPECT_FALSE(Move(from_, to_, move).ok());
  from_.store().Mend();
  ASSERT_TRUE(Move(from_, to_, move).ok()) << "the next attempt finds it standing still";
  // Going on, too, may take more than one attempt: the mark is gone, but the rest fails.
  from_.store().BreakAtSync(FlakyStore::When::kAfter);
  EXPECT_FALSE(from_.mover().Permit({}, {}).ok());
  from_.store().Mend();
  ASSERT_TRUE(from_.mover().Permit({}, {}).ok());
  Step(from_, 1, 1);
  ExpectValues(from_, 2, -1, -1.5);
}

TEST_F(PartitionMoveTest, AMoveThatIsGivenUpWhileItStopsDoesNotStayStopped) {
  for (const char* given_up_at : {"move_standing", "move_marked"}) {
    TestServer from(storage_), to(storage_);
    ASSERT_EQ(from.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
    Step(from, 0, 1);
    const PartitionMove move = TestMove(7);
    ASSERT_TRUE(from.mover().Permit({move}, {}).ok());
    std::thread orders;
    absl::Notification looked;
    from.SetAtPoint([&](absl::string_view point) {
      if (point != given_up_at || orders.joinable()) return;
      from.store().SetAtRead([&, mover = std::this_thread::get_id()] {
        if (std::this_thread::get_id() != mover && !looked.HasBeenNotified()) looked.Notify();
      });
      // Looks for marks now, and lets it go on when the attempt to move has ended.
      orders = std::thread([&] { EXPECT_TRUE(from.mover().Permit({}, {}).ok()); });
      looked.WaitForNotification();
    });
    Move(from, to, move).IgnoreError();
    ASSERT_TRUE(orders.joinable());
    orders.join();
    from.store().SetAtRead(nullptr);
    ExpectValues(from, 1, 0, -0.5);
  }
}

TEST_F(PartitionMoveTest, ParkedPullsAreToldToTryAgain) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  ASSERT_EQ(from_.Open(request, false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  TestAnswer parked = from_.Call(TestDensePull(0, 1, 0, 2));
  ASSERT_FALSE(parked.arrived());
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, move).ok());
  ASSERT_TRUE(parked.arrived());
  EXPECT_EQ(parked.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PartitionMoveTest, WorkGoesOnWhileMostIsSent) {
  for (const uint64_t log_bytes : {uint64_t{1} << 30, uint64_t{3000}}) {
    TestServer from(storage_, log_bytes), to(storage_, log_bytes);
    ASSERT_EQ(from.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
    uint64_t clock = 0;
    for (; clock < 5; ++clock) Step(from, clock, 1);
    Do(from, TestCut(0, clock));
    for (; clock < 30; ++clock) Step(from, clock, 1);
    const PartitionMove move = TestMove(7);
    ASSERT_TRUE(from.mover().Permit({move}, {}).ok());
    int worked = 0;
    const absl::Status status = to.mover().Adopt(move, [&](PartitionMover::ChunkSink sink) {
      return from.mover().HandOver(move, [&](const v1::HandOverChunk& chunk) {
        if (PullCode(from, clock) == absl::StatusCode::kOk) {
          // Also enough for the log before to be forgotten, in the second case.
          for (int i = 0; i < 40; ++i) Step(from, clock++, 1);
          ++worked;
        }
        return sink(chunk);
      });
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(worked, 0);
    to.SetTerm(8);
    ASSERT_EQ(to.Open(TestDurableRequest()), absl::StatusCode::kOk);
    ExpectValues(to, clock, 1 - static_cast<float>(clock), 0.5f - static_cast<float>(clock));
  }
}

TEST_F(PartitionMoveTest, DamageOnTheWayIsNotTakenOver) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  const absl::Status status = to_.mover().Adopt(move, [&](PartitionMover::ChunkSink sink) {
    return from_.mover().HandOver(move, [&](const v1::HandOverChunk& chunk) {
      v1::HandOverChunk damaged = chunk;
      if (damaged.records_size() > 0) {
        std::string& payload = *damaged.mutable_records(0)->mutable_payload();
        payload[payload.size() / 2] ^= 1;
      }
      return sink(damaged);
    });
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(to_.Open(TestDurableRequest(), false), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Move(from_, to_, move).ok()) << "the next attempt starts at the beginning";
}

TEST_F(PartitionMoveTest, ALaterGenerationWins) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  v1::OpenTablesRequest next = TestDurableRequest();
  next.set_generation(2);
  ASSERT_EQ(to_.Open(next, false), absl::StatusCode::kOk);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  EXPECT_TRUE(absl::IsAborted(Move(from_, to_, move)));
}

// The job's next generation, which begins at a server that stores the one before.
class MoveOfANewGenerationTest : public PartitionMoveTest {
 protected:
  MoveOfANewGenerationTest() {
    EXPECT_EQ(to_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
    Step(to_, 0, 100);
    to_.Kill(1);
    next_.set_generation(2);
    EXPECT_EQ(from_.Open(next_, false), absl::StatusCode::kOk);
    for (auto& [request, payload] : TestStep()) Do(from_, InGeneration(2, request), payload);
    EXPECT_TRUE(from_.mover().Permit({move_}, {}).ok());
  }

  static std::vector<std::pair<v1::ExchangeRequest, Payload>> TestStep() {
    return {{TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8, 1))},
            {TestSparsePush(0, 0, 0, 1), KeysAndRows({5}, {1, 1})},
            {TestClose(0, 0, 1), {}}};
  }
  static v1::ExchangeRequest InGeneration(uint64_t generation, v1::ExchangeRequest request) {
    request.set_generation(generation);
    return request;
  }

  absl::Status DropAtNewOwner(uint64_t generation) {
    v1::DropTablesRequest request;
    request.set_job_id("job");
    request.set_generation(generation);
    return to_.engine().DropTables(request);
  }

  // After a crash, as the new owner's own.
  void ExpectStepAtNewOwner(uint64_t generation, float dense, float row) {
    to_.Kill(2);
    to_.SetTerm(8);
    next_.set_generation(generation);
    ASSERT_EQ(to_.Open(next_), absl::StatusCode::kOk);
    EXPECT_THAT(to_.Call(InGeneration(generation, TestDensePull(0, 1, 0, 2))).floats(),
                AllOf(SizeIs(8), Each(dense)));
    EXPECT_THAT(
        to_.Call(InGeneration(generation, TestSparsePull(0, 1, 1)), KeysAndRows({5}, {})).floats(),
        AllOf(SizeIs(2), Each(row)));
  }

  v1::OpenTablesRequest next_ = TestDurableRequest();
  const PartitionMove move_{.job_id = "job", .generation = 2, .partition = 0, .term = 7};
};

TEST_F(MoveOfANewGenerationTest, ADropOfTheOneBeforeRunsWhileTheCopyComes) {
  absl::Notification dropping, sent;
  const absl::Status status = to_.mover().Adopt(move_, [&](PartitionMover::ChunkSink sink) {
    // Should it delete anything, then what came meanwhile too.
    to_.store().SetAtDrop([&] {
      dropping.Notify();
      sent.WaitForNotification();
    });
    std::thread dropper([&] {
      EXPECT_TRUE(DropAtNewOwner(1).ok());
      if (!dropping.HasBeenNotified()) dropping.Notify();
    });
    dropping.WaitForNotification();
    const absl::Status handed_over = from_.mover().HandOver(move_, sink);
    sent.Notify();
    dropper.join();
    return handed_over;
  });
  ASSERT_TRUE(status.ok()) << status;
  ExpectStepAtNewOwner(2, 0, -0.5);
}

TEST_F(MoveOfANewGenerationTest, ADropOfItsOwnEndsTheCopy) {
  absl::Status status = to_.mover().Adopt(move_, [&](PartitionMover::ChunkSink sink) {
    return from_.mover().HandOver(move_, [&](const v1::HandOverChunk& chunk) {
      if (chunk.has_end()) {
        EXPECT_TRUE(DropAtNewOwner(2).ok());
      }
      return sink(chunk);
    });
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(*to_.store().Jobs(), IsEmpty());
}

TEST_F(MoveOfANewGenerationTest, AnOpeningOfALaterOneKeepsTheCopyOut) {
  absl::Status status = to_.mover().Adopt(move_, [&](PartitionMover::ChunkSink sink) {
    return from_.mover().HandOver(move_, [&](const v1::HandOverChunk& chunk) {
      if (chunk.has_end()) {
        v1::OpenTablesRequest later = TestDurableRequest();
        later.set_generation(3);
        EXPECT_EQ(to_.Open(later, false), absl::StatusCode::kOk);
        for (auto& [request, payload] : TestStep()) {
          Do(to_, InGeneration(3, request), payload);
        }
      }
      return sink(chunk);
    });
  });
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  ExpectStepAtNewOwner(3, 0, -0.5);
}

TEST_F(MoveOfANewGenerationTest, WhatIsStoredOfALaterOneStays) {
  next_.set_generation(3);
  ASSERT_EQ(to_.Open(next_, false), absl::StatusCode::kOk);
  for (auto& [request, payload] : TestStep()) Do(to_, InGeneration(3, request), payload);
  to_.Kill(4);
  EXPECT_TRUE(absl::IsAborted(Move(from_, to_, move_)));
  ExpectStepAtNewOwner(3, 0, -0.5);
}

v1::EndGenerationRequest TestEnd(uint64_t term) {
  v1::EndGenerationRequest request;
  request.set_job_id("job");
  request.set_next_generation(2);
  request.set_oldest_generation(1);
  request.add_partitions()->set_partition(0);
  request.mutable_partitions(0)->set_term(term);
  return request;
}

TEST_F(PartitionMoveTest, AnEndedGenerationsPartitionStays) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(from_.engine().EndGeneration(TestEnd(1)).ok());
  EXPECT_EQ(Move(from_, to_, move).code(), absl::StatusCode::kAborted);
  from_.Kill(1);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  EXPECT_EQ(Move(from_, to_, move).code(), absl::StatusCode::kAborted);
  v1::OpenTablesRequest next = TestDurableRequest();
  next.set_generation(2);
  next.set_takes_over_generation(1);
  next.set_start_clock(1);
  EXPECT_EQ(from_.Open(next, false), absl::StatusCode::kOk);
  // It moves under the new generation.
  PartitionMove later = TestMove(8);
  later.generation = 2;
  ASSERT_TRUE(from_.mover().Permit({later}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, later).ok());
}

TEST_F(PartitionMoveTest, AMoveThatStandsStillIsWaitedForAtTheEnd) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  // The copy is lost on its way.
  from_.mover()
      .HandOver(move,
                [](const v1::HandOverChunk& chunk) {
                  return chunk.has_end() ? absl::UnavailableError("lost") : absl::OkStatus();
                })
      .IgnoreError();
  EXPECT_EQ(from_.engine().EndGeneration(TestEnd(1)).status().code(),
            absl::StatusCode::kUnavailable);
  // The coordinator gives the move up.
  ASSERT_TRUE(from_.mover().Permit({}, {}).ok());
  const absl::StatusOr<v1::EndGenerationReply> ended = from_.engine().EndGeneration(TestEnd(1));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_THAT(ended->partitions(0).closed(), ElementsAre(1));
}

TEST_F(PartitionMoveTest, AGenerationEndsWhereItsPartitionHasCome) {
  ASSERT_EQ(from_.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
  Step(from_, 0, 1);
  const PartitionMove move = TestMove(7);
  ASSERT_TRUE(from_.mover().Permit({move}, {}).ok());
  ASSERT_TRUE(Move(from_, to_, move).ok());
  for (TestServer* server : {&from_, &to_}) {
    EXPECT_EQ(server->engine().EndGeneration(TestEnd(7)).status().code(),
              absl::StatusCode::kUnavailable)
        << "the coordinator has not noted the move";
  }
  ASSERT_TRUE(from_.mover().Permit({}, {move}).ok());
  ASSERT_TRUE(from_.mover().Release(move).ok());
  EXPECT_EQ(from_.engine().EndGeneration(TestEnd(8)).status().code(),
            absl::StatusCode::kUnavailable);
  const absl::StatusOr<v1::EndGenerationReply> ended = to_.engine().EndGeneration(TestEnd(8));
  ASSERT_TRUE(ended.ok()) << ended.status();
  v1::OpenTablesRequest next = TestDurableRequest();
  next.set_generation(2);
  next.set_takes_over_generation(1);
  next.set_start_clock(1);
  next.mutable_partitions(0)->set_term(8);
  EXPECT_EQ(to_.Open(next, false), absl::StatusCode::kOk);
  next.mutable_partitions(0)->set_term(7);
  EXPECT_EQ(to_.Open(next), absl::StatusCode::kFailedPrecondition) << "an older term";
}

}  // namespace
}  // namespace muster
