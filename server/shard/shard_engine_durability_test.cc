// Jobs with durability EVERY_PUSH on one engine: crashes, damaged and full disks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "server/shard/storage/mutation_log.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ShardEngineDurabilityTest = TestEngine;

TEST_F(ShardEngineDurabilityTest, OneSyncServesAWholeBatch) {
  Open(TestDurableRequest());
  const int before = files_.syncs();
  TestAnswer first, second, close;
  engine_->Execute(MakeTestCall(TestDensePush(0, 0, 0, 1), Floats({1, 1, 1, 1}), first));
  engine_->Execute(MakeTestCall(TestDensePush(0, 0, 1, 1), Floats({1, 1, 1, 1}), second));
  engine_->Execute(MakeTestCall(TestClose(0, 0, 0), {}, close));
  executor_.RunAll();
  EXPECT_TRUE(close.arrived());
  EXPECT_EQ(files_.syncs(), before + 1);
}

TEST_F(ShardEngineDurabilityTest, TheFolderOfLogsOutlivesCrashes) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    FakeLogFileSystem files;
    ShardEngine::Options options = Options();
    options.log_file_system = &files;
    // A process that ended at once.
    ASSERT_TRUE(files.CreateDirectory("/logs").ok());
    ASSERT_TRUE(ShardEngine::Create(options).ok());
    files.Crash(seed);
    EXPECT_TRUE(files.Exists("/logs")) << seed;
  }
}

TEST_F(ShardEngineDurabilityTest, EveryPushContinuesInPlaceAfterACrash) {
  v1::OpenTablesRequest request = TestDurableRequest();
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

TEST_F(ShardEngineDurabilityTest, MicroBatchesCountOnceAcrossACrash) {
  for (const bool deterministic : {true, false}) {
    v1::OpenTablesRequest request = TestDurableRequest();
    request.set_generation(deterministic ? 1 : 2);
    request.mutable_update()->set_deterministic(deterministic);
    request.set_pushed_micro_batches(2);
    Open(request);
    const auto push = [&](uint32_t micro_batch, uint32_t first_block, uint32_t blocks) {
      v1::ExchangeRequest pushed = TestDensePush(0, 0, first_block, blocks);
      pushed.set_generation(request.generation());
      pushed.mutable_dense_push()->set_micro_batch(micro_batch);
      return pushed;
    };
    Do(push(0, 0, 2), Floats({1, 1, 1, 1, 2, 2, 2, 2}));
    Do(push(1, 0, 1), Floats({3, 3, 3, 3}));
    files_.Crash(1);
    Start();
    request.set_expect_state(true);
    Open(request);
    EXPECT_TRUE(Do(push(0, 0, 2), Floats(std::vector<float>(8, 9))).reply().already_applied());
    EXPECT_FALSE(Do(push(1, 0, 2), Floats({9, 9, 9, 9, 4, 4, 4, 4})).reply().already_applied());
    v1::ExchangeRequest close = TestClose(0, 0, 0);
    close.set_generation(request.generation());
    Do(close);
    v1::ExchangeRequest pull = TestDensePull(0, 1, 0, 2);
    pull.set_generation(request.generation());
    // Each sum is over one example.
    EXPECT_THAT(Do(pull).floats(), ElementsAre(-1, -1, -1, -1, -2, -2, -2, -2));
  }
}

TEST_F(ShardEngineDurabilityTest, ACutRepeatsItsAnswerAfterACrash) {
  v1::OpenTablesRequest request = TestDurableRequest();
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

TEST_F(ShardEngineDurabilityTest, ALongLogIsReplacedByABase) {
  ShardEngine::Options options = Options();
  options.log_bytes = 2000;
  options.log_segment_bytes = 4096;
  Start(options);
  Open(TestDurableRequest());
  uint64_t most = 0;
  for (uint64_t clock = 0; clock < 200; ++clock) {
    Step(clock, 1);
    most = std::max<uint64_t>(most, engine_->Stats().tables(0).log_bytes());
  }
  EXPECT_LT(most, 16000u);
  files_.Crash(1);
  Start(options);
  Open(TestDurableRequest());
  ExpectValues(200, -199, -199.5);
}

TEST_F(ShardEngineDurabilityTest, ExamplesOfAClosedClockSurviveInTheImage) {
  ShardEngine::Options options = Options();
  // An image after every batch that leaves no gradient waiting.
  options.log_bytes = 0;
  Start(options);
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  Open(request);
  v1::ExchangeRequest none = TestClose(0, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  files_.Crash(1);
  Start(options);
  Open(request);
  v1::ExchangeRequest push = TestDensePush(1, 0, 0, 2);
  Do(push, Floats(std::vector<float>(8, 2)));
  files_.Crash(2);
  Start(options);
  Open(request);
  Do(TestClose(1, 0, 0));
  // 2 over two examples, of which slot 0's had no gradient.
  ExpectValues(1, 0, 0.5);
}

// A job of two slots whose engine crashes after each call, and then keeps its state in an image, or
// in the log alone.
class ClosedClockTest : public TestEngine, public ::testing::WithParamInterface<uint64_t> {
 protected:
  // Slot 0 closes its first clock without gradients, slot 1 with some.
  void Train(v1::ExchangeRequest close_of_0, const v1::ExchangeRequest& close_of_1) {
    options_ = Options();
    options_.log_bytes = GetParam();
    request_.set_slots(2);
    Start(options_);
    Open(request_);
    close_of_0.mutable_close()->set_no_dense(true);
    Do(close_of_0);
    Restart();
    Do(TestDensePush(1, 0, 0, 2), Floats(std::vector<float>(8, 2)));
    Restart();
    Do(close_of_1);
  }
  void Restart() {
    files_.Crash(1);
    Start(options_);
    Open(request_);
  }

 private:
  ShardEngine::Options options_;
  v1::OpenTablesRequest request_ = TestDurableRequest();
};

TEST_P(ClosedClockTest, ItsOverflowSurvives) {
  Train(TestCloseWithScale(0, 0, 0, true), TestCloseWithScale(1, 0, 0, false));
  for (int i = 0; i < 2; ++i) {
    const TestAnswer pull = Do(TestDensePull(0, 1, 0, 2));
    EXPECT_THAT(pull.floats(), Each(1)) << "nothing has changed";
    EXPECT_TRUE(pull.reply().loss_scale().left_out());
    EXPECT_EQ(pull.reply().loss_scale().value().scale(), 512);
    Restart();
  }
}

TEST_P(ClosedClockTest, ItsRateFactorSurvives) {
  v1::ExchangeRequest close = TestClose(0, 0, 0);
  close.set_rate_factor(0.25);
  // The first slot's close is all that tells the factor.
  Train(close, TestClose(1, 0, 0));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(0.75f));
    Restart();
  }
}

INSTANTIATE_TEST_SUITE_P(LogBytes, ClosedClockTest, ::testing::Values(0, uint64_t{1} << 30));

TEST_F(ShardEngineDurabilityTest, LostStateIsToldNotMadeUp) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_expect_state(true);
  const absl::Status refused = engine_->OpenTables(request).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(), HasSubstr("data folder was lost"));
}

TEST_F(ShardEngineDurabilityTest, ALostLogIsToldNotTakenForAnEmptyOne) {
  Open(TestDurableRequest());
  Step(0, 1);
  executor_.RunAll();
  engine_.reset();
  ASSERT_TRUE(MutationLog::Destroy("/logs/job.0", &files_).ok());
  Start();
  const absl::Status refused = engine_->OpenTables(TestDurableRequest()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("/logs/job.0 is gone"));
}

TEST_F(ShardEngineDurabilityTest, ALogThatEndsBeforeTheImageIsDataLoss) {
  ShardEngine::Options with_image = Options();
  with_image.log_bytes = 0;
  Start(with_image);
  Open(TestDurableRequest());
  Step(0, 1);
  executor_.RunAll();
  engine_.reset();
  ASSERT_TRUE(MutationLog::Destroy("/logs/job.0", &files_).ok());
  MutationLog::Options options;
  options.file_system = &files_;
  ASSERT_TRUE(MutationLog::Open("/logs/job.0", options).ok());
  Start();
  EXPECT_TRUE(absl::IsDataLoss(engine_->OpenTables(TestDurableRequest()).status()));
}

TEST_F(ShardEngineDurabilityTest, AfterAFailedSyncNothingIsAnsweredAsDone) {
  Open(TestDurableRequest());
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kSync ? absl::UnavailableError("disk")
                                                            : absl::OkStatus();
  });
  const TestAnswer push = Call(TestDensePush(0, 0, 0, 1), Floats({1, 1, 1, 1}));
  ASSERT_TRUE(push.arrived());
  EXPECT_EQ(push.code(), absl::StatusCode::kUnavailable);
  files_.set_fault(nullptr);
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kUnavailable);
  Start();
  Open(TestDurableRequest());
  Do(TestDensePush(0, 0, 0, 1), Floats({1, 1, 1, 1}));
}

TEST_F(ShardEngineDurabilityTest, AnImageAfterAFailedLogIsNoMistakeOfTheCaller) {
  ShardEngine::Options options = Options();
  // An image is due after every batch that leaves no gradient waiting.
  options.log_bytes = 0;
  Start(options);
  Open(TestDurableRequest());
  // Two of these are most of a segment; the third needs the next one.
  constexpr int kRows = 1800;
  std::vector<uint64_t> keys(kRows);
  std::iota(keys.begin(), keys.end(), 0);
  const std::vector<float> rows(2 * kRows, 1);
  Do(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8, 1)));
  for (int chunk = 0; chunk < 2; ++chunk) {
    Do(TestSparsePush(0, 0, chunk, kRows), KeysAndRows(keys, rows));
  }
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kRename ? absl::UnavailableError("disk")
                                                              : absl::OkStatus();
  });
  // One batch: the close makes the image due, the push finds that the log has failed.
  TestAnswer close, push;
  engine_->Execute(MakeTestCall(TestClose(0, 0, 2), {}, close));
  engine_->Execute(MakeTestCall(TestSparsePush(0, 1, 0, kRows), KeysAndRows(keys, rows), push));
  executor_.RunAll();
  files_.set_fault(nullptr);
  EXPECT_EQ(close.code(), absl::StatusCode::kOk);
  EXPECT_EQ(push.code(), absl::StatusCode::kUnavailable);
  const TestAnswer pull = Call(TestDensePull(0, 1, 0, 2));
  EXPECT_EQ(pull.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(pull.reply().message(), HasSubstr("cannot store its values"));
}

TEST_F(ShardEngineDurabilityTest, APartitionThatFailedIsReadBackOnceTheDiskWorks) {
  for (const bool keeps_space : {false, true}) {
    files_.set_keeps_space(keeps_space);
    v1::OpenTablesRequest request = TestDurableRequest();
    request.set_generation(1 + keeps_space);
    Open(request);
    const auto of_now = [&](v1::ExchangeRequest call) {
      call.set_generation(request.generation());
      return call;
    };
    const v1::ExchangeRequest push = of_now(TestDensePush(0, 0, 0, 1));
    const v1::ExchangeRequest second = of_now(TestDensePush(0, 0, 1, 1));
    const uint64_t memory = engine_->Stats().tables(0).memory_bytes();
    Do(push, Floats({1, 1, 1, 1}));
    files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
      return operation == FakeLogFileSystem::Operation::kSync ? absl::UnavailableError("disk")
                                                              : absl::OkStatus();
    });
    EXPECT_EQ(Call(second, Floats({2, 2, 2, 2})).code(), absl::StatusCode::kUnavailable);
    // As long as the disk does not work, all ask again and again.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(absl::IsUnavailable(engine_->OpenTables(request).status()));
      EXPECT_EQ(Code(push), absl::StatusCode::kUnavailable);
    }
    files_.set_fault(nullptr);
    request.set_expect_state(true);
    EXPECT_THAT(Open(request).partitions(0).closed(), ElementsAre(0));
    // What was acknowledged is there, and what was not counts once.
    EXPECT_TRUE(Do(push, Floats({9, 9, 9, 9})).reply().already_applied());
    Do(second, Floats({2, 2, 2, 2}));
    Do(of_now(TestClose(0, 0, 0)));
    EXPECT_THAT(Do(of_now(TestDensePull(0, 1, 0, 2))).floats(),
                ElementsAre(0, 0, 0, 0, -1, -1, -1, -1));
    EXPECT_EQ(engine_->Stats().tables(0).memory_bytes(), memory);
  }
}

TEST_F(ShardEngineDurabilityTest, AnOpeningThatFailsHalfWayLeavesNothingOpen) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.mutable_schema()->set_partitions(2);
  request.add_partitions()->set_partition(1);
  ShardEngine::Options options = Options();
  options.memory_budget_bytes = 1 << 20;
  Start(options);
  Open(request);
  Start(options);
  // The first partition is open by the time the second cannot be read.
  const std::string second = "/logs/job.1/00000000000000000001.log";
  files_.contents(second)[0] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(engine_->OpenTables(request).status()));
  EXPECT_EQ(engine_->Stats().tables_size(), 0);
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kNotFound);
  files_.contents(second)[0] ^= 1;
  Open(request);
  EXPECT_EQ(engine_->Stats().tables_size(), 1);
  EXPECT_EQ(Code(TestDensePull(0, 0, 0, 1)), absl::StatusCode::kOk);
}

TEST_F(ShardEngineDurabilityTest, AFullDiskRefusesThePushAndNothingElse) {
  Open(TestDurableRequest());
  files_.set_fault([](FakeLogFileSystem::Operation operation, const std::string&) {
    return operation == FakeLogFileSystem::Operation::kWrite
               ? absl::ResourceExhaustedError("no space")
               : absl::OkStatus();
  });
  EXPECT_EQ(Call(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8, 1))).code(),
            absl::StatusCode::kResourceExhausted);
  files_.set_fault(nullptr);
  EXPECT_FALSE(
      Do(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8, 1))).reply().already_applied());
  Do(TestClose(0, 0, 0));
  ExpectValues(1, 0, 0.5);
}

TEST_F(ShardEngineDurabilityTest, StateOfAnOlderGenerationIsDroppedAndOfANewerOneFences) {
  v1::OpenTablesRequest request = TestDurableRequest();
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

TEST_F(ShardEngineDurabilityTest, WithoutAStoreDurabilityIsRefused) {
  ShardEngine::Options options = Options();
  options.store = nullptr;
  Start(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->OpenTables(TestDurableRequest()).status()));
  Open(TestOpenRequest(1));
}

}  // namespace
}  // namespace muster
