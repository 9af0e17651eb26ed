#include "server/shard/shard_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/partition/sparse_placement.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store.h"
#include "server/shard/test_exchange.h"
#include "server/shard/test_executor.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShardEngineTest : public testing::Test {
 protected:
  ShardEngineTest() { Start(); }

  ShardEngine::Options Options() {
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = "/logs";
    options.log_file_system = &files_;
    options.log_segment_bytes = 1 << 16;
    options.checkpoint_storage = &storage_;
    options.executor = &executor_;
    return options;
  }

  void Start() { Start(Options()); }
  void Start(ShardEngine::Options options) {
    executor_.RunAll();
    engine_.reset();
    auto engine = ShardEngine::Create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  TestAnswer Call(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer;
    engine_->Execute(MakeTestCall(request, std::move(payload), answer));
    executor_.RunAll();
    return answer;
  }

  TestAnswer Do(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer = Call(request, std::move(payload));
    EXPECT_TRUE(answer.arrived());
    EXPECT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
    return answer;
  }

  absl::StatusCode Code(const v1::ExchangeRequest& request) {
    const TestAnswer answer = Call(request);
    return answer.arrived() ? answer.code() : absl::StatusCode::kUnknown;
  }

  v1::OpenTablesReply Open(const v1::OpenTablesRequest& request) {
    absl::StatusOr<v1::OpenTablesReply> reply = engine_->OpenTables(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::OpenTablesReply();
  }

  // One clock of a job with one slot: pushes `value` to all elements and to the row of key 5.
  void Step(uint64_t clock, float value) {
    Do(TestDensePush(0, clock, 0, 2), Floats(std::vector<float>(8, value)));
    Do(TestSparsePush(0, clock, 0, 1), KeysAndRows({5}, {value, value}));
    Do(TestClose(0, clock, 1));
  }

  void ExpectValues(uint64_t clock, float dense, float row) {
    EXPECT_THAT(Do(TestDensePull(0, clock, 0, 2)).floats(), Each(dense));
    EXPECT_THAT(Do(TestSparsePull(0, clock, 1), KeysAndRows({5}, {})).floats(), Each(row));
  }

  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  FakeLogFileSystem files_;
  MemoryStorage storage_;
  TestExecutor executor_;
  std::unique_ptr<ShardEngine> engine_;
};

v1::OpenTablesRequest DurableRequest() {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
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

TEST_F(ShardEngineTest, DroppingForgetsAJob) {
  Open(DurableRequest());
  Step(0, 1);
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  EXPECT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kNotFound);
  EXPECT_THAT(*store_->Jobs(), testing::IsEmpty());
  EXPECT_THAT(*files_.List("/logs"), testing::IsEmpty());
  Open(DurableRequest());
  ExpectValues(0, 1, 0.5);
}

TEST_F(ShardEngineTest, RefusesTablesBeyondTheBudget) {
  ShardEngine::Options options = Options();
  // 8 elements, weights and sums: 64 bytes.
  options.memory_budget_bytes = 100;
  Start(options);
  Open(TestOpenRequest(1));
  v1::OpenTablesRequest other = TestOpenRequest(1);
  other.set_job_id("other");
  const absl::Status refused = engine_->OpenTables(other).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(), HasSubstr("needs 64 bytes"));
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  ASSERT_TRUE(engine_->DropTables(drop).ok());
  Open(other);
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

TEST_F(ShardEngineTest, OneSyncServesAWholeBatch) {
  Open(DurableRequest());
  const int before = files_.syncs();
  TestAnswer first, second, close;
  engine_->Execute(MakeTestCall(TestDensePush(0, 0, 0, 1), Floats({1, 1, 1, 1}), first));
  engine_->Execute(MakeTestCall(TestDensePush(0, 0, 1, 1), Floats({1, 1, 1, 1}), second));
  engine_->Execute(MakeTestCall(TestClose(0, 0, 0), {}, close));
  executor_.RunAll();
  EXPECT_TRUE(close.arrived());
  EXPECT_EQ(files_.syncs(), before + 1);
}

TEST_F(ShardEngineTest, EveryPushContinuesInPlaceAfterACrash) {
  v1::OpenTablesRequest request = DurableRequest();
  Open(request);
  Step(0, 1);
  Do(TestDensePush(0, 1, 0, 1), Floats({2, 2, 2, 2}));
  files_.Crash(1);
  Start();
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kNotFound);
  request.set_expect_state(true);
  EXPECT_THAT(Open(request).partitions(0).closed(), ElementsAre(1));
  ExpectValues(1, 0, -0.5);
  EXPECT_TRUE(Do(TestDensePush(0, 1, 0, 1), Floats({9, 9, 9, 9})).reply().already_applied());
  Do(TestDensePush(0, 1, 1, 1), Floats({2, 2, 2, 2}));
  Do(TestClose(0, 1, 0));
  ExpectValues(2, -2, -0.5);
}

TEST_F(ShardEngineTest, ACutMovesTheStateIntoTheStoreAndRepeatsItsAnswer) {
  v1::OpenTablesRequest request = DurableRequest();
  Open(request);
  Step(0, 1);
  const TestAnswer cut = Do(TestCut(0, 1));
  Step(1, 1);
  files_.Crash(1);
  Start();
  Open(request);
  ExpectValues(2, -1, -1.5);
  const TestAnswer repeat = Do(TestCut(0, 1));
  EXPECT_EQ(repeat.reply().checkpoint_checksum(), cut.reply().checkpoint_checksum());
  EXPECT_EQ(repeat.reply().checkpoint_path(), cut.reply().checkpoint_path());
}

TEST_F(ShardEngineTest, ALongLogIsReplacedByABase) {
  ShardEngine::Options options = Options();
  options.log_bytes = 2000;
  options.log_segment_bytes = 4096;
  Start(options);
  Open(DurableRequest());
  uint64_t most = 0;
  for (uint64_t clock = 0; clock < 200; ++clock) {
    Step(clock, 1);
    most = std::max<uint64_t>(most, engine_->Stats().tables(0).log_bytes());
  }
  EXPECT_LT(most, 16000u);
  files_.Crash(1);
  Start(options);
  Open(DurableRequest());
  ExpectValues(200, -199, -199.5);
}

TEST_F(ShardEngineTest, LostStateIsToldNotMadeUp) {
  v1::OpenTablesRequest request = DurableRequest();
  request.set_expect_state(true);
  const absl::Status refused = engine_->OpenTables(request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(), HasSubstr("data folder was lost"));
}

TEST_F(ShardEngineTest, StateOfAnOlderGenerationIsDroppedAndOfANewerOneFences) {
  v1::OpenTablesRequest request = DurableRequest();
  Open(request);
  Step(0, 1);
  Start();
  request.set_generation(2);
  EXPECT_THAT(Open(request).partitions(0).closed(), ElementsAre(0));
  v1::ExchangeRequest pull = TestDensePull(0, 0, 0, 2);
  pull.set_generation(2);
  EXPECT_THAT(Do(pull).floats(), Each(1));
  Start();
  request.set_generation(1);
  EXPECT_TRUE(absl::IsAborted(engine_->OpenTables(request).status()));
}

TEST_F(ShardEngineTest, WithoutAStoreDurabilityIsRefused) {
  ShardEngine::Options options = Options();
  options.store = nullptr;
  Start(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->OpenTables(DurableRequest()).status()));
  Open(TestOpenRequest(1));
}

// Trains with `from` partitions, takes a checkpoint, and goes on from it with `to` partitions.
class RestoreTest : public ShardEngineTest,
                    public testing::WithParamInterface<std::pair<uint32_t, uint32_t>> {
 protected:
  static v1::OpenTablesRequest Request(uint32_t partitions) {
    v1::OpenTablesRequest request = TestOpenRequest(1);
    request.mutable_schema()->set_partitions(partitions);
    request.mutable_schema()->mutable_optimizer()->set_name("momentum");
    request.mutable_schema()->mutable_optimizer()->set_learning_rate(0.125);
    request.mutable_schema()->mutable_optimizer()->set_momentum(0.5);
    request.clear_partitions();
    for (uint32_t i = 0; i < partitions; ++i) request.add_partitions()->set_partition(i);
    return request;
  }

  // Every partition's blocks and keys 0…19.
  void TrainStep(const v1::OpenTablesRequest& job, uint64_t clock) {
    const uint32_t partitions = job.schema().partitions();
    const auto tables = LayoutFromSchema(job.schema());
    for (uint32_t p = 0; p < partitions; ++p) {
      const auto send = [&](v1::ExchangeRequest request, Payload payload) {
        request.set_generation(job.generation());
        request.set_partition(p);
        Do(request, std::move(payload));
      };
      std::vector<float> gradient;
      for (uint32_t id : tables.partition_blocks(p)) {
        for (uint64_t i = tables.blocks()[id].begin; i < tables.blocks()[id].end; ++i) {
          gradient.push_back(i + 1);
        }
      }
      const uint32_t blocks = tables.partition_blocks(p).size();
      if (blocks > 0) send(TestDensePush(0, clock, 0, blocks), Floats(gradient));
      std::vector<uint64_t> keys = KeysOf(p, partitions);
      std::vector<float> rows;
      for (uint64_t key : keys) rows.insert(rows.end(), {1.f * key, -1.f * key});
      send(TestSparsePush(0, clock, 0, keys.size()), KeysAndRows(keys, rows));
      send(TestClose(0, clock, 1), {});
    }
  }

  static std::vector<uint64_t> KeysOf(uint32_t partition, uint32_t partitions) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 20; ++key) {
      if (SparsePartition(key, partitions) == partition) keys.push_back(key);
    }
    return keys;
  }

  // Elements of "w", then the rows of keys 0…19.
  std::vector<float> Values(const v1::OpenTablesRequest& job, uint64_t clock) {
    const uint32_t partitions = job.schema().partitions();
    const auto layout = LayoutFromSchema(job.schema());
    std::vector<float> values(8 + 40);
    for (uint32_t p = 0; p < partitions; ++p) {
      const uint32_t blocks = layout.partition_blocks(p).size();
      v1::ExchangeRequest pull = TestDensePull(0, clock, 0, blocks);
      pull.set_generation(job.generation());
      pull.set_partition(p);
      if (blocks > 0) {
        const std::vector<float> weights = Do(pull).floats();
        size_t at = 0;
        for (uint32_t id : layout.partition_blocks(p)) {
          for (uint64_t i = layout.blocks()[id].begin; i < layout.blocks()[id].end; ++i) {
            values[i] = weights[at++];
          }
        }
      }
      const std::vector<uint64_t> keys = KeysOf(p, partitions);
      pull = TestSparsePull(0, clock, keys.size());
      pull.set_generation(job.generation());
      pull.set_partition(p);
      const std::vector<float> rows = Do(pull, KeysAndRows(keys, {})).floats();
      for (size_t i = 0; i < keys.size(); ++i) {
        values[8 + 2 * keys[i]] = rows[2 * i];
        values[8 + 2 * keys[i] + 1] = rows[2 * i + 1];
      }
    }
    return values;
  }

  // Takes the cut and completes the checkpoint as the coordinator does; returns its folder.
  std::string Checkpoint(const v1::OpenTablesRequest& job, uint64_t clock) {
    v1::CheckpointManifest manifest;
    manifest.set_job_id("job");
    manifest.set_generation(job.generation());
    manifest.set_clock(clock);
    *manifest.mutable_schema() = job.schema();
    for (uint32_t p = 0; p < job.schema().partitions(); ++p) {
      v1::ExchangeRequest cut = TestCut(0, clock);
      cut.set_generation(job.generation());
      cut.set_partition(p);
      const TestAnswer answer = Do(cut);
      v1::CheckpointFile& file = *manifest.add_files();
      file.set_partition(p);
      file.set_path(answer.reply().checkpoint_path());
      file.set_bytes(answer.reply().checkpoint_bytes());
      file.set_checksum(answer.reply().checkpoint_checksum());
    }
    const std::string folder = CheckpointFolder("/checkpoints", "job", clock);
    const absl::Status status = WriteManifest(storage_, folder, manifest);
    EXPECT_TRUE(status.ok()) << status;
    return folder;
  }
};

TEST_P(RestoreTest, AnyNumberOfPartitionsGoesOnWithTheSameBits) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  TrainStep(job, 1);
  const std::string folder = Checkpoint(job, 2);
  TrainStep(job, 2);
  const std::vector<float> expected = Values(job, 3);

  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(2);
  Open(resumed);
  TrainStep(resumed, 2);
  EXPECT_EQ(Values(resumed, 3), expected);
}

TEST_P(RestoreTest, WeightsAloneStartANewJob) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  const std::vector<float> weights = Values(job, 1);
  v1::OpenTablesRequest fresh = Request(GetParam().second);
  fresh.set_generation(2);
  fresh.mutable_schema()->mutable_optimizer()->set_name("adam");
  fresh.set_restore_uri(folder);
  fresh.set_restore_weights_only(true);
  Open(fresh);
  EXPECT_EQ(Values(fresh, 0), weights);
}

TEST_P(RestoreTest, ADurableRestoreDoesNotNeedItsCheckpointAgain) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  TrainStep(job, 1);
  const std::vector<float> expected = Values(job, 2);
  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(1);
  Open(resumed);
  files_.Crash(3);
  Start();
  ASSERT_TRUE(storage_.DeleteRecursively(folder).ok());
  Open(resumed);
  TrainStep(resumed, 1);
  EXPECT_EQ(Values(resumed, 2), expected);
}

TEST_P(RestoreTest, ADamagedCheckpointIsDataLoss) {
  v1::OpenTablesRequest job = Request(GetParam().first);
  Open(job);
  TrainStep(job, 0);
  const std::string folder = Checkpoint(job, 1);
  const std::string path = JoinUri(folder, PartitionFileName(0, 1));
  std::string bytes = *ReadFile(storage_, path);
  bytes.back() ^= 1;
  ASSERT_TRUE(WriteFile(storage_, path, bytes).ok());
  v1::OpenTablesRequest resumed = Request(GetParam().second);
  resumed.set_generation(2);
  resumed.set_restore_uri(folder);
  resumed.set_start_clock(1);
  EXPECT_TRUE(absl::IsDataLoss(engine_->OpenTables(resumed).status()));
}

INSTANTIATE_TEST_SUITE_P(Partitions, RestoreTest,
                         testing::Values(std::pair(1, 1), std::pair(3, 3), std::pair(1, 4),
                                         std::pair(4, 1), std::pair(3, 2)));

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
