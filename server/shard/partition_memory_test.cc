// Tests of what becomes of a partition, and of those who ask it for something, when memory runs
// out: at every allocation of an operation, and at the large ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/lost_state.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/partition/partition.h"
#include "server/shard/resources/executor.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store_for_testing.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_server.h"

namespace {

constexpr int kNever = -1;
// Allocations of this thread until one fails, and from which size on they count.
thread_local int allocations_left = kNever;
thread_local size_t least_bytes = 0;
// True if all fail after that one.
thread_local bool fails_on = false;
thread_local bool has_failed = false;

bool Fails(size_t bytes) {
  if (has_failed) return fails_on;
  if (allocations_left == kNever || bytes < least_bytes) return false;
  has_failed = allocations_left-- == 0;
  return has_failed;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (Fails(bytes)) throw std::bad_alloc();
  void* const memory =
      alignment == 0
          ? std::malloc(bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace muster {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

enum class Failing { kOne, kAllFromThere };

// Makes this thread's allocation `number` from now on fail while it lives, of those of at least so
// many bytes, and all after it if need be.
class FailAllocation {
 public:
  explicit FailAllocation(int number, size_t bytes = 0, Failing failing = Failing::kOne) {
    least_bytes = bytes;
    allocations_left = number;
    fails_on = failing == Failing::kAllFromThere;
  }
  ~FailAllocation() {
    allocations_left = kNever;
    has_failed = false;
  }
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;

  bool happened() const { return has_failed; }
};

// A partition without threads, all of whose allocations happen within its methods.
class PartitionMemoryTest : public testing::TestWithParam<v1::UpdateSpec::Durability> {
 protected:
  bool durable() const { return GetParam() == v1::UpdateSpec::EVERY_PUSH; }

  v1::OpenTablesRequest Request() const {
    v1::OpenTablesRequest request = TestOpenRequest(2);
    request.mutable_update()->set_durability(GetParam());
    return request;
  }

  // A new partition, on a disk of its own.
  void Open() {
    partition_.reset();
    storage_ = std::make_unique<MemoryStorage>();
    files_ = std::make_unique<FakeLogFileSystem>();
    store_ = std::make_unique<MemoryStore>();
    Make();
    if (durable()) {
      ASSERT_TRUE(partition_->StartJournal(PartitionJournal::Extent::kAll).ok());
    }
  }

  void Make() {
    const auto job = JobTables::Create(Request());
    ASSERT_TRUE(job.ok()) << job.status();
    Partition::Options options;
    options.pool = pool_;
    options.budget = &budget_;
    options.checkpoint_storage = storage_.get();
    options.crash_point = &crash_point_;
    options.parked_bytes = 1 << 20;
    std::unique_ptr<PartitionJournal> journal;
    if (durable()) {
      MutationLog::Options log;
      log.file_system = files_.get();
      log.segment_bytes = 1 << 15;
      log.memory = pool_;
      auto opened = PartitionJournal::Open(*store_, "/logs", log);
      ASSERT_TRUE(opened.ok()) << opened.status();
      journal = *std::move(opened);
    }
    partition_ =
        std::make_unique<Partition>(std::make_unique<PartitionTables>(*job, 0, pool_, store_.get()),
                                    0, std::move(journal), options);
  }

  // Does what the engine does once a partition has failed.
  void Recover() {
    partition_.reset();
    Make();
    const auto state = ReadPartitionState(*store_, "job", 0);
    ASSERT_TRUE(state.ok() && *state != nullptr) << state.status();
    const absl::Status recovered = partition_->Recover(**state, [] { return absl::OkStatus(); });
    ASSERT_TRUE(recovered.ok()) << recovered;
  }

  // Returns what a slot asks for in a clock.
  static std::vector<std::pair<v1::ExchangeRequest, Payload>> Operations(uint32_t slot,
                                                                         uint64_t clock) {
    std::vector<std::pair<v1::ExchangeRequest, Payload>> made;
    const float value = 1 + slot;
    made.emplace_back(TestSparsePull(slot, clock, 2), KeysAndRows({5, 6}, {}));
    made.emplace_back(TestDensePush(slot, clock, 0, 2), Floats(std::vector<float>(8, value)));
    made.emplace_back(TestSparsePush(slot, clock, 0, 2),
                      KeysAndRows({5, 6 + slot}, {value, value, value, value}));
    made.emplace_back(TestClose(slot, clock, 1), Payload());
    made.emplace_back(TestDensePull(slot, clock + 1, 0, 2), Payload());
    v1::ExchangeRequest narrow = TestDensePull(slot, clock + 1, 0, 2);
    narrow.mutable_dense_pull()->set_type(v1::UpdateSpec::BF16);
    made.emplace_back(narrow, Payload());
    made.emplace_back(TestCut(slot, clock + 1), Payload());
    return made;
  }

  // All operations of a clock in one batch; the answers, in the same order.
  std::vector<TestAnswer> ExecuteClock(uint64_t clock) {
    std::vector<TestAnswer> answers;
    std::vector<ExchangeCall> calls = Calls(clock, answers);
    partition_->Execute(std::move(calls));
    return answers;
  }

  static std::vector<ExchangeCall> Calls(uint64_t clock, std::vector<TestAnswer>& answers) {
    std::vector<ExchangeCall> calls;
    for (uint32_t slot = 0; slot < 2; ++slot) {
      for (auto& [request, payload] : Operations(slot, clock)) {
        calls.push_back(MakeTestCall(request, payload, answers.emplace_back()));
      }
    }
    return calls;
  }

  std::vector<float> Values(uint64_t clock) {
    std::vector<ExchangeCall> calls;
    TestAnswer dense, rows;
    calls.push_back(MakeTestCall(TestDensePull(0, clock, 0, 2), {}, dense));
    calls.push_back(MakeTestCall(TestSparsePull(0, clock, 3), KeysAndRows({5, 6, 7}, {}), rows));
    partition_->Execute(std::move(calls));
    EXPECT_TRUE(dense.arrived() && rows.arrived());
    std::vector<float> values = dense.floats();
    for (const float row : rows.floats()) values.push_back(row);
    return values;
  }

  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
  MemoryBudget budget_{1 << 24};
  CrashPoint crash_point_{nullptr};
  std::unique_ptr<MemoryStorage> storage_;
  std::unique_ptr<FakeLogFileSystem> files_;
  std::unique_ptr<MemoryStore> store_;
  std::unique_ptr<Partition> partition_;
};

TEST_P(PartitionMemoryTest, EveryAllocationMayFailAndNothingIsHalfDone) {
  int failed = 0, refused = 0;
  // In the first clock much is made for the first time.
  for (const uint64_t clock : {0, 1}) {
    const auto open = [&] {
      Open();
      for (uint64_t before = 0; before < clock; ++before) ExecuteClock(before);
    };
    open();
    ExecuteClock(clock);
    const std::vector<float> expected = Values(clock + 1);
    for (int number = 0;; ++number) {
      SCOPED_TRACE(absl::StrCat("clock ", clock, ", allocation ", number));
      open();
      std::vector<TestAnswer> answers;
      std::vector<ExchangeCall> calls = Calls(clock, answers);
      bool happened;
      {
        const FailAllocation fail(number);
        partition_->Execute(std::move(calls));
        happened = fail.happened();
      }
      if (!happened) break;
      ++(partition_->failed() ? failed : refused);
      if (partition_->failed()) {
        for (const TestAnswer& answer : answers) {
          ASSERT_TRUE(answer.arrived()) << "or its caller would wait for ever";
        }
        TestAnswer after;
        std::vector<ExchangeCall> late;
        late.push_back(MakeTestCall(TestDensePull(0, clock, 0, 2), {}, after));
        partition_->Execute(std::move(late));
        ASSERT_TRUE(after.arrived());
        EXPECT_EQ(after.code(),
                  durable() ? absl::StatusCode::kUnavailable : absl::StatusCode::kDataLoss);
        // Without a log the values are gone, and a checkpoint has them.
        if (!durable()) continue;
        Recover();
      }
      // Tasks repeat what they were refused. No contribution counts twice, and none is missing.
      for (int repeats = 0; repeats < 3; ++repeats) ExecuteClock(clock);
      EXPECT_EQ(Values(clock + 1), expected);
    }
  }
  EXPECT_GT(failed, 20);
  EXPECT_GT(refused, 6);
}

// When there is none for the error either, nobody is left waiting, and the partition has failed.
TEST_P(PartitionMemoryTest, WhenNoMemoryIsLeftAllAreAnswered) {
  int failed = 0;
  for (int number = 0;; ++number) {
    SCOPED_TRACE(number);
    Open();
    std::vector<TestAnswer> answers;
    std::vector<ExchangeCall> calls = Calls(0, answers);
    bool happened;
    {
      const FailAllocation fail(number, 0, Failing::kAllFromThere);
      partition_->Execute(std::move(calls));
      happened = fail.happened();
    }
    if (!happened) break;
    if (!partition_->failed()) continue;
    ++failed;
    for (const TestAnswer& answer : answers) ASSERT_TRUE(answer.arrived());
  }
  EXPECT_GT(failed, 20);
}

TEST_P(PartitionMemoryTest, ATaskThatEntersWithoutMemoryFindsAPartitionThatIsWholeOrFailed) {
  for (int number = 0;; ++number) {
    SCOPED_TRACE(number);
    Open();
    ExecuteClock(0);
    absl::StatusOr<Partition::Entry> entry = Partition::Entry();
    bool happened;
    {
      const FailAllocation fail(number);
      entry = partition_->EnterTask(0, 2);
      happened = fail.happened();
    }
    if (!happened) break;
    EXPECT_EQ(entry.ok(), !partition_->failed());
  }
}

// These operations are as large as a client has them.
TEST_P(PartitionMemoryTest, LargePullsAndPushesThatFindNoMemoryAreRefusedAlone) {
  constexpr size_t kRows = 5000;
  constexpr size_t kLarge = 32 << 10;
  std::vector<uint64_t> keys(kRows);
  for (size_t i = 0; i < kRows; ++i) keys[i] = i;
  Open();
  ExecuteClock(0);
  const auto refused = [&](int number, const v1::ExchangeRequest& request, const Payload& payload) {
    TestAnswer answer;
    std::vector<ExchangeCall> calls;
    calls.push_back(MakeTestCall(request, payload, answer));
    bool happened;
    {
      const FailAllocation fail(number, kLarge);
      partition_->Execute(std::move(calls));
      happened = fail.happened();
    }
    EXPECT_TRUE(answer.arrived());
    EXPECT_FALSE(partition_->failed()) << number << ": " << answer.reply().message();
    if (!happened) return false;
    EXPECT_EQ(answer.code(), absl::StatusCode::kResourceExhausted) << answer.reply().message();
    EXPECT_THAT(answer.reply().message(), HasSubstr("memory"));
    return true;
  };
  const std::vector<float> before = Values(1);
  int number = 0;
  while (refused(number, TestSparsePull(0, 1, kRows), KeysAndRows(keys, {}))) ++number;
  EXPECT_GT(number, 0);
  v1::ExchangeRequest narrow = TestSparsePull(0, 1, 2 * kRows);
  narrow.mutable_sparse_pull()->set_type(v1::UpdateSpec::BF16);
  keys.insert(keys.end(), keys.begin(), keys.end());
  number = 0;
  while (refused(number, narrow, KeysAndRows(keys, {}))) ++number;
  EXPECT_GT(number, 0);
  keys.resize(kRows);
  v1::ExchangeRequest push = TestSparsePush(0, 1, 0, kRows);
  EXPECT_TRUE(refused(0, push, KeysAndRows(keys, std::vector<float>(2 * kRows, 1))));
  EXPECT_EQ(Values(1), before);
  // And is taken when it comes again.
  TestAnswer taken;
  std::vector<ExchangeCall> calls;
  calls.push_back(MakeTestCall(push, KeysAndRows(keys, std::vector<float>(2 * kRows, 1)), taken));
  partition_->Execute(std::move(calls));
  ASSERT_TRUE(taken.arrived());
  EXPECT_EQ(taken.code(), absl::StatusCode::kOk) << taken.reply().message();
  EXPECT_FALSE(taken.reply().already_applied());
}

INSTANTIATE_TEST_SUITE_P(Durabilities, PartitionMemoryTest,
                         testing::Values(v1::UpdateSpec::CHECKPOINT, v1::UpdateSpec::EVERY_PUSH));

class EngineMemoryTest : public TestEngine {
 protected:
  // So many that the tables have to grow.
  static constexpr size_t kManyRows = 20000;
  static Payload ManyRows() {
    std::vector<uint64_t> keys(kManyRows);
    for (size_t i = 0; i < kManyRows; ++i) keys[i] = i;
    return KeysAndRows(keys, std::vector<float>(2 * kManyRows, 1));
  }

  // Pushes rows, and lets the growth of the tables fail; the push's answer.
  TestAnswer FailInTheTables() {
    const Payload payload = ManyRows();
    for (int number = 0; number < 20; ++number) {
      TestAnswer answer;
      engine_->Execute(MakeTestCall(TestSparsePush(0, 1, 0, kManyRows), payload, answer));
      bool happened;
      {
        const FailAllocation fail(number, 16 << 10);
        executor_.RunAll();
        happened = fail.happened();
      }
      EXPECT_TRUE(happened);
      EXPECT_TRUE(answer.arrived());
      if (!happened || !answer.arrived()) break;
      if (answer.code() != absl::StatusCode::kResourceExhausted) return answer;
    }
    ADD_FAILURE() << "no allocation of the tables failed";
    return TestAnswer();
  }
};

TEST_F(EngineMemoryTest, ADurablePartitionIsReadBackAndTrainsOn) {
  Open(TestDurableRequest());
  Step(0, 1);
  const TestAnswer failed = FailInTheTables();
  ASSERT_TRUE(failed.arrived());
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(failed.reply().message(), HasSubstr("more memory"));
  v1::OpenTablesRequest again = TestDurableRequest();
  again.set_expect_state(true);
  Open(again);
  ExpectValues(1, 0, -0.5);
  Step(1, 1);
  ExpectValues(2, -1, -1.5);
}

TEST_F(EngineMemoryTest, APartitionWithoutALogIsLostAndTheJobGoesBackToACheckpoint) {
  Open(TestOpenRequest(1));
  Step(0, 1);
  const TestAnswer failed = FailInTheTables();
  ASSERT_TRUE(failed.arrived());
  EXPECT_EQ(failed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(failed.reply().message(), HasSubstr("go back to a checkpoint"));
  EXPECT_EQ(Code(TestDensePull(0, 1, 0, 2)), absl::StatusCode::kDataLoss);
  v1::OpenTablesRequest again = TestOpenRequest(1);
  again.set_expect_state(true);
  again.set_incarnation(2);
  const absl::Status lost = engine_->OpenTables(again).status();
  EXPECT_TRUE(absl::IsDataLoss(lost)) << lost;
  EXPECT_EQ(LostStateOf(lost), LostState::kServerState);
  v1::OpenTablesRequest next = TestOpenRequest(1);
  next.set_generation(2);
  Open(next);
}

// The state of the log is not known, and is found out when it is read back.
TEST_F(EngineMemoryTest, ACutThatEndsAfterItsPartitionHasFailedWritesNothingToTheLog) {
  bool failed = false;
  for (int number = 0; number < 20 && !failed; ++number) {
    SCOPED_TRACE(number);
    v1::OpenTablesRequest request = TestDurableRequest();
    request.set_generation(1 + number);
    Open(request);
    const auto call = [&](v1::ExchangeRequest operation, Payload payload, TestAnswer& answer) {
      operation.set_generation(request.generation());
      engine_->Execute(MakeTestCall(operation, std::move(payload), answer));
    };
    TestAnswer cut, push;
    call(TestCut(0, 0), {}, cut);
    executor_.RunOne();
    EXPECT_FALSE(cut.arrived()) << "its file is being written";
    call(TestSparsePush(0, 0, 0, kManyRows), ManyRows(), push);
    {
      const FailAllocation fail(number, 16 << 10);
      executor_.RunOne();
    }
    ASSERT_TRUE(push.arrived());
    failed = push.code() == absl::StatusCode::kUnavailable;
    int operations = 0;
    files_.set_fault([&](FakeLogFileSystem::Operation, const std::string&) {
      ++operations;
      return absl::OkStatus();
    });
    executor_.RunAll();
    files_.set_fault(nullptr);
    ASSERT_TRUE(cut.arrived());
    if (failed) EXPECT_EQ(operations, 0);
  }
  EXPECT_TRUE(failed);
}

// Runs tasks in another one, and may find no memory to note them.
class ForgetfulExecutor final : public Executor {
 public:
  explicit ForgetfulExecutor(Executor& executor) : executor_(executor) {}
  void Add(std::function<void()> task) override {
    if (fails) throw std::bad_alloc();
    executor_.Add(std::move(task));
  }

  bool fails = false;

 private:
  Executor& executor_;
};

TEST_F(EngineMemoryTest, AnOperationThatCouldNotBeScheduledRunsWithTheNext) {
  ForgetfulExecutor forgetful(executor_);
  ShardEngine::Options options = Options();
  options.executor = &forgetful;
  Start(options);
  Open(TestDurableRequest());
  TestAnswer first;
  forgetful.fails = true;
  EXPECT_THROW(engine_->Execute(MakeTestCall(TestDensePull(0, 0, 0, 2), {}, first)),
               std::bad_alloc);
  forgetful.fails = false;
  ExpectValues(0, 1, 0.5);
  EXPECT_TRUE(first.arrived());
  // The executor ends before the engine that the fixture has would.
  engine_.reset();
}

// Later callers find the job's entry free, and do not wait for ever.
TEST_F(EngineMemoryTest, WhatFindsNoMemoryAtTellingOfAReplayHoldsNobodyUp) {
  ShardEngine::Options options = Options();
  bool fails = false;
  options.replayed = [&](const v1::ReplayStatus&) {
    if (fails) throw std::bad_alloc();
  };
  Start(options);
  Open(TestDurableRequest());
  Step(0, 1);
  Start(options);
  v1::OpenTablesRequest again = TestDurableRequest();
  again.set_expect_state(true);
  // First memory of the whole job, then of a partition that has failed.
  fails = true;
  EXPECT_THROW(engine_->OpenTables(again).IgnoreError(), std::bad_alloc);
  FailInTheTables();
  EXPECT_THROW(engine_->OpenTables(again).IgnoreError(), std::bad_alloc);
  fails = false;
  Open(again);
  ExpectValues(1, 0, -0.5);
}

TEST_F(EngineMemoryTest, AnAnswerThatFindsNoMemoryAtClosingAJobHoldsNobodyUp) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  v1::ExchangeRequest close = TestClose(0, 0, 0);
  close.mutable_close()->set_no_dense(true);
  v1::OpenTablesRequest next = request;
  next.set_generation(2);
  v1::DropTablesRequest drop;
  drop.set_job_id(request.job_id());
  drop.set_generation(1);
  for (const bool drops : {true, false}) {
    Open(request);
    Do(close);
    // They wait for the other slot.
    TestAnswer second;
    ExchangeCall first = MakeTestCall(TestDensePull(0, 1, 0, 2), {}, second);
    first.done = [](v1::ExchangeReply, Payload) { throw std::bad_alloc(); };
    engine_->Execute(std::move(first));
    engine_->Execute(MakeTestCall(TestDensePull(0, 1, 0, 2), {}, second));
    executor_.RunAll();
    EXPECT_FALSE(second.arrived());
    const absl::Status status =
        drops ? engine_->DropTables(drop) : engine_->OpenTables(next).status();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(second.arrived());
  }
}

TEST_F(EngineMemoryTest, ADropThatFindsNoMemoryFromTheStartLeavesOpeningsAlone) {
  // Further allocations are names of files, as of a move below.
  constexpr int kOfTheEngine = 3;
  v1::DropTablesRequest drop;
  drop.set_job_id("job");
  drop.set_generation(1);
  for (int number = 0; number < kOfTheEngine; ++number) {
    SCOPED_TRACE(number);
    Open(TestDurableRequest());
    {
      const FailAllocation fail(number);
      const absl::Status status =
          CatchOutOfMemory("a drop", [&] { return engine_->DropTables(drop); });
      EXPECT_TRUE(fail.happened());
      EXPECT_TRUE(absl::IsResourceExhausted(status));
    }
    Open(TestDurableRequest());
    ASSERT_TRUE(engine_->DropTables(drop).ok());
  }
}

// Smaller allocations of a move are names of files, whose formatting by Abseil bears no failure.
constexpr size_t kLeastOfMove = 128;

// Whether it is tried again or given up, the partition is whole at one of the two servers.
TEST(MoveMemoryTest, EveryAllocationOfAMoveMayFail) {
  int failures = 0;
  for (int number = 0;; ++number) {
    SCOPED_TRACE(number);
    MemoryStorage storage;
    TestServer from(storage), to(storage);
    ASSERT_EQ(from.Open(TestDurableRequest(), false), absl::StatusCode::kOk);
    ASSERT_EQ(from.Call(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8, 2))).code(),
              absl::StatusCode::kOk);
    ASSERT_EQ(from.Call(TestClose(0, 0, 0)).code(), absl::StatusCode::kOk);
    const PartitionMove move = TestMove(7);
    ASSERT_TRUE(from.mover().Permit({move}, {}).ok());
    absl::Status moved;
    bool happened;
    {
      const FailAllocation fail(number, kLeastOfMove);
      moved = Move(from, to, move);
      happened = fail.happened();
    }
    if (!happened) break;
    failures += !moved.ok();
    if (number % 2 == 0) {
      if (!moved.ok()) moved = Move(from, to, move);
      ASSERT_TRUE(moved.ok()) << moved;
      to.SetTerm(8);
      ASSERT_EQ(to.Open(TestDurableRequest()), absl::StatusCode::kOk);
      EXPECT_THAT(to.Call(TestDensePull(0, 1, 0, 2)).floats(), Each(-1));
    } else {
      const absl::Status resumed = from.mover().Permit({}, {});
      ASSERT_TRUE(resumed.ok()) << resumed;
      ASSERT_TRUE(to.mover().Release(move).ok());
      ASSERT_EQ(from.Open(TestDurableRequest()), absl::StatusCode::kOk);
      EXPECT_THAT(from.Call(TestDensePull(0, 1, 0, 2)).floats(), Each(-1));
    }
  }
  EXPECT_GT(failures, 40);
}

}  // namespace
}  // namespace muster
