// What the log does beside the strand: pushes that come while the disk is busy, payloads that
// others can change, logs of several partitions read again at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "proto/status.pb.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// On a disk whose log writes with its sync, or at once. What waits for the disk runs when
// `disk_executor_` is told to.
class ShardEngineLogTest : public TestEngine, public testing::WithParamInterface<bool> {
 protected:
  ShardEngineLogTest() {
    files_.set_keeps_space(GetParam());
    Start(LogOptions());
    Open(TestDurableRequest());
  }
  ~ShardEngineLogTest() override { RunAll(); }

  ShardEngine::Options LogOptions() {
    ShardEngine::Options options = Options();
    options.file_executor = &disk_executor_;
    return options;
  }

  void RunAll() {
    while (!executor_.idle() || !disk_executor_.idle()) {
      executor_.RunAll();
      disk_executor_.RunAll();
    }
  }

  TestAnswer Queue(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer;
    engine_->Execute(MakeTestCall(request, std::move(payload), answer));
    return answer;
  }

  TestAnswer QueueBlock(uint64_t clock, uint32_t block, float value) {
    return Queue(TestDensePush(0, clock, block, 1), Floats(std::vector<float>(4, value)));
  }

  void Restart() {
    RunAll();
    files_.Crash(1);
    Start(LogOptions());
    Open(TestDurableRequest());
    RunAll();
  }

  TaskQueue disk_executor_;
};

TEST_P(ShardEngineLogTest, TakesPushesWhileTheDiskIsBusy) {
  const int before = files_.syncs();
  const TestAnswer first = QueueBlock(0, 0, 1);
  const TestAnswer second = QueueBlock(0, 1, 2);
  executor_.RunAll();
  // Their sync has begun; this is for the next one.
  const TestAnswer close = Queue(TestClose(0, 0, 0));
  const TestAnswer pull = Queue(TestDensePull(0, 1, 0, 2));
  executor_.RunAll();
  EXPECT_FALSE(first.arrived());
  EXPECT_FALSE(close.arrived());
  disk_executor_.RunOne();
  EXPECT_FALSE(first.arrived());
  executor_.RunAll();
  EXPECT_TRUE(first.arrived());
  EXPECT_TRUE(second.arrived());
  // The pull, too, rests on what is not on disk.
  EXPECT_FALSE(close.arrived());
  EXPECT_FALSE(pull.arrived());
  EXPECT_EQ(files_.syncs(), before + 1);
  RunAll();
  ASSERT_TRUE(close.arrived());
  ASSERT_TRUE(pull.arrived());
  EXPECT_EQ(files_.syncs(), before + 2);
  EXPECT_THAT(pull.floats(), ElementsAre(0, 0, 0, 0, -1, -1, -1, -1));
  Restart();
  const TestAnswer again = Queue(TestDensePull(0, 1, 0, 2));
  RunAll();
  EXPECT_EQ(again.floats(), pull.floats());
}

TEST_P(ShardEngineLogTest, ASyncIsAwaitedBeforeTooManyCallsWaitForIt) {
  const TestAnswer first = QueueBlock(0, 0, 1);
  QueueBlock(0, 1, 2);
  executor_.RunAll();
  // More than is let in beside a sync, though none has a payload.
  for (size_t bytes = 0; bytes <= (size_t{32} << 20); bytes += kCallBytes) {
    Queue(TestDensePull(0, 0, 0, 1));
  }
  executor_.RunAll();
  EXPECT_FALSE(first.arrived());
  Queue(TestDensePull(0, 0, 0, 1));
  executor_.RunAll();
  EXPECT_TRUE(first.arrived());
}

TEST_P(ShardEngineLogTest, AFailedSyncRefusesAllThatRestsOnIt) {
  const TestAnswer first = QueueBlock(0, 0, 1);
  const TestAnswer second = QueueBlock(0, 1, 2);
  executor_.RunAll();
  const TestAnswer close = Queue(TestClose(0, 0, 0));
  executor_.RunAll();
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kSync ? absl::UnavailableError("I/O error")
                                                            : absl::OkStatus();
  });
  RunAll();
  for (const TestAnswer& answer : {first, second, close}) {
    ASSERT_TRUE(answer.arrived());
    EXPECT_EQ(answer.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(answer.reply().message(), testing::HasSubstr("opened again"));
  }
  files_.set_fault(nullptr);
}

TEST_P(ShardEngineLogTest, ASyncThatFailsAtTheEndOfASegmentRefusesAllThatWaits) {
  // Two of these are most of a segment; the third needs the next one, which syncs this one.
  constexpr int kRows = 1800;
  std::vector<uint64_t> keys(kRows);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> rows(2 * kRows, 1);
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kSync ? absl::UnavailableError("I/O error")
                                                            : absl::OkStatus();
  });
  std::vector<TestAnswer> answers;
  for (int chunk = 0; chunk < 3; ++chunk) {
    answers.push_back(Queue(TestSparsePush(0, 0, chunk, kRows), KeysAndRows(keys, rows)));
  }
  RunAll();
  for (const TestAnswer& answer : answers) {
    ASSERT_TRUE(answer.arrived());
    EXPECT_EQ(answer.code(), absl::StatusCode::kUnavailable);
  }
  files_.set_fault(nullptr);
}

TEST_P(ShardEngineLogTest, ATaskThatComesWaitsForWhatWasLetIn) {
  const TestAnswer first = QueueBlock(0, 0, 1);
  const TestAnswer second = QueueBlock(0, 1, 2);
  const TestAnswer close = Queue(TestClose(0, 0, 0));
  executor_.RunAll();
  ASSERT_FALSE(close.arrived());
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_incarnation(2);
  EXPECT_THAT(Open(request).partitions(0).closed(), ElementsAre(1));
  EXPECT_TRUE(close.arrived());
  EXPECT_EQ(close.code(), absl::StatusCode::kOk);
}

TEST_P(ShardEngineLogTest, ASharedPayloadIsAppliedAsItWasLogged) {
  std::vector<float> dense(8, 3);
  std::vector<std::byte> sparse(8 + 2 * sizeof(float));
  KeysAndRows({5}, {7, 7}).CopyTo(sparse.data());
  const auto queue_shared = [this](const v1::ExchangeRequest& request,
                                   absl::Span<const std::byte> bytes) {
    TestAnswer answer;
    ExchangeCall call = MakeTestCall(request, Payload({bytes}, nullptr), answer);
    call.payload_memory = ExchangeCall::PayloadMemory::kShared;
    engine_->Execute(std::move(call));
    return answer;
  };
  queue_shared(TestDensePush(0, 0, 0, 2),
               {reinterpret_cast<const std::byte*>(dense.data()), dense.size() * sizeof(float)});
  queue_shared(TestSparsePush(0, 0, 0, 1), sparse);
  executor_.RunAll();
  // The worker goes on writing before the log has reached the disk.
  std::fill(dense.begin(), dense.end(), 100);
  std::fill(sparse.begin(), sparse.end(), std::byte{0x7f});
  Queue(TestClose(0, 0, 1));
  const auto expect_values = [this] {
    const TestAnswer weights = Queue(TestDensePull(0, 1, 0, 2));
    const TestAnswer row = Queue(TestSparsePull(0, 1, 1), KeysAndRows({5}, {}));
    RunAll();
    ASSERT_TRUE(row.arrived());
    EXPECT_THAT(weights.floats(), Each(-2));
    EXPECT_THAT(row.floats(), Each(-6.5));
  };
  expect_values();
  Restart();
  expect_values();
}

INSTANTIATE_TEST_SUITE_P(Disks, ShardEngineLogTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "KeepsSpace" : "WritesAtOnce";
                         });

// With threads of its own, and files.
class ShardEngineReplayTest : public testing::Test {
 protected:
  static constexpr uint32_t kPartitions = 2;

  void Start() {
    engine_.reset();
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = folder_;
    options.log_segment_bytes = 1 << 20;
    options.checkpoint_storage = &storage_;
    options.threads = 4;
    options.replayed = [this](const v1::ReplayStatus& replay) {
      absl::MutexLock lock(&mutex_);
      told_.push_back(replay);
    };
    auto engine = ShardEngine::Create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    v1::OpenTablesRequest request = TestDurableRequest();
    request.mutable_schema()->set_partitions(kPartitions);
    request.clear_partitions();
    for (uint32_t i = 0; i < kPartitions; ++i) request.add_partitions()->set_partition(i);
    const auto opened = engine_->OpenTables(request);
    ASSERT_TRUE(opened.ok()) << opened.status();
  }

  std::vector<float> Call(v1::ExchangeRequest request, uint32_t partition, Payload payload = {}) {
    request.set_partition(partition);
    absl::Notification answered;
    std::vector<float> floats;
    ExchangeCall call;
    call.request = std::make_shared<const v1::ExchangeRequest>(std::move(request));
    call.payload = std::move(payload);
    call.done = [&](v1::ExchangeReply reply, Payload answer) {
      EXPECT_EQ(reply.code(), 0) << reply.message();
      floats.resize(answer.size() / sizeof(float));
      answer.CopyTo(floats.data());
      answered.Notify();
    };
    engine_->Execute(std::move(call));
    answered.WaitForNotification();
    return floats;
  }

  const std::string folder_ = testing::TempDir() + "/replay";
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  MemoryStorage storage_;
  absl::Mutex mutex_;
  std::vector<v1::ReplayStatus> told_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ShardEngine> engine_;
};

TEST_F(ShardEngineReplayTest, ReplaysPartitionsSideBySideAndTells) {
  std::filesystem::remove_all(folder_);
  Start();
  constexpr uint64_t kClocks = 50;
  for (uint64_t clock = 0; clock < kClocks; ++clock) {
    for (uint32_t partition = 0; partition < kPartitions; ++partition) {
      Call(TestDensePush(0, clock, 0, 1), partition, Floats({1, 1, 1, 1}));
      Call(TestClose(0, clock, 0), partition);
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(told_.empty());
  }
  Start();
  for (uint32_t partition = 0; partition < kPartitions; ++partition) {
    EXPECT_THAT(Call(TestDensePull(0, kClocks, 0, 1), partition), Each(1.0f - kClocks));
  }
  const std::vector<v1::ReplayStatus> replays = engine_->Replays();
  ASSERT_EQ(replays.size(), 1u);
  EXPECT_EQ(replays[0].job_id(), "job");
  EXPECT_EQ(replays[0].partitions(), kPartitions);
  EXPECT_EQ(replays[0].records(), 2 * kClocks * kPartitions);
  EXPECT_GE(replays[0].bytes(), kClocks * kPartitions * 4 * sizeof(float));
  EXPECT_GT(replays[0].seconds(), 0);
  {
    absl::MutexLock lock(&mutex_);
    ASSERT_EQ(told_.size(), 1u);
    EXPECT_EQ(told_[0].records(), replays[0].records());
  }
  // A report of tables that are gone would stay for ever.
  v1::OpenTablesRequest next = TestDurableRequest();
  next.set_generation(2);
  ASSERT_TRUE(engine_->OpenTables(next).ok());
  EXPECT_TRUE(engine_->Replays().empty());
}

TEST_F(ShardEngineReplayTest, ADropForgetsWhatWasReplayed) {
  std::filesystem::remove_all(folder_);
  Start();
  Call(TestDensePush(0, 0, 0, 1), 0, Floats({1, 1, 1, 1}));
  Start();
  ASSERT_EQ(engine_->Replays().size(), 1u);
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  ASSERT_TRUE(engine_->DropTables(drop).ok());
  EXPECT_TRUE(engine_->Replays().empty());
}

}  // namespace
}  // namespace muster
