#include "server/shard/service/move_orders.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

// Cannot adopt partition 0, and can do all else.
class FakeMover final : public PartitionMover {
 public:
  absl::Status Permit(const std::vector<PartitionMove>& leaving,
                      const std::vector<PartitionMove>&) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(leaving.size(), 1u) << "called before orders came";
    ++permits_;
    return absl::OkStatus();
  }
  absl::Status HandOver(const PartitionMove&, ChunkSink) override { return absl::OkStatus(); }
  absl::Status Adopt(const PartitionMove& move,
                     absl::FunctionRef<absl::Status(ChunkSink)>) override {
    return move.partition == 0 ? absl::UnavailableError("its owner is away") : absl::OkStatus();
  }
  absl::Status Release(const PartitionMove&) override { return absl::OkStatus(); }

  bool AwaitPermits(int permits) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return permits_ >= permits; };
    return mutex_.AwaitWithTimeout(absl::Condition(&there), kLong);
  }

 private:
  absl::Mutex mutex_;
  int permits_ ABSL_GUARDED_BY(mutex_) = 0;
};

class NoSource final : public PartitionSource {
 public:
  absl::Status Fetch(const std::string&, const PartitionMove&, PartitionMover::ChunkSink) override {
    return absl::UnavailableError("there is nobody");
  }
  void Cancel() override {}
};

void Add(v1::MoveOrder::Kind kind, uint32_t partition, v1::HeartbeatReply& orders) {
  v1::MoveOrder& order = *orders.add_moves();
  order.set_job_id("job");
  order.set_generation(1);
  order.set_partition(partition);
  order.set_term(10 + partition);
  order.set_kind(kind);
}

class MoveOrdersTest : public ::testing::Test {
 protected:
  FakeMover mover_;
  NoSource source_;
  MoveOrders orders_{mover_, source_, [](absl::string_view) {}};
};

TEST_F(MoveOrdersTest, AnAdoptionThatFailsIsInNobodysWay) {
  absl::Mutex mutex;
  int reports = 0;
  orders_.SetReportSoon([&] {
    absl::MutexLock lock(&mutex);
    ++reports;
  });
  v1::HeartbeatReply orders;
  Add(v1::MoveOrder::HAND_OVER, 9, orders);
  for (uint32_t partition : {0, 1, 2}) Add(v1::MoveOrder::ADOPT, partition, orders);
  orders_.TakeOrders(orders);
  {
    absl::MutexLock lock(&mutex);
    const auto both = [&] { return reports == 2; };
    ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&both), kLong));
  }
  v1::HeartbeatRequest request;
  orders_.Report(request);
  ASSERT_EQ(request.moves_size(), 2);
  EXPECT_EQ(request.moves(0).partition(), 1u);
  EXPECT_EQ(request.moves(1).partition(), 2u);
  EXPECT_EQ(request.moves(1).state(), v1::MoveReport::ADOPTED);
}

TEST_F(MoveOrdersTest, TheMoverIsAskedAgainWhileOrdersStayTheSame) {
  v1::HeartbeatReply orders;
  Add(v1::MoveOrder::HAND_OVER, 9, orders);
  orders_.TakeOrders(orders);
  EXPECT_TRUE(mover_.AwaitPermits(3));
}

}  // namespace
}  // namespace muster
