// Partitions that move between engines: what arrives, who answers, and what crashes at any point
// leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/checkpoint/memory_storage.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/partition_mover.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/fake_log_file.h"
#include "server/shard/storage/memory_store.h"
#include "server/shard/test_engine.h"
#include "server/shard/test_exchange.h"
#include "server/shard/test_executor.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A store whose disk can break.
class FlakyStore final : public ParameterStore {
 public:
  // Breaks before the next synced write, or right after it; nothing is read or written until Mend.
  enum class When { kBefore, kAfter };
  void BreakAtSync(When when) { break_ = when; }
  // Called after every read of a partition's metadata.
  void SetAtRead(std::function<void()> act) { at_read_ = std::move(act); }
  // Called once, before the next DropJob.
  void SetAtDrop(std::function<void()> act) { at_drop_ = std::move(act); }
  void Mend() {
    break_.reset();
    broken_ = false;
  }

  absl::Status Write(const StoreBatch& batch, Durability durability) override {
    const bool breaks = durability == Durability::kSync && break_.has_value();
    if (broken_ || (breaks && *break_ == When::kBefore)) {
      broken_ = true;
      return absl::UnavailableError("the disk is broken");
    }
    if (breaks) broken_ = true;
    return store_.Write(batch, durability);
  }
  absl::Status MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                        absl::Span<const uint64_t> keys, FoundVisitor visitor) const override {
    return store_.MultiGet(job, table, partition, keys, visitor);
  }
  absl::Status Scan(const std::string& job, uint32_t table, uint32_t partition,
                    ScanVisitor visitor) const override {
    return store_.Scan(job, table, partition, visitor);
  }
  absl::StatusOr<std::unique_ptr<StoreSnapshot>> Snapshot(const std::string& job, uint32_t table,
                                                          uint32_t partition) const override {
    return store_.Snapshot(job, table, partition);
  }
  absl::StatusOr<std::optional<std::string>> GetMeta(const std::string& job,
                                                     uint32_t partition) const override {
    if (broken_) return absl::UnavailableError("the disk is broken");
    auto found = store_.GetMeta(job, partition);
    if (at_read_) at_read_();
    return found;
  }
  absl::StatusOr<std::vector<uint32_t>> Partitions(const std::string& job) const override {
    return store_.Partitions(job);
  }
  absl::StatusOr<std::vector<std::string>> Jobs() const override { return store_.Jobs(); }
  absl::Status DropJob(const std::string& job) override {
    if (const auto act = std::exchange(at_drop_, nullptr)) act();
    return store_.DropJob(job);
  }

 private:
  MemoryStore store_;
  std::optional<When> break_;
  std::function<void()> at_read_;
  std::function<void()> at_drop_;
  bool broken_ = false;
};

// A server that can be killed, with a disk that outlives it.
class Server {
 public:
  explicit Server(MemoryStorage& storage, uint64_t log_bytes = uint64_t{1} << 30)
      : storage_(storage), log_bytes_(log_bytes) {
    Start();
  }

  void Start() {
    crash_at_.clear();
    at_point_ = nullptr;
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = "/logs";
    options.log_file_system = &files_;
    options.log_segment_bytes = 1 << 12;
    options.log_bytes = log_bytes_;
    options.checkpoint_storage = &storage_;
    options.executor = &executor_;
    options.crash_point = [this](absl::string_view point) {
      if (at_point_) at_point_(point);
      return point == crash_at_;
    };
    auto engine = ShardEngine::Create(std::move(options));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  // The process dies; what was not synced may be gone.
  void Kill(uint64_t seed) {
    executor_.RunAll();
    engine_.reset();
    files_.Crash(seed);
    Start();
  }
  void CrashAt(std::string point) { crash_at_ = std::move(point); }
  // Called at every point.
  void SetAtPoint(std::function<void(absl::string_view)> act) { at_point_ = std::move(act); }
  FlakyStore& store() { return *store_; }

  absl::StatusCode Open(v1::OpenTablesRequest request, bool expect_state = true) {
    request.set_expect_state(expect_state);
    return engine_->OpenTables(request).status().code();
  }

  TestAnswer Call(const v1::ExchangeRequest& request, Payload payload = {}) {
    TestAnswer answer;
    engine_->Execute(MakeTestCall(request, std::move(payload), answer));
    executor_.RunAll();
    return answer;
  }

  PartitionMover& mover() { return engine_->mover(); }
  ShardEngine& engine() { return *engine_; }
  TestExecutor& executor() { return executor_; }

 private:
  MemoryStorage& storage_;
  const uint64_t log_bytes_;
  const std::shared_ptr<FlakyStore> store_ = std::make_shared<FlakyStore>();
  FakeLogFileSystem files_;
  TestExecutor executor_;
  std::string crash_at_;
  std::function<void(absl::string_view)> at_point_;
  std::unique_ptr<ShardEngine> engine_;
};

PartitionMove TestMove(uint64_t term) {
  return {.job_id = "job", .generation = 1, .partition = 0, .term = term};
}

absl::Status Move(Server& from, Server& to, const PartitionMove& move) {
  return to.mover().Adopt(
      move, [&](PartitionMover::ChunkSink sink) { return from.mover().HandOver(move, sink); });
}

class PartitionMoveTest : public testing::Test {
 protected:
  void Do(Server& server, const v1::ExchangeRequest& request, Payload payload = {}) {
    const TestAnswer answer = server.Call(request, std::move(payload));
    ASSERT_TRUE(answer.arrived());
    ASSERT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
  }

  void Step(Server& server, uint64_t clock, float value) {
    Do(server, TestDensePush(0, clock, 0, 2), Floats(std::vector<float>(8, value)));
    Do(server, TestSparsePush(0, clock, 0, 1), KeysAndRows({5}, {value, value}));
    Do(server, TestClose(0, clock, 1));
  }

  absl::StatusCode PullCode(Server& server, uint64_t clock) {
    const TestAnswer answer = server.Call(TestDensePull(0, clock, 0, 2));
    return answer.arrived() ? answer.code() : absl::StatusCode::kUnknown;
  }

  void ExpectValues(Server& server, uint64_t clock, float dense, float row) {
    EXPECT_THAT(server.Call(TestDensePull(0, clock, 0, 2)).floats(), AllOf(SizeIs(8), Each(dense)));
    EXPECT_THAT(server.Call(TestSparsePull(0, clock, 1), KeysAndRows({5}, {})).floats(),
                AllOf(SizeIs(2), Each(row)));
  }

  MemoryStorage storage_;
  Server from_{storage_};
  Server to_{storage_};
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
  ASSERT_EQ(to_.Open(TestDurableRequest()), absl::StatusCode::kOk);
  ExpectValues(to_, 2, -1, -1.5);
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
  Server other(storage_);
  ASSERT_TRUE(Move(from_, other, move).ok());
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
    Server from(storage_), to(storage_);
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
    Server from(storage_, log_bytes), to(storage_, log_bytes);
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

// The coordinator's note of the move that is under way.
struct Note {
  PartitionMove move;
  size_t from = 0;
  size_t to = 0;
  enum { kCopying, kMoved, kGivenUp } state = kCopying;
};

// Three servers; a job whose one partition moves between them again and again while both of its
// slots train, and every server may crash at any point. A plain, never disturbed server does the
// same work once; in the end both hold the same bits.
class MovingHistory {
 public:
  explicit MovingHistory(uint64_t seed) : random_(seed) {
    // Some forget their logs often.
    const uint64_t log_bytes = Below(2) == 0 ? 2000 : uint64_t{1} << 30;
    for (int i = 0; i < 3; ++i) servers_.push_back(std::make_unique<Server>(storage_, log_bytes));
    request_ = TestDurableRequest();
    request_.set_slots(2);
    request_.mutable_update()->set_deterministic(true);
    EXPECT_EQ(servers_[0]->Open(request_, false), absl::StatusCode::kOk);
    EXPECT_EQ(reference_.Open(request_, false), absl::StatusCode::kOk);
  }

  void Run(uint64_t clocks) {
    for (uint64_t clock = 0; clock < clocks; ++clock) {
      for (uint32_t slot = 0; slot < 2; ++slot) {
        Work(TestDensePush(slot, clock, 0, 2), RandomFloats(8));
        const uint64_t key = Below(6);
        std::vector<float> row = {Number(), Number()};
        Work(TestSparsePush(slot, clock, 0, 1), KeysAndRows({key}, row));
        Work(TestClose(slot, clock, 1), {});
        if (HasFailure()) return;
      }
      if (Below(5) == 0) {
        for (uint32_t slot = 0; slot < 2; ++slot) Work(TestCut(slot, clock + 1), {});
      }
    }
    // Ends what is under way.
    while (move_.has_value() && !HasFailure()) Advance();
    Owner();
    const v1::ExchangeRequest dense = TestDensePull(0, clocks, 0, 2);
    EXPECT_EQ(Execute(dense, {}).floats(), reference_.Call(dense).floats());
    const v1::ExchangeRequest rows = TestSparsePull(0, clocks, 6);
    EXPECT_EQ(Execute(rows, KeysAndRows({0, 1, 2, 3, 4, 5}, {})).floats(),
              reference_.Call(rows, KeysAndRows({0, 1, 2, 3, 4, 5}, {})).floats());
  }

  int moved() const { return moved_; }
  int given_up() const { return given_up_; }
  int crashes() const { return crashes_; }

 private:
  static bool HasFailure() { return testing::Test::HasFailure(); }
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  float Number() { return static_cast<float>(Below(2000)) / 64 - 15; }
  Payload RandomFloats(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = Number();
    return Floats(values);
  }

  // Does an operation until it is done, as a task would, while the rest goes on.
  void Work(const v1::ExchangeRequest& request, const Payload& payload) {
    const TestAnswer expected = reference_.Call(request, payload);
    for (int attempt = 0; attempt < 1000 && !HasFailure(); ++attempt) {
      if (Below(3) == 0) Advance();
      const TestAnswer answer = Execute(request, payload);
      if (answer.arrived() && answer.code() == absl::StatusCode::kOk) {
        // A stray call to those who do not own it must change nothing.
        const size_t other = Below(3);
        if (other != owner_) {
          const TestAnswer stray = servers_[other]->Call(request, payload);
          ASSERT_TRUE(!stray.arrived() || stray.code() != absl::StatusCode::kOk ||
                      (move_.has_value() && other == move_->to));
        }
        return;
      }
      Owner();
    }
    FAIL() << "no success with " << request.ShortDebugString();
  }

  TestAnswer Execute(const v1::ExchangeRequest& request, const Payload& payload) {
    return servers_[owner_]->Call(request, payload);
  }

  // What tasks do when they are refused: open the tables where the shard map says.
  void Owner() { servers_[owner_]->Open(request_, true); }

  void Crash(size_t server) {
    ++crashes_;
    servers_[server]->Kill(random_());
    Order(server);
  }

  void Order(size_t server) {
    std::vector<PartitionMove> leaving, released;
    if (move_.has_value() && move_->state == Note::kCopying && move_->from == server) {
      leaving.push_back(move_->move);
    }
    if (move_.has_value() && move_->state == Note::kMoved && move_->from == server) {
      released.push_back(move_->move);
    }
    if (move_.has_value() && move_->state == Note::kGivenUp && move_->to == server) {
      released.push_back(move_->move);
    }
    ASSERT_TRUE(servers_[server]->mover().Permit(leaving, released).ok());
  }

  // One thing that the coordinator or a server does, with a crash now and then.
  void Advance() {
    if (!move_.has_value()) {
      move_.emplace();
      move_->from = owner_;
      move_->to = (owner_ + 1 + Below(2)) % 3;
      move_->move = TestMove(++term_);
      Order(owner_);
      return;
    }
    static const char* const kPoints[] = {"move_standing", "move_marked",  "move_deleted",
                                          "move_copied",   "move_adopted", "appended",
                                          "synced",        "base",         ""};
    Server& from = *servers_[move_->from];
    Server& to = *servers_[move_->to];
    if (Below(3) == 0) from.CrashAt(kPoints[Below(9)]);
    if (Below(3) == 0) to.CrashAt(kPoints[Below(9)]);
    switch (move_->state) {
      case Note::kCopying:
        if (Below(6) == 0) {
          move_->state = Note::kGivenUp;
          ++given_up_;
        } else if (Move(from, to, move_->move).ok() && Below(4) > 0) {
          move_->state = Note::kMoved;
          owner_ = move_->to;
          ++moved_;
        }
        break;
      case Note::kMoved:
        if (from.mover().Release(move_->move).ok()) move_.reset();
        break;
      case Note::kGivenUp:
        if (to.mover().Release(move_->move).ok()) move_.reset();
        break;
    }
    // A crash point may have passed: such a server is dead, whoever noticed.
    for (size_t server = 0; server < 3; ++server) {
      if (servers_[server].get() == &from || servers_[server].get() == &to || Below(20) == 0) {
        if (Below(2) == 0) {
          Crash(server);
        } else {
          Revive(server);
        }
      }
    }
  }

  // Kills the server if it has crashed at a point, as then it answers nobody.
  void Revive(size_t server) {
    servers_[server]->CrashAt("");
    Order(server);
    const TestAnswer answer = servers_[server]->Call(TestDensePull(0, 0, 0, 1));
    if (!answer.arrived()) Crash(server);
  }

  std::mt19937_64 random_;
  MemoryStorage storage_;
  MemoryStorage reference_storage_;
  Server reference_{reference_storage_};
  std::vector<std::unique_ptr<Server>> servers_;
  v1::OpenTablesRequest request_;
  size_t owner_ = 0;
  uint64_t term_ = 1;
  std::optional<Note> move_;
  int moved_ = 0;
  int given_up_ = 0;
  int crashes_ = 0;
};

TEST(PartitionMoveHistoryTest, RandomMovesAndCrashesLeaveTheSameBits) {
  int moved = 0, given_up = 0, crashes = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MovingHistory history(seed);
    history.Run(25);
    if (testing::Test::HasFailure()) return;
    moved += history.moved();
    given_up += history.given_up();
    crashes += history.crashes();
  }
  EXPECT_GT(moved, 100);
  EXPECT_GT(given_up, 50);
  EXPECT_GT(crashes, 200);
}

}  // namespace
}  // namespace muster
