// What goes over the wire when: pulls and pushes overlap with the steps' arithmetic.
#include "worker/strategy/servers/parameter_server_strategy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/rpc/retry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Ne;
using ::testing::SizeIs;

constexpr int kUnits = 3;
// Elements of each unit's tensor, and the message that has all of it.
constexpr int kElements = 8;

// What arrived at the server, and the answers that it holds back.
class Wire {
 public:
  void Arrive(const v1::ExchangeRequest& request, const Payload& payload,
              ParameterClient::Done done) {
    const size_t bytes = payload.size();
    absl::MutexLock lock(&mutex_);
    if (request.has_close()) {
      EXPECT_EQ(request.close().loss_scale().overflowed(), request.close().examples() == 0);
      arrived_.push_back(request.close().examples() > 0 ? "close" : "close of an overflow");
    } else if (request.has_sparse_pull()) {
      arrived_.push_back(absl::StrCat("rows ", request.sparse_pull().rows()));
    } else if (request.has_dense_pull()) {
      arrived_.push_back(absl::StrCat("pull ", request.dense_pull().first_block()));
    } else if (request.has_clip()) {
      const bool has_scale = request.clip().has_scale();
      arrived_.push_back(has_scale ? absl::StrCat("scale ", request.clip().scale()) : "norms");
      held_.push_back({has_scale ? 0 : norms_ * sizeof(double), request.clock(), std::move(done)});
      return;
    } else if (request.dense_push().examples() == 0) {
      std::vector<std::byte> content(bytes);
      payload.CopyTo(content.data());
      EXPECT_THAT(content, Each(std::byte{0}));
      arrived_.push_back(
          absl::StrCat("nothing ", request.dense_push().first_block(), " of ", bytes, " bytes"));
    } else {
      arrived_.push_back(
          absl::StrCat("push ", request.dense_push().first_block(), " of ", bytes, " bytes"));
      last_push_.resize(bytes);
      payload.CopyTo(last_push_.data());
    }
    const bool is_pull = request.has_dense_pull() || request.has_sparse_pull();
    held_.push_back({is_pull ? bytes_per_pull_ : 0, request.clock(), std::move(done)});
  }

  std::vector<std::string> TakeArrived() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(arrived_, {});
  }
  // Of those of some examples.
  std::vector<std::byte> last_push() {
    absl::MutexLock lock(&mutex_);
    return last_push_;
  }
  // The connection is lost before all that is held is answered.
  void LoseAll() {
    std::deque<Held> held;
    {
      absl::MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (Held& lost : held) lost.done(absl::UnavailableError("lost"));
  }
  // Answers the oldest. `released`: called when its payload goes.
  void AnswerOne(std::function<void()> released = nullptr) {
    Held held;
    {
      absl::MutexLock lock(&mutex_);
      held = std::move(held_.front());
      held_.pop_front();
    }
    auto reply = std::make_shared<v1::ExchangeReply>();
    reply->set_slowest_clock(held.clock - clocks_behind_);
    reply->set_already_applied(already_applied_);
    held.done(ExchangeResult{std::move(reply), MakePayload(held.bytes, std::move(released))});
  }
  void AnswerAll() {
    for (size_t left = held(); left > 0; --left) AnswerOne();
  }
  size_t held() {
    absl::MutexLock lock(&mutex_);
    return held_.size();
  }
  void set_bytes_per_pull(size_t bytes) { bytes_per_pull_ = bytes; }
  void set_norms(size_t norms) { norms_ = norms; }
  // Answers come from before the clock that they were asked at.
  void set_clocks_behind(uint64_t clocks) { clocks_behind_ = clocks; }
  void set_already_applied(bool applied) { already_applied_ = applied; }

 private:
  static Payload MakePayload(size_t bytes, std::function<void()> released) {
    auto* const values = new std::vector<std::byte>(bytes);
    return Payload({*values}, std::shared_ptr<const void>(values, [=](const void*) {
                     delete values;
                     if (released) released();
                   }));
  }

  struct Held {
    size_t bytes = 0;
    uint64_t clock = 0;
    ParameterClient::Done done;
  };

  absl::Mutex mutex_;
  std::vector<std::string> arrived_ ABSL_GUARDED_BY(mutex_);
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> last_push_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_per_pull_ = 0;
  size_t norms_ = 0;
  uint64_t clocks_behind_ = 0;
  bool already_applied_ = false;
};

class HoldingClient final : public ParameterClient {
 public:
  explicit HoldingClient(Wire& wire) : wire_(wire) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration) override {
    v1::OpenTablesReply reply;
    for (const v1::PartitionTerm& partition : request.partitions()) {
      v1::PartitionClocks* clocks = reply.add_partitions();
      clocks->set_partition(partition.partition());
      clocks->add_closed(0);
    }
    return reply;
  }
  absl::Status DropTables(const std::string&, absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration) override {
    return v1::GetServerStatsReply();
  }
  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    wire_.Arrive(request, payload, std::move(done));
  }
  void Abort(absl::Status) override {}

 private:
  Wire& wire_;
};

class ParameterServerStrategyTest : public ::testing::TestWithParam<v1::UpdateSpec::WireType> {
 protected:
  // One tensor and one block a unit, one table, one partition; the last unit reads the first one's
  // tensor, too. A row is as long as a tensor, and has a message of its own.
  ParameterServerStrategyTest() { MakeStrategy(kPullWindowBytes, kPushWindowBytes); }

  // Begins a step, to the point where its backward may begin.
  void PullAll(uint64_t clock) {
    ASSERT_EQ(strategy_->BeginStep(clock), absl::OkStatus());
    for (int unit = 0; unit < kUnits; ++unit) {
      wire_.AnswerAll();
      ASSERT_EQ(strategy_->Acquire(unit, Direction::kForward), absl::OkStatus());
    }
    wire_.TakeArrived();
  }

  void MakeStrategy(uint64_t pull_window_bytes, uint64_t push_window_bytes) {
    v1::TablesSchema schema;
    for (int unit = 0; unit < kUnits; ++unit) {
      v1::TensorSchema& tensor = *schema.add_tensors();
      tensor.set_name(absl::StrCat("w", unit));
      tensor.add_shape(kElements);
      tensor.set_unit(unit);
      tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    }
    v1::SparseTableSchema& table = *schema.add_sparse();
    table.set_name("rows");
    table.set_dim(kElements);
    table.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    v1::TensorSchema& tied = *schema.add_tensors();
    tied = schema.tensors(0);
    tied.set_name("tied");
    tied.set_unit(kUnits - 1);
    tied.set_tied_to("w0");
    schema.set_partitions(1);
    schema.set_block_bytes(1024);
    schema.mutable_optimizer()->set_name("sgd");
    schema.mutable_optimizer()->set_learning_rate(0.1f);
    schema.mutable_clipping()->set_by_global_norm(max_norm_);
    schema.mutable_schedule()->set_name("constant");
    schema.set_total_steps(10);
    v1::TaskOrder order;
    order.set_job_id("job");
    order.set_generation(1);
    order.set_incarnation(1);
    order.mutable_spec()->set_workers(1);
    order.mutable_spec()->mutable_update()->set_wire(GetParam());
    order.mutable_spec()->mutable_compute()->set_type(compute_);
    order.mutable_shard_map()->set_version(1);
    v1::Replica* replica = order.mutable_shard_map()->add_partitions()->add_replicas();
    replica->set_address("server");
    replica->set_role(v1::Replica::PRIMARY);
    replica->set_term(1);
    ShardRouterDependencies routing;
    routing.make_client = [this](const std::string&) {
      return std::make_unique<HoldingClient>(wire_);
    };
    routing.newest_shard_map = [map = order.shard_map()] { return map; };
    routing.log = [](absl::string_view) {};
    routing.clock = &clock_;
    routing.waiter = &waiter_;
    ParameterServerStrategy::Options options;
    options.max_message_bytes = kElements * sizeof(float);
    options.pull_window_bytes = pull_window_bytes;
    options.push_window_bytes = push_window_bytes;
    strategy_ = ParameterServerStrategy::Create(order, schema, options, std::move(routing)).value();
    EXPECT_EQ(strategy_->Start().value(), 0);
    wire_.set_bytes_per_pull(kElements * element_bytes());
  }

  size_t element_bytes() const { return GetParam() == v1::UpdateSpec::F32 ? 4 : 2; }
  std::string Push(int block) const {
    return absl::StrCat("push ", block, " of ", kElements * element_bytes(), " bytes");
  }

  v1::ComputeSpec::Type compute_ = v1::ComputeSpec::F32;
  float max_norm_ = 0;
  const RealClock clock_;
  RealWaiter waiter_;
  Wire wire_;
  std::unique_ptr<ParameterServerStrategy> strategy_;
};

TEST_P(ParameterServerStrategyTest, PullsComeFirstUnitFirstAndForwardWaitsForItsUnitAlone) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0", "pull 1", "pull 2"));
  // With later units' answers still to come.
  for (int unit = 0; unit < kUnits; ++unit) {
    wire_.AnswerOne();
    EXPECT_EQ(strategy_->Acquire(unit, Direction::kForward), absl::OkStatus());
    EXPECT_EQ(wire_.held(), kUnits - 1 - unit);
  }
  // And not before its own.
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  absl::Notification forward;
  std::thread trainer([&] {
    EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
    forward.Notify();
  });
  EXPECT_FALSE(forward.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  wire_.AnswerOne();
  trainer.join();
  EXPECT_EQ(wire_.held(), kUnits - 1);
  wire_.AnswerAll();
}

TEST_P(ParameterServerStrategyTest, AsksAsFarAsTheWindowAndForTheUnitThatIsNext) {
  MakeStrategy(2 * kElements * element_bytes(), kPushWindowBytes);
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(strategy_->BeginStep(step), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0", "pull 1"));
    wire_.AnswerAll();
    EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), IsEmpty());
    EXPECT_EQ(strategy_->Acquire(1, Direction::kForward), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 2"));
    // The same parameters once more, as for an evaluation.
    EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
    EXPECT_THAT(wire_.TakeArrived(), IsEmpty());
    wire_.AnswerAll();
    EXPECT_EQ(strategy_->Acquire(2, Direction::kForward), absl::OkStatus());
  }

  MakeStrategy(0, kPushWindowBytes);
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 0"));
  wire_.AnswerAll();
  EXPECT_EQ(strategy_->Acquire(0, Direction::kForward), absl::OkStatus());
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("pull 1"));
  wire_.AnswerAll();
}

TEST_P(ParameterServerStrategyTest, ABackwardBeforeAllParametersHaveComeIsRefused) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  for (int unit = 0; unit < kUnits; ++unit) {
    EXPECT_TRUE(absl::IsInternal(strategy_->BeforeBackward(4, SeriesPosition::kLast)));
    wire_.AnswerAll();
    ASSERT_EQ(strategy_->Acquire(unit, Direction::kForward), absl::OkStatus());
  }
  EXPECT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
}

TEST_P(ParameterServerStrategyTest, AUnitIsAcquiredWithWhatItsTensorsAreTiedTo) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  wire_.AnswerAll();
  ASSERT_EQ(strategy_->Acquire(1, Direction::kForward), absl::OkStatus());
  EXPECT_TRUE(absl::IsInternal(strategy_->BeforeBackward(4, SeriesPosition::kLast)));
  ASSERT_EQ(strategy_->Acquire(kUnits - 1, Direction::kForward), absl::OkStatus());
  // Unit 0's have come.
  EXPECT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_EQ(strategy_->parameters().values[kUnits], strategy_->parameters().values[0]);
}

// A server that has not ended the last clock may still read what was pushed at it.
TEST_P(ParameterServerStrategyTest, ASynchronousBackwardOverOldParametersIsRefused) {
  for (const uint64_t behind : {1, 0}) {
    wire_.set_clocks_behind(behind);
    PullAll(3);
    EXPECT_EQ(absl::IsInternal(strategy_->BeforeBackward(4, SeriesPosition::kLast)), behind > 0);
  }
}

TEST_P(ParameterServerStrategyTest, PushesLeaveAsUnitsFinishBackward) {
  PullAll(0);
  ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kMoreFollow), absl::OkStatus());
  EXPECT_EQ(strategy_->GradientStore(0), Accumulation::kWrite);
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
  }
  // The step's gradients are not complete yet.
  EXPECT_THAT(wire_.TakeArrived(), IsEmpty());
  ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
  EXPECT_EQ(strategy_->GradientStore(0), Accumulation::kAdd);
  for (int unit = kUnits - 1; unit >= 0; --unit) {
    ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    // Before earlier units have computed, and without an answer to what went before.
    EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(unit)));
    EXPECT_EQ(wire_.held(), kUnits - unit);
  }
  std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
  while (wire_.held() < kUnits + 1) std::this_thread::yield();
  EXPECT_THAT(wire_.TakeArrived(), ElementsAre("close"));
  wire_.AnswerAll();
  trainer.join();
}

TEST_P(ParameterServerStrategyTest, PushesWaitForAnswersBeyondTheWindow) {
  // Two units' pushes; and one unit's at least.
  for (const uint64_t units : {2, 0}) {
    MakeStrategy(kPullWindowBytes, units * kElements * element_bytes());
    const size_t most = std::max<size_t>(1, units);
    for (int step = 0; step < 2; ++step) {
      PullAll(step);
      ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
      EXPECT_EQ(strategy_->GradientStore(0), Accumulation::kWrite);
      wire_.TakeArrived();
      std::thread trainer([&] {
        for (int unit = kUnits - 1; unit >= 0; --unit) {
          EXPECT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
        }
      });
      for (size_t left = kUnits; left > 0; --left) {
        while (wire_.held() < std::min(most, left)) std::this_thread::yield();
        EXPECT_LE(wire_.held(), most);
        wire_.AnswerOne();
      }
      trainer.join();
      std::thread end([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
      while (wire_.held() < 1) std::this_thread::yield();
      wire_.AnswerAll();
      end.join();
      EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(2), Push(1), Push(0), "close"));
    }
  }
}

// All of it leaves, so that the server misses nothing, and is nothing: not even what rounding of
// earlier steps owes.
TEST_P(ParameterServerStrategyTest, GradientsThatOverflowLeaveAsNothing) {
  compute_ = v1::ComputeSpec::F16;
  MakeStrategy(kPullWindowBytes, kPushWindowBytes);
  for (const bool overflows : {false, true, false}) {
    PullAll(0);
    ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
    for (int unit = 0; unit < kUnits; ++unit) {
      for (float& gradient : strategy_->gradients()[unit]) {
        gradient = 0.1f * strategy_->loss_scale();
      }
    }
    // That of the unit which backward comes to last.
    if (overflows) strategy_->gradients()[0][1] = NAN;
    for (int unit = kUnits - 1; unit >= 0; --unit) {
      EXPECT_THAT(wire_.TakeArrived(), IsEmpty()) << "before all were looked at";
      ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    }
    std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
    while (wire_.held() < kUnits + 1) std::this_thread::yield();
    if (overflows) {
      const std::string bytes = absl::StrCat(" of ", kElements * element_bytes(), " bytes");
      EXPECT_THAT(wire_.TakeArrived(), ElementsAre("nothing 2" + bytes, "nothing 1" + bytes,
                                                   "nothing 0" + bytes, "close of an overflow"));
    } else {
      EXPECT_THAT(wire_.TakeArrived(), ElementsAre(Push(2), Push(1), Push(0), "close"));
    }
    wire_.AnswerAll();
    trainer.join();
  }
}

// Whichever slot overflowed.
TEST_P(ParameterServerStrategyTest, AClockThatIsLeftOutHasNoGradientNorm) {
  max_norm_ = 2;
  MakeStrategy(kPullWindowBytes, kPushWindowBytes);
  for (const bool left_out : {false, true, false}) {
    PullAll(0);
    ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
    for (int unit = kUnits - 1; unit >= 0; --unit) {
      ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
    }
    // Of each block and of the table.
    wire_.set_norms(left_out ? 0 : kUnits + 1);
    std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
    for (const size_t answers : {kUnits + 1, 1, 1}) {
      while (wire_.held() < answers) std::this_thread::yield();
      wire_.AnswerAll();
    }
    trainer.join();
    EXPECT_THAT(wire_.TakeArrived(),
                ElementsAre(Push(2), Push(1), Push(0), "close", "norms", "scale 1"));
    EXPECT_EQ(strategy_->counters().gradient_norm.has_value(), !left_out);
  }
}

// Where another task of the slot had pushed the first step, what this one's rounding left belongs
// to nothing. Where its own push had to be sent again, it stays owed.
TEST_P(ParameterServerStrategyTest, WhatRoundingLeftGoesWithWhoPushedTheFirstStep) {
  for (const bool lost : {false, true}) {
    SCOPED_TRACE(lost);
    MakeStrategy(kPullWindowBytes, kPushWindowBytes);
    for (const uint64_t clock : {0, 1}) {
      wire_.set_already_applied(false);
      PullAll(clock);
      ASSERT_EQ(strategy_->BeforeBackward(4, SeriesPosition::kLast), absl::OkStatus());
      for (int unit = kUnits - 1; unit >= 0; --unit) {
        for (float& gradient : strategy_->gradients()[unit]) gradient = clock == 0 ? 0.1f : 0;
        ASSERT_EQ(strategy_->GradientReady(unit), absl::OkStatus());
      }
      std::thread trainer([&] { EXPECT_EQ(strategy_->EndStep(), absl::OkStatus()); });
      while (wire_.held() < kUnits + 1) std::this_thread::yield();
      wire_.set_already_applied(clock == 0);
      if (lost && clock == 0) {
        wire_.LoseAll();
        while (wire_.held() < kUnits + 1) std::this_thread::yield();
      }
      wire_.AnswerAll();
      trainer.join();
    }
    if (lost && GetParam() != v1::UpdateSpec::F32) {
      EXPECT_THAT(wire_.last_push(), Contains(Ne(std::byte{0})));
    } else {
      EXPECT_THAT(wire_.last_push(), Each(std::byte{0}));
    }
  }
}

TEST_P(ParameterServerStrategyTest, RowsThatWereLookedUpAreReleasedBeforeTheNextHaveCome) {
  ASSERT_EQ(strategy_->BeginStep(0), absl::OkStatus());
  wire_.AnswerAll();
  wire_.TakeArrived();
  MicroBatch micro_batch;
  micro_batch.sparse.resize(1);
  micro_batch.sparse[0].keys = {7, 8};
  ASSERT_EQ(strategy_->Prefetch(micro_batch), absl::OkStatus());
  ASSERT_THAT(wire_.TakeArrived(), ElementsAre("rows 1", "rows 1"));
  std::thread trainer([&] { EXPECT_EQ(strategy_->LookUp(micro_batch), absl::OkStatus()); });
  absl::Notification released;
  wire_.AnswerOne([&] { released.Notify(); });
  released.WaitForNotification();
  wire_.AnswerAll();
  trainer.join();
  EXPECT_THAT(micro_batch.sparse[0].rows, SizeIs(2 * kElements));
}

INSTANTIATE_TEST_SUITE_P(Types, ParameterServerStrategyTest,
                         ::testing::Values(v1::UpdateSpec::F32, v1::UpdateSpec::BF16,
                                           v1::UpdateSpec::F16),
                         [](const auto& info) {
                           return v1::UpdateSpec::WireType_Name(info.param);
                         });

}  // namespace
}  // namespace muster
