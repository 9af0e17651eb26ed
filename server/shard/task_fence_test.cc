// A slot's tasks one after another: what becomes of the earlier one once the later has opened the
// tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TaskFenceTest : public TestEngine {
 protected:
  static v1::OpenTablesRequest As(v1::OpenTablesRequest request, uint32_t slot,
                                  uint64_t incarnation) {
    request.set_slot(slot);
    request.set_incarnation(incarnation);
    return request;
  }
  static v1::ExchangeRequest As(v1::ExchangeRequest request, uint64_t incarnation) {
    request.set_incarnation(incarnation);
    return request;
  }
  static v1::ExchangeRequest NoDense(v1::ExchangeRequest close) {
    close.mutable_close()->set_no_dense(true);
    return close;
  }
};

TEST_F(TaskFenceTest, OpeningFencesTheTasksBefore) {
  const v1::OpenTablesRequest request = TestOpenRequest(2);
  Open(As(request, 0, 1));
  Do(As(NoDense(TestClose(0, 0, 0)), 1));
  EXPECT_THAT(Open(As(request, 0, 3)).partitions(0).closed(), ElementsAre(1, 0));
  // What the earlier task does now cannot change what the later one was told.
  EXPECT_EQ(Code(As(NoDense(TestClose(0, 1, 0)), 2)), absl::StatusCode::kAborted);
  EXPECT_EQ(Code(As(TestDensePull(0, 0, 0, 1), 2)), absl::StatusCode::kAborted);
  const absl::Status refused = engine_->OpenTables(As(request, 0, 2)).status();
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("incarnation 2, current is 3"));
  // The same task again, another slot, and a client without incarnations.
  EXPECT_THAT(Open(As(request, 0, 3)).partitions(0).closed(), ElementsAre(1, 0));
  EXPECT_THAT(Open(As(request, 1, 1)).partitions(0).closed(), ElementsAre(1, 0));
  EXPECT_THAT(Open(As(request, 0, 0)).partitions(0).closed(), ElementsAre(1, 0));
  EXPECT_EQ(Code(As(TestDensePull(0, 0, 0, 1), 3)), absl::StatusCode::kOk);
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->OpenTables(As(request, 2, 1)).status()));
}

TEST_F(TaskFenceTest, TheFenceIsOnDiskWhenTheClocksAreTold) {
  const v1::OpenTablesRequest request = TestDurableRequest();
  Open(As(request, 0, 1));
  Step(0, 1);
  Open(As(request, 0, 4));
  for (const uint64_t seed : {1, 2, 3}) {
    files_.Crash(seed);
    Start();
    EXPECT_TRUE(absl::IsAborted(engine_->OpenTables(As(request, 0, 3)).status()));
    EXPECT_EQ(Code(As(NoDense(TestClose(0, 1, 0)), 3)), absl::StatusCode::kAborted);
    EXPECT_THAT(Open(As(request, 0, 4)).partitions(0).closed(), ElementsAre(1));
  }
  // Also where an image stands for the log.
  ShardEngine::Options with_image = Options();
  with_image.log_bytes = 0;
  Start(with_image);
  Open(As(request, 0, 4));
  Do(As(TestDensePull(0, 1, 0, 1), 4));
  Start();
  EXPECT_TRUE(absl::IsAborted(engine_->OpenTables(As(request, 0, 3)).status()));
  const int syncs = files_.syncs();
  Open(As(request, 0, 4));
  EXPECT_EQ(files_.syncs(), syncs);
}

TEST_F(TaskFenceTest, AFenceThatCannotBeStoredLetsNobodyIn) {
  const v1::OpenTablesRequest request = TestDurableRequest();
  Open(As(request, 0, 1));
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kWrite
               ? absl::ResourceExhaustedError("no space")
               : absl::OkStatus();
  });
  const absl::Status full = engine_->OpenTables(As(request, 0, 2)).status();
  EXPECT_TRUE(absl::IsUnavailable(full)) << full;
  files_.set_fault(nullptr);
  EXPECT_EQ(Code(As(TestDensePull(0, 0, 0, 1), 1)), absl::StatusCode::kOk);
  Open(As(request, 0, 2));
  EXPECT_EQ(Code(As(TestDensePull(0, 0, 0, 1), 1)), absl::StatusCode::kAborted);
}

TEST_F(TaskFenceTest, WhatAnEarlierTaskHasParkedIsAborted) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(1);
  Open(As(request, 0, 1));
  Do(As(NoDense(TestClose(0, 0, 0)), 1));
  const TestAnswer pull = Call(As(TestDensePull(0, 1, 0, 1), 1));
  const TestAnswer cut = Call(As(TestCut(0, 1), 1));
  const TestAnswer norms = Call(As(TestClip(0, 0, std::nullopt), 1));
  Open(As(request, 0, 2));
  const TestAnswer later = Call(As(TestDensePull(0, 1, 0, 1), 2));
  Do(NoDense(TestClose(1, 0, 0)));
  Do(As(TestClip(0, 0, 1), 2));
  for (const TestAnswer& answer : {pull, cut, norms}) {
    ASSERT_TRUE(answer.arrived());
    EXPECT_EQ(answer.code(), absl::StatusCode::kAborted) << answer.reply().message();
  }
  ASSERT_TRUE(later.arrived());
  EXPECT_THAT(later.floats(), Each(1));
}

// A task that outlived its lease, on a partition that its successor has not reached yet.
TEST_F(TaskFenceTest, WhatLiesTooFarBackIsAbortedAndNeverAnsweredWithNothing) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(100);
  request.mutable_update()->set_deterministic(true);
  Open(request);
  for (const uint64_t clock : {0, 1, 2}) {
    Step(clock, 1);
    Do(TestClip(0, clock, 1));
  }
  EXPECT_EQ(Do(TestClip(0, 2, std::nullopt)).doubles().size(), 3u);
  EXPECT_EQ(Code(TestClip(0, 1, std::nullopt)), absl::StatusCode::kAborted);
  EXPECT_EQ(Code(TestDensePull(0, 1, 0, 1)), absl::StatusCode::kAborted);
  EXPECT_EQ(Code(TestCut(0, 1)), absl::StatusCode::kAborted);
}

// The slot's present task may ask for it, so that starting it again would not help.
TEST_F(TaskFenceTest, ValuesLostWithACrashAreNoFence) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.mutable_update()->set_deterministic(true);
  ShardEngine::Options with_image = Options();
  with_image.log_bytes = 0;
  Start(with_image);
  Open(request);
  Step(0, 1);
  Start();
  Open(request);
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kFailedPrecondition);
}

TEST(TaskFenceThreadsTest, TasksComeInBetweenBatches) {
  MemoryStorage storage;
  ShardEngine::Options options;
  options.checkpoint_storage = &storage;
  options.threads = 2;
  auto engine = ShardEngine::Create(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.mutable_update()->set_unlimited_staleness(true);
  ASSERT_TRUE((*engine)->OpenTables(request).ok());
  constexpr uint64_t kTasks = 50;
  constexpr int kInFlight = 100;
  std::atomic<bool> stop = false;
  std::atomic<int> sent = 0, answered = 0;
  // Hardly ever leaves the partition idle.
  std::thread puller([&] {
    while (!stop) {
      if (sent - answered >= kInFlight) {
        std::this_thread::yield();
        continue;
      }
      ExchangeCall call;
      call.request = std::make_shared<v1::ExchangeRequest>(TestDensePull(0, 0, 0, 1));
      call.done = [&](v1::ExchangeReply, Payload) { ++answered; };
      ++sent;
      (*engine)->Execute(std::move(call));
    }
  });
  request.set_slot(1);
  for (uint64_t task = 2; task < kTasks; ++task) {
    request.set_incarnation(task);
    const auto reply = (*engine)->OpenTables(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
  }
  request.set_incarnation(kTasks - 2);
  EXPECT_TRUE(absl::IsAborted((*engine)->OpenTables(request).status()));
  stop = true;
  puller.join();
  engine->reset();
  EXPECT_EQ(answered, sent);
}

// The mean of each block is over the examples of what is in its sum.
TEST_F(TaskFenceTest, ASuccessorThatTakesTheStepBackLeavesItsPredecessorsBlocksWeighed) {
  for (const bool clips : {false, true}) {
    v1::OpenTablesRequest request = TestOpenRequest(2);
    if (clips) request.mutable_schema()->mutable_clipping()->set_by_global_norm(100);
    Start();
    Open(request);
    Do(TestDensePush(0, 0, 0, 1), Floats({3, 3, 3, 3}));
    // The next task of slot 0 repeats the clock with nothing to add.
    v1::ExchangeRequest push = As(TestDensePush(0, 0, 0, 2), 2);
    push.mutable_dense_push()->set_examples(0);
    v1::ExchangeRequest close = As(TestClose(0, 0, 0), 2);
    close.mutable_close()->set_examples(0);
    Do(push, Floats(std::vector<float>(8, 0)));
    Do(close);
    Do(TestDensePush(1, 0, 0, 2), Floats(std::vector<float>(8, 1)));
    Do(TestClose(1, 0, 0));
    if (clips) {
      EXPECT_THAT(Do(TestClip(1, 0, std::nullopt)).doubles(), ElementsAre(4 * 2 * 2, 4, 0));
      Do(TestClip(1, 0, 1));
    }
    // 1 - (3 + 1) / 2 examples, and 1 - 1.
    EXPECT_THAT(Do(TestDensePull(1, 1, 0, 2)).floats(), ElementsAre(-1, -1, -1, -1, 0, 0, 0, 0));
  }
}

}  // namespace
}  // namespace muster
