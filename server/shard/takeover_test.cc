// Generations that go on with an earlier one's tables in place, with other slots, on one engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/lost_state.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A push of a slot's gradients: one value for all.
struct Gradient {
  float value = 1;
  uint64_t examples = 1;
};

class TakeoverTest : public TestEngine,
                     public testing::WithParamInterface<v1::UpdateSpec::Durability> {
 protected:
  bool durable() const { return GetParam() == v1::UpdateSpec::EVERY_PUSH; }

  v1::OpenTablesRequest First(uint32_t slots) const {
    v1::OpenTablesRequest request = TestOpenRequest(slots);
    request.mutable_update()->set_durability(GetParam());
    return request;
  }
  // Returns the request of a later generation that goes on from generation 1.
  v1::OpenTablesRequest Later(uint64_t generation, uint32_t slots, uint64_t start) const {
    v1::OpenTablesRequest request = First(slots);
    request.set_generation(generation);
    request.set_takes_over_generation(1);
    request.set_start_clock(start);
    return request;
  }

  static v1::ExchangeRequest Of(uint64_t generation, v1::ExchangeRequest request) {
    request.set_generation(generation);
    return request;
  }

  void PushDense(uint64_t generation, uint32_t slot, uint64_t clock, Gradient gradient = {}) {
    v1::ExchangeRequest push = Of(generation, TestDensePush(slot, clock, 0, 2));
    push.mutable_dense_push()->set_examples(gradient.examples);
    Do(push, Floats(std::vector<float>(8, gradient.value)));
  }
  void PushRow(uint64_t generation, uint32_t slot, uint64_t clock, Gradient gradient = {}) {
    v1::ExchangeRequest push = Of(generation, TestSparsePush(slot, clock, 0, 1));
    push.mutable_sparse_push()->set_examples(gradient.examples);
    Do(push, KeysAndRows({5}, {gradient.value, gradient.value}));
  }
  void Push(uint64_t generation, uint32_t slot, uint64_t clock, Gradient gradient = {}) {
    PushDense(generation, slot, clock, gradient);
    PushRow(generation, slot, clock, gradient);
  }
  void Close(uint64_t generation, uint32_t slot, uint64_t clock, uint64_t examples = 1) {
    v1::ExchangeRequest close = Of(generation, TestClose(slot, clock, 1));
    close.mutable_close()->set_examples(examples);
    Do(close);
  }
  // Makes a clock in which all slots push the same.
  void Clock(uint64_t generation, uint32_t slots, uint64_t clock, float value = 1) {
    for (uint32_t slot = 0; slot < slots; ++slot) {
      Push(generation, slot, clock, {.value = value});
      Close(generation, slot, clock);
    }
  }

  absl::StatusOr<v1::EndGenerationReply> TryEnd(uint64_t next, uint64_t oldest = 1) {
    v1::EndGenerationRequest request;
    request.set_job_id("job");
    request.set_next_generation(next);
    request.set_oldest_generation(oldest);
    request.add_partitions()->set_partition(0);
    return engine_->EndGeneration(request);
  }
  std::vector<uint64_t> End(uint64_t next, uint64_t oldest = 1) {
    const absl::StatusOr<v1::EndGenerationReply> reply = TryEnd(next, oldest);
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (!reply.ok() || reply->partitions_size() != 1) return {};
    const auto& closed = reply->partitions(0).closed();
    return {closed.begin(), closed.end()};
  }

  void ExpectAt(uint64_t generation, uint64_t clock, float dense, float row) {
    EXPECT_THAT(Do(Of(generation, TestDensePull(0, clock, 0, 2))).floats(), Each(dense));
    EXPECT_THAT(Do(Of(generation, TestSparsePull(0, clock, 1)), KeysAndRows({5}, {})).floats(),
                Each(row));
  }

  // Kills the process and starts it again.
  void Restart() {
    executor_.RunAll();
    engine_.reset();
    files_.Crash(1);
    Start();
  }
};

TEST_P(TakeoverTest, GoesOnWithFewerAndWithMoreSlots) {
  Open(First(3));
  Clock(1, 3, 0);
  Clock(1, 3, 1);
  EXPECT_THAT(End(2), ElementsAre(2, 2, 2));
  EXPECT_THAT(Open(Later(2, 2, 2)).partitions(0).closed(), ElementsAre(2, 2));
  ExpectAt(2, 2, -1, -1.5);
  EXPECT_EQ(Code(Of(2, TestDensePull(2, 2, 0, 2))), absl::StatusCode::kInvalidArgument);
  Clock(2, 2, 2, 2);
  ExpectAt(2, 3, -3, -3.5);
  EXPECT_THAT(End(3), ElementsAre(3, 3));
  EXPECT_THAT(Open(Later(3, 4, 3)).partitions(0).closed(), ElementsAre(3, 3, 3, 3));
  for (uint32_t slot = 0; slot < 3; ++slot) {
    Push(3, slot, 3);
    Close(3, slot, 3);
  }
  const TestAnswer pull = Call(Of(3, TestDensePull(0, 4, 0, 2)));
  EXPECT_FALSE(pull.arrived()) << "slot 3 has not closed";
  Push(3, 3, 3, {.value = 5});
  Close(3, 3, 3);
  executor_.RunAll();
  EXPECT_TRUE(pull.arrived());
  ExpectAt(3, 4, -5, -5.5);
}

TEST_P(TakeoverTest, ClosesForSlotsWhatAnotherPartitionHasOfThem) {
  Open(First(3));
  Clock(1, 3, 0);
  Push(1, 0, 1, {.value = 2, .examples = 1});
  Push(1, 1, 1, {.value = 6, .examples = 2});
  Push(1, 2, 1, {.value = 4, .examples = 1});
  Close(1, 0, 1);
  EXPECT_THAT(End(2), ElementsAre(2, 1, 1));
  Open(Later(2, 1, 2));
  ExpectAt(2, 2, -3, -3.5);
  Clock(2, 1, 2);
  ExpectAt(2, 3, -4, -4.5);
}

TEST_P(TakeoverTest, AddsTheExamplesOfMicroBatchesUp) {
  v1::OpenTablesRequest request = First(2);
  request.set_pushed_micro_batches(2);
  Open(request);
  for (const uint32_t slot : {0, 1}) {
    for (const uint32_t micro_batch : {0, 1}) {
      for (const uint32_t block : {1, 0}) {
        v1::ExchangeRequest push = TestDensePush(slot, 0, block, 1);
        push.mutable_dense_push()->set_micro_batch(micro_batch);
        push.mutable_dense_push()->set_examples(1 + micro_batch);
        Do(push, Floats({6, 6, 6, 6}));
      }
    }
    PushRow(1, slot, 0, {.value = 3, .examples = 3});
  }
  EXPECT_THAT(End(2), ElementsAre(0, 0));
  request = Later(2, 1, 1);
  request.set_pushed_micro_batches(2);
  Open(request);
  // Both slots together have 6 examples.
  ExpectAt(2, 1, 1 - 24.0f / 6, 0.5f - 6.0f / 6);
}

TEST_P(TakeoverTest, MissingPushesAreALoss) {
  Open(First(2));
  Push(1, 0, 0);
  Close(1, 0, 0);
  PushRow(1, 1, 0);
  v1::ExchangeRequest half = TestDensePush(1, 0, 0, 1);
  Do(half, Floats({1, 1, 1, 1}));
  End(2);
  const absl::Status lost = engine_->OpenTables(Later(2, 1, 1)).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss) << lost;
  EXPECT_EQ(LostStateOf(lost), LostState::kServerState);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("first one missing is block 1"));
  // Nothing has changed: where no partition has completed the clock, it is made again.
  Open(Later(2, 1, 0));
  ExpectAt(2, 0, 1, 0.5);
}

TEST_P(TakeoverTest, ASlotThatToldNoExamplesIsALossOnlyIfTheyMatter) {
  for (const bool rows : {false, true}) {
    const uint64_t first = rows ? 10 : 1;
    v1::OpenTablesRequest request = First(2);
    request.set_generation(first);
    request.mutable_schema()->clear_tensors();
    Open(request);
    if (rows) PushRow(first, 0, 0);
    v1::ExchangeRequest close = Of(first, TestClose(0, 0, rows ? 1 : 0));
    Do(close);
    End(first + 1, first);
    request = Later(first + 1, 1, 1);
    request.set_takes_over_generation(first);
    request.mutable_schema()->clear_tensors();
    EXPECT_EQ(engine_->OpenTables(request).status().code(),
              rows ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk);
  }
}

TEST_P(TakeoverTest, AnotherClockIsALoss) {
  Open(First(1));
  Clock(1, 1, 0);
  Clock(1, 1, 1);
  End(2);
  for (const uint64_t start : {0, 1, 4}) {
    const absl::Status lost = engine_->OpenTables(Later(2, 1, start)).status();
    EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss) << lost;
    EXPECT_EQ(LostStateOf(lost), LostState::kServerState);
  }
  Open(Later(2, 1, 2));
  ExpectAt(2, 2, -1, -1.5);
}

TEST_P(TakeoverTest, TheOpenClockIsMadeAgainToTheSameBits) {
  const auto redo = [this](uint64_t generation, uint32_t slots) {
    for (uint32_t slot = 0; slot < slots; ++slot) {
      Push(generation, slot, 1, {.value = 0.1f / static_cast<float>(slot + 3)});
      Close(generation, slot, 1);
    }
    return Do(Of(generation, TestDensePull(0, 2, 0, 2))).floats();
  };
  const auto deterministic = [](v1::OpenTablesRequest request) {
    request.mutable_update()->set_deterministic(true);
    return request;
  };
  Open(deterministic(First(3)));
  Clock(1, 3, 0, 0.7f);
  const std::vector<float> undisturbed = redo(1, 3);
  v1::OpenTablesRequest again = deterministic(First(3));
  again.set_generation(2);
  Open(again);
  Clock(2, 3, 0, 0.7f);
  // Pushes in and out of turn, of which one slot has closed the clock.
  Push(2, 2, 1, {.value = 33});
  Push(2, 0, 1, {.value = 77, .examples = 5});
  Close(2, 0, 1, 5);
  EXPECT_THAT(End(3, 2), ElementsAre(2, 1, 1));
  v1::OpenTablesRequest next = deterministic(Later(3, 3, 1));
  next.set_takes_over_generation(2);
  Open(next);
  EXPECT_EQ(redo(3, 3), undisturbed);
}

TEST_P(TakeoverTest, TheEndedGenerationIsRefused) {
  Open(First(2));
  Clock(1, 2, 0);
  const TestAnswer pull = Call(TestDensePull(0, 2, 0, 2));
  Push(1, 0, 1);
  Close(1, 0, 1);
  const TestAnswer parked = Call(TestDensePull(0, 2, 0, 2));
  EXPECT_FALSE(parked.arrived());
  const TestAnswer cut = Call(TestCut(0, 2));
  EXPECT_FALSE(cut.arrived());
  End(2);
  ASSERT_TRUE(parked.arrived());
  EXPECT_EQ(parked.code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(cut.arrived());
  EXPECT_EQ(cut.code(), absl::StatusCode::kAborted);
  const auto refused = [this] {
    for (const v1::ExchangeRequest& request :
         {TestDensePull(1, 1, 0, 2), TestClose(1, 1, 0), TestSparsePull(1, 1, 0), TestCut(1, 1)}) {
      EXPECT_EQ(Code(request), absl::StatusCode::kAborted) << request.ShortDebugString();
    }
    EXPECT_EQ(engine_->OpenTables(First(2)).status().code(), absl::StatusCode::kAborted);
  };
  refused();
  EXPECT_EQ(Code(Of(2, TestDensePull(1, 1, 0, 2))), absl::StatusCode::kFailedPrecondition);
  Open(Later(2, 2, 1));
  refused();
  ExpectAt(2, 1, 0, -0.5);
}

TEST_P(TakeoverTest, TheEndIsIdempotent) {
  Open(First(2));
  Clock(1, 2, 0);
  Push(1, 0, 1);
  Close(1, 0, 1);
  EXPECT_THAT(End(2), ElementsAre(2, 1));
  EXPECT_THAT(End(2), ElementsAre(2, 1));
  Open(Later(2, 3, 1));
  Clock(2, 3, 1);
  EXPECT_THAT(End(2), ElementsAre(1, 1, 1)) << "where the open generation began";
  Clock(2, 3, 2);
  // A generation that nobody opened comes between.
  EXPECT_THAT(End(4), ElementsAre(3, 3, 3));
  EXPECT_EQ(TryEnd(3).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(engine_->OpenTables(Later(3, 2, 3)).status().code(), absl::StatusCode::kAborted);
  Open(Later(5, 2, 3));
  ExpectAt(5, 3, -2, -2.5);
  EXPECT_EQ(TryEnd(4).status().code(), absl::StatusCode::kAborted);
}

TEST_P(TakeoverTest, TablesThatAreNotHereAreLost) {
  EXPECT_EQ(LostStateOf(TryEnd(2).status()), LostState::kServerState);
  const absl::Status none = engine_->OpenTables(Later(2, 1, 1)).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LostStateOf(none), LostState::kServerState);
  v1::OpenTablesRequest first = First(1);
  first.set_generation(3);
  Open(first);
  const absl::Status older = TryEnd(6, 4).status();
  EXPECT_EQ(older.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LostStateOf(older), LostState::kServerState);
  v1::OpenTablesRequest later = Later(6, 1, 0);
  later.set_takes_over_generation(4);
  EXPECT_EQ(LostStateOf(engine_->OpenTables(later).status()), LostState::kServerState);
}

TEST_P(TakeoverTest, WrongRequestsAreRefused) {
  Open(First(1));
  for (const auto& [next, oldest] : std::vector<std::pair<uint64_t, uint64_t>>{{2, 0}, {2, 2}}) {
    EXPECT_EQ(TryEnd(next, oldest).status().code(), absl::StatusCode::kInvalidArgument);
  }
  v1::OpenTablesRequest own = Later(2, 1, 0);
  own.set_takes_over_generation(2);
  v1::OpenTablesRequest stale = Later(2, 1, 0);
  stale.mutable_update()->set_staleness_bound(1);
  v1::OpenTablesRequest backups = Later(2, 2, 0);
  backups.mutable_update()->set_backup_workers(1);
  v1::OpenTablesRequest other = Later(2, 1, 0);
  other.mutable_schema()->mutable_optimizer()->set_learning_rate(2);
  for (const v1::OpenTablesRequest& request : {own, stale, backups, other}) {
    EXPECT_EQ(engine_->OpenTables(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
  Open(Later(2, 1, 0));
}

TEST_P(TakeoverTest, MemoryForMoreSlotsIsChecked) {
  ShardEngine::Options options = Options();
  options.memory_budget_bytes = 64 << 10;
  Start(options);
  Open(First(2));
  Clock(1, 2, 0);
  End(2);
  EXPECT_EQ(engine_->OpenTables(Later(2, 1000, 1)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Code(TestDensePull(0, 1, 0, 2)), absl::StatusCode::kAborted);
  EXPECT_THAT(End(2), ElementsAre(1, 1));
  // What a generation had goes to the next one: otherwise it would run out of memory.
  for (uint64_t generation = 2; generation < 200; ++generation) {
    ASSERT_TRUE(engine_->OpenTables(Later(generation, 1 + generation % 3, 1)).ok()) << generation;
  }
  ExpectAt(199, 1, 0, -0.5);
}

TEST_P(TakeoverTest, AScaleThatOnePartitionAloneWasToldIsALoss) {
  const auto clipped = [](v1::OpenTablesRequest request) {
    request.mutable_schema()->mutable_clipping()->set_by_global_norm(1);
    return request;
  };
  Open(clipped(First(2)));
  Clock(1, 2, 0, 4);
  Do(TestClip(0, 0, std::nullopt));
  Do(TestClip(0, 0, 0.5));
  Clock(1, 2, 1, 4);
  EXPECT_THAT(End(2), ElementsAre(1, 1)) << "clock 1 has no scale";
  EXPECT_EQ(LostStateOf(engine_->OpenTables(clipped(Later(2, 3, 2))).status()),
            LostState::kServerState);
  Open(clipped(Later(2, 3, 1)));
  ExpectAt(2, 1, -1, -1.5);
  Clock(2, 3, 1, 4);
  Do(Of(2, TestClip(0, 1, std::nullopt)));
  Do(Of(2, TestClip(0, 1, 0.25)));
  ExpectAt(2, 2, -2, -2.5);
}

TEST_P(TakeoverTest, OrdersToDropTheEndedGenerationLeaveItsTables) {
  Open(First(1));
  Clock(1, 1, 0);
  End(2);
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  drop.set_generation(1);
  EXPECT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_THAT(End(2), ElementsAre(1));
  drop.set_generation(2);
  EXPECT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_EQ(TryEnd(2).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Code(TestDensePull(0, 1, 0, 2)), absl::StatusCode::kNotFound);
}

TEST_P(TakeoverTest, ACutIsTakenAnew) {
  Open(First(2));
  Clock(1, 2, 0);
  TestAnswer first = Call(TestCut(0, 1));
  const TestAnswer cut = Do(TestCut(1, 1));
  EXPECT_TRUE(first.arrived());
  End(2);
  Open(Later(2, 1, 1));
  const TestAnswer again = Do(Of(2, TestCut(0, 1)));
  EXPECT_NE(again.reply().checkpoint_path(), cut.reply().checkpoint_path());
  EXPECT_EQ(again.reply().checkpoint_checksum(), cut.reply().checkpoint_checksum());
}

TEST_P(TakeoverTest, ARollBackReplacesAnEndedGeneration) {
  Open(First(2));
  Clock(1, 2, 0);
  End(2);
  v1::OpenTablesRequest anew = First(1);
  anew.set_generation(2);
  Open(anew);
  ExpectAt(2, 0, 1, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Durabilities, TakeoverTest,
                         testing::Values(v1::UpdateSpec::CHECKPOINT, v1::UpdateSpec::EVERY_PUSH),
                         [](const auto& info) {
                           return info.param == v1::UpdateSpec::EVERY_PUSH ? "EveryPush"
                                                                           : "Checkpoint";
                         });

// Those whose tables survive the process.
using DurableTakeoverTest = TakeoverTest;

TEST_P(DurableTakeoverTest, EndedGenerationsStayEndedAfterARestart) {
  Open(First(2));
  Clock(1, 2, 0);
  Push(1, 1, 1);
  Push(1, 0, 1);
  Close(1, 0, 1);
  EXPECT_THAT(End(2), ElementsAre(2, 1));
  Restart();
  EXPECT_EQ(engine_->OpenTables(First(2)).status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(End(2), ElementsAre(2, 1));
  Restart();
  Open(Later(2, 3, 2));
  ExpectAt(2, 2, -1, -1.5);
  Restart();
  EXPECT_THAT(End(2), ElementsAre(2, 2, 2));
  EXPECT_EQ(engine_->OpenTables(First(2)).status().code(), absl::StatusCode::kAborted);
  v1::OpenTablesRequest again = Later(2, 3, 2);
  again.set_expect_state(true);
  Open(again);
  Clock(2, 3, 2);
  Restart();
  EXPECT_THAT(Open(again).partitions(0).closed(), ElementsAre(3, 3, 3));
  ExpectAt(2, 3, -2, -2.5);
}

TEST_P(DurableTakeoverTest, AServerThatRestartedBeforeTheEndReadsTheClocksFromItsLog) {
  Open(First(2));
  Clock(1, 2, 0);
  Push(1, 0, 1);
  Close(1, 0, 1);
  Restart();
  EXPECT_THAT(End(2), ElementsAre(2, 1));
  Open(Later(2, 1, 1));
  ExpectAt(2, 1, 0, -0.5);
}

TEST_P(DurableTakeoverTest, ACrashLeavesTheOneGenerationOrTheOther) {
  for (const absl::string_view point :
       {"generation_ended", "clock_completed", "image", "taken_over"}) {
    SCOPED_TRACE(point);
    // Each partition has one block; of clock 1 partition 1 lacks a close.
    const auto two = [](v1::OpenTablesRequest request) {
      request.mutable_schema()->set_partitions(2);
      request.mutable_schema()->clear_sparse();
      request.add_partitions()->set_partition(1);
      return request;
    };
    const auto at = [](v1::ExchangeRequest request, uint32_t partition) {
      request.set_partition(partition);
      if (request.has_close()) request.mutable_close()->clear_sparse_chunks();
      return request;
    };
    for (int passes = 0;; ++passes) {
      SCOPED_TRACE(passes);
      engine_.reset();
      store_->DropJob("job").IgnoreError();
      ShardEngine::Options options = Options();
      int passed = 0;
      bool armed = false;
      options.crash_point = [&](absl::string_view passing) {
        return armed && passing == point && passed++ == passes;
      };
      Start(options);
      Open(two(First(2)));
      for (uint64_t clock : {0, 1}) {
        for (const uint32_t slot : {0, 1}) {
          for (const uint32_t partition : {0, 1}) {
            Do(at(TestDensePush(slot, clock, 0, 1), partition), Floats({1, 1, 1, 1}));
          }
          for (const uint32_t partition : {0, 1}) {
            if (clock + slot + partition == 3) continue;
            Do(at(TestClose(slot, clock, 0), partition));
          }
        }
      }
      armed = true;
      v1::EndGenerationRequest end;
      end.set_job_id("job");
      end.set_next_generation(2);
      end.set_oldest_generation(1);
      end.add_partitions()->set_partition(0);
      end.add_partitions()->set_partition(1);
      engine_->EndGeneration(end).IgnoreError();
      engine_->OpenTables(two(Later(2, 3, 2))).IgnoreError();
      const bool crashed = passed > passes;
      Restart();
      const absl::StatusOr<v1::EndGenerationReply> ended = engine_->EndGeneration(end);
      ASSERT_TRUE(ended.ok()) << ended.status();
      EXPECT_THAT(ended->partitions(0).closed(), Each(2));
      Open(two(Later(2, 3, 2)));
      for (const uint32_t partition : {0, 1}) {
        EXPECT_THAT(Do(at(Of(2, TestDensePull(0, 2, 0, 1)), partition)).floats(), Each(-1));
        for (const uint32_t slot : {0, 1, 2}) {
          Do(at(Of(2, TestDensePush(slot, 2, 0, 1)), partition), Floats({1, 1, 1, 1}));
          Do(at(Of(2, TestClose(slot, 2, 0)), partition));
        }
        EXPECT_THAT(Do(at(Of(2, TestDensePull(0, 3, 0, 1)), partition)).floats(), Each(-2));
      }
      if (!crashed) {
        EXPECT_GE(passes, 1) << "nothing was tested";
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Durable, DurableTakeoverTest, testing::Values(v1::UpdateSpec::EVERY_PUSH));

}  // namespace
}  // namespace muster
