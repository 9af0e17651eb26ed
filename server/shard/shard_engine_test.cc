#include "server/shard/shard_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "common/base/lost_state.h"
#include "proto/cluster_service.pb.h"
#include "server/shard/partition/partition.h"
#include "server/shard/tables/job_tables.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ShardEngineTest = TestEngine;

v1::DropTablesRequest DropRequest(const std::string& job_id) {
  v1::DropTablesRequest request;
  request.set_job_id(job_id);
  return request;
}

TEST_F(ShardEngineTest, NamesWhatIsNotOpen) {
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kNotFound);
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_schema()->set_partitions(2);
  Open(request);
  v1::ExchangeRequest pull = TestDensePull(0, 0, 0, 1);
  pull.set_partition(1);
  EXPECT_EQ(Code(pull), absl::StatusCode::kFailedPrecondition);
  pull.set_partition(2);
  EXPECT_EQ(Code(pull), absl::StatusCode::kNotFound);
}

TEST_F(ShardEngineTest, FencesGenerations) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.set_generation(3);
  Open(request);
  v1::ExchangeRequest close = TestClose(0, 0, 0);
  close.set_generation(3);
  close.mutable_close()->set_no_dense(true);
  Do(close);
  v1::ExchangeRequest pull = TestDensePull(0, 1, 0, 1);
  pull.set_generation(2);
  EXPECT_EQ(Code(pull), absl::StatusCode::kAborted);
  pull.set_generation(4);
  EXPECT_EQ(Code(pull), absl::StatusCode::kFailedPrecondition);
  pull.set_generation(3);
  const TestAnswer parked = Call(pull);
  EXPECT_FALSE(parked.arrived());

  request.set_generation(4);
  Open(request);
  ASSERT_TRUE(parked.arrived());
  EXPECT_EQ(parked.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(parked.reply().message(), HasSubstr("rejoin"));
  EXPECT_EQ(Code(pull), absl::StatusCode::kAborted);
  request.set_generation(3);
  EXPECT_TRUE(absl::IsAborted(engine_->OpenTables(request).status()));
}

TEST_F(ShardEngineTest, AnotherProcessThanTheMapNamesRefusesWhateverTheDurability) {
  for (v1::OpenTablesRequest request : {TestOpenRequest(1), TestDurableRequest()}) {
    request.set_process_nonce(0x1a);
    ShardEngine::Options options = Options();
    options.process_nonce = 0x1a;
    Start(options);
    Open(request);
    Step(0, 1);

    // Started again, before the coordinator knows: it is not taken for a server that never had
    // the job, nor does it go on by itself.
    options.process_nonce = 0x2b;
    Start(options);
    const absl::Status refused = engine_->OpenTables(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(refused.message(), testing::HasSubstr("is process 2b, but version 0 of the shard "
                                                      "map of job job names process 1a"));
    EXPECT_EQ(Code(TestClose(0, 1, 1)), absl::StatusCode::kNotFound);
    // Clients without a map name none.
    request.clear_process_nonce();
    EXPECT_TRUE(engine_->OpenTables(request).ok());
    EXPECT_EQ(engine_->DropTables(DropRequest(request.job_id())), absl::OkStatus());
  }
}

TEST_F(ShardEngineTest, WhatWasDroppedIsNotStartedAfreshWhereItIsExpected) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  Open(request);
  Step(0, 1);
  EXPECT_EQ(engine_->DropTables(DropRequest(request.job_id())), absl::OkStatus());
  request.set_expect_state(true);
  const absl::Status lost = engine_->OpenTables(request).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LostStateOf(lost), LostState::kServerState) << lost;
  // Nor does the refusal leave something that the next one would take for it.
  EXPECT_EQ(LostStateOf(engine_->OpenTables(request).status()), LostState::kServerState);
  request.set_generation(request.generation() + 1);
  request.set_expect_state(false);
  Open(request);
}

TEST_F(ShardEngineTest, JoiningTellsTheClosedClocks) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.set_start_clock(4);
  const v1::OpenTablesReply opened = Open(request);
  ASSERT_EQ(opened.partitions_size(), 1);
  EXPECT_THAT(opened.partitions(0).closed(), ElementsAre(4, 4));
  v1::ExchangeRequest close = TestClose(1, 4, 0);
  close.mutable_close()->set_no_dense(true);
  Do(close);
  EXPECT_THAT(Open(request).partitions(0).closed(), ElementsAre(4, 5));
  request.mutable_schema()->mutable_optimizer()->set_learning_rate(2);
  EXPECT_TRUE(absl::IsInvalidArgument(engine_->OpenTables(request).status()));
}

TEST_F(ShardEngineTest, WhoWaitsForASlotThatHasEndedIsRefused) {
  v1::HeartbeatReply orders;
  v1::EndedSlots& ended = *orders.add_ended_slots();
  ended.set_job_id("job");
  ended.add_slots(1);
  for (const bool told_first : {false, true}) {
    v1::OpenTablesRequest request = TestOpenRequest(2);
    request.set_generation(request.generation() + (told_first ? 1 : 0));
    ended.set_generation(request.generation());
    const auto of_generation = [&](v1::ExchangeRequest call) {
      call.set_generation(request.generation());
      return call;
    };
    const auto pull = [&](uint64_t clock) { return of_generation(TestDensePull(0, clock, 0, 1)); };
    const auto close = [&](uint32_t slot, uint64_t clock) {
      v1::ExchangeRequest call = of_generation(TestClose(slot, clock, 0));
      call.mutable_close()->set_no_dense(true);
      Do(call);
    };
    Start();
    Open(request);
    if (told_first) engine_->TakeEndedSlots(orders);
    close(0, 0);
    close(1, 0);
    close(0, 1);
    const TestAnswer waits = Call(pull(2));
    EXPECT_EQ(waits.arrived(), told_first);
    // Another generation's slots are others.
    ended.set_generation(request.generation() + 1);
    engine_->TakeEndedSlots(orders);
    executor_.RunAll();
    EXPECT_EQ(waits.arrived(), told_first);
    ended.set_generation(request.generation());
    engine_->TakeEndedSlots(orders);
    executor_.RunAll();
    ASSERT_TRUE(waits.arrived());
    EXPECT_EQ(waits.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(waits.reply().message(),
                HasSubstr("slot 1 has ended after 1 steps, and others wait for step 2 of it"));
    // What has come can be read.
    Do(pull(1));
    EXPECT_EQ(Code(pull(2)), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(ShardEngineTest, DroppingForgetsAJob) {
  Open(TestDurableRequest());
  Step(0, 1);
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  EXPECT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kNotFound);
  EXPECT_THAT(*store_->Jobs(), testing::IsEmpty());
  EXPECT_THAT(*files_.List("/logs"), testing::IsEmpty());
  Open(TestDurableRequest());
  ExpectValues(0, 1, 0.5);
}

TEST_F(ShardEngineTest, CountsWhatItServedForJobsThatAreGoneToo) {
  Open(TestOpenRequest(1));
  Step(0, 1);
  Do(TestDensePull(0, 1, 0, 2));
  Do(TestDensePull(0, 1, 1, 1));
  Do(TestSparsePull(0, 1, 1), KeysAndRows({5}, {}));
  const auto expect_counts = [this] {
    const v1::GetServerStatsReply stats = engine_->Stats();
    // 8 elements; a key and a row of 2.
    EXPECT_EQ(stats.bytes_pushed(), 32u + 16u);
    EXPECT_EQ(stats.dense_bytes_pulled(), 32u + 16u);
    EXPECT_EQ(stats.bytes_pulled(), 32u + 16u + 8u);
  };
  expect_counts();
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  ASSERT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_EQ(engine_->Stats().tables_size(), 0);
  expect_counts();
}

TEST_F(ShardEngineTest, TellsWhatEachPartitionTook) {
  EXPECT_THAT(engine_->PartitionLoads(), testing::IsEmpty());
  Open(TestOpenRequest(1));
  const std::vector<v1::PartitionLoad> before = engine_->PartitionLoads();
  ASSERT_GE(before.size(), 1u);
  EXPECT_EQ(before[0].job_id(), "job");
  EXPECT_EQ(before[0].generation(), 1);
  EXPECT_EQ(before[0].partition(), 0);
  Step(0, 1);
  const std::vector<v1::PartitionLoad> after = engine_->PartitionLoads();
  ASSERT_EQ(after.size(), before.size());
  EXPECT_GT(after[0].busy_seconds(), before[0].busy_seconds());
}

TEST_F(ShardEngineTest, RefusesTablesBeyondTheBudget) {
  ShardEngine::Options options = Options();
  const uint64_t bytes = Partition::PredictedBytes(**JobTables::Create(TestOpenRequest(1)), 0);
  options.memory_budget_bytes = 2 * bytes - 1;
  Start(options);
  Open(TestOpenRequest(1));
  v1::OpenTablesRequest other = TestOpenRequest(1);
  other.set_job_id("other");
  const absl::Status refused = engine_->OpenTables(other).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("needs ", bytes, " bytes")));
  EXPECT_THAT(refused.message(),
              HasSubstr(absl::StrCat(" of the server's ", 2 * bytes - 1, " bytes are available")));
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  ASSERT_TRUE(engine_->DropTables(drop).ok());
  Open(other);
}

// A request of some hundred bytes asks for gigabytes: each partition keeps something for each slot,
// and each slot for each sparse table.
TEST_F(ShardEngineTest, SlotsAndSparseTablesAreInTheBudgetBeforeTheyAreMade) {
  ShardEngine::Options options = Options();
  options.memory_budget_bytes = 64 << 20;
  Start(options);
  v1::OpenTablesRequest slots = TestOpenRequest(1 << 16);
  slots.mutable_schema()->set_partitions(4);
  slots.clear_partitions();
  for (uint32_t i = 0; i < 4; ++i) slots.add_partitions()->set_partition(i);
  v1::OpenTablesRequest tables = TestOpenRequest(1 << 12);
  for (int i = 0; i < 1000; ++i) {
    v1::SparseTableSchema& table = *tables.mutable_schema()->add_sparse();
    table = tables.schema().sparse(0);
    table.set_name(absl::StrCat("t", i));
  }
  for (const v1::OpenTablesRequest& request : {slots, tables}) {
    const absl::Status refused = engine_->OpenTables(request).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("67108864 of the server's 67108864 bytes"));
  }
  // The next generation, of honest sizes, finds room.
  v1::OpenTablesRequest honest = TestOpenRequest(2);
  honest.set_generation(2);
  Open(honest);
}

TEST_F(ShardEngineTest, AFullQueueAsksToComeBack) {
  ShardEngine::Options options = Options();
  options.queue_bytes = 2000;
  Start(options);
  Open(TestOpenRequest(1));
  std::vector<TestAnswer> answers(4);
  for (TestAnswer& answer : answers) {
    engine_->Execute(
        MakeTestCall(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8)), answer));
  }
  ASSERT_TRUE(answers[3].arrived());
  EXPECT_EQ(answers[3].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(answers[3].reply().retry_after_ms(), 0u);
  // The close of what was taken still finds room.
  TestAnswer close;
  engine_->Execute(MakeTestCall(TestClose(0, 0, 0), {}, close));
  executor_.RunAll();
  ASSERT_TRUE(close.arrived());
  EXPECT_EQ(close.code(), absl::StatusCode::kOk);
}

TEST_F(ShardEngineTest, RowsAreAnsweredInMemoryThatTheCallBrings) {
  Open(TestOpenRequest(1));
  const auto pull = [this](std::shared_ptr<float> memory) {
    TestAnswer answer;
    ExchangeCall call = MakeTestCall(TestSparsePull(0, 0, 2), KeysAndRows({5, 6}, {}), answer);
    call.answer_memory = [memory](size_t bytes) {
      EXPECT_EQ(bytes, 16);
      return std::shared_ptr<std::byte>(memory, reinterpret_cast<std::byte*>(memory.get()));
    };
    engine_->Execute(std::move(call));
    executor_.RunAll();
    EXPECT_TRUE(answer.arrived());
    EXPECT_THAT(answer.floats(), ElementsAre(0.5, 0.5, 0.5, 0.5));
  };
  const auto memory = std::make_shared<std::array<float, 4>>();
  pull({memory, memory->data()});
  EXPECT_THAT(*memory, ElementsAre(0.5, 0.5, 0.5, 0.5));
  // It may have none.
  pull(nullptr);
}

TEST(ShardEngineThreadsTest, ManyThreadsPushAtOnce) {
  MemoryStorage storage;
  ShardEngine::Options options;
  options.checkpoint_storage = &storage;
  options.threads = 3;
  auto engine = ShardEngine::Create(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  constexpr uint32_t kSlots = 4;
  constexpr uint64_t kClocks = 50;
  constexpr uint32_t kPartitions = 2;
  v1::OpenTablesRequest request = TestOpenRequest(kSlots);
  request.mutable_schema()->set_partitions(kPartitions);
  request.clear_partitions();
  for (uint32_t i = 0; i < kPartitions; ++i) request.add_partitions()->set_partition(i);
  std::vector<std::thread> slots;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    slots.emplace_back([&, slot] {
      // All open at once; one does it, the others join.
      ASSERT_TRUE((*engine)->OpenTables(request).ok());
      for (uint64_t clock = 0; clock <= kClocks; ++clock) {
        absl::BlockingCounter pulled(kPartitions);
        for (uint32_t partition = 0; partition < kPartitions; ++partition) {
          v1::ExchangeRequest pull = TestDensePull(slot, clock, 0, 1);
          pull.set_partition(partition);
          ExchangeCall call;
          call.request = std::make_shared<v1::ExchangeRequest>(pull);
          call.done = [&pulled, clock](v1::ExchangeReply reply, Payload payload) {
            EXPECT_EQ(reply.code(), 0) << reply.message();
            std::vector<float> values(payload.size() / sizeof(float));
            payload.CopyTo(values.data());
            EXPECT_THAT(values, Each(1 - static_cast<float>(clock)));
            pulled.DecrementCount();
          };
          (*engine)->Execute(std::move(call));
        }
        pulled.Wait();
        if (clock == kClocks) break;
        absl::BlockingCounter pushed(2 * kPartitions);
        for (uint32_t partition = 0; partition < kPartitions; ++partition) {
          for (v1::ExchangeRequest push :
               {TestDensePush(slot, clock, 0, 1), TestClose(slot, clock, 0)}) {
            push.set_partition(partition);
            ExchangeCall call;
            call.request = std::make_shared<v1::ExchangeRequest>(push);
            if (push.has_dense_push()) call.payload = Floats({1, 1, 1, 1});
            call.done = [&pushed](v1::ExchangeReply reply, Payload) {
              EXPECT_EQ(reply.code(), 0) << reply.message();
              pushed.DecrementCount();
            };
            (*engine)->Execute(std::move(call));
          }
        }
        pushed.Wait();
      }
    });
  }
  for (std::thread& slot : slots) slot.join();
  EXPECT_EQ((*engine)->Stats().bytes_pushed(), kSlots * kClocks * kPartitions * 16);
}

TEST(ShardEngineThreadsTest, TheEndAnswersWhatIsParked) {
  MemoryStorage storage;
  ShardEngine::Options options;
  options.checkpoint_storage = &storage;
  auto engine = ShardEngine::Create(std::move(options));
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_TRUE((*engine)->OpenTables(TestOpenRequest(2)).ok());
  TestAnswer parked;
  v1::ExchangeRequest close = TestClose(0, 0, 0);
  close.mutable_close()->set_no_dense(true);
  TestAnswer closed;
  (*engine)->Execute(MakeTestCall(close, {}, closed));
  (*engine)->Execute(MakeTestCall(TestDensePull(0, 1, 0, 1), {}, parked));
  engine->reset();
  ASSERT_TRUE(parked.arrived());
  EXPECT_EQ(parked.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace muster
