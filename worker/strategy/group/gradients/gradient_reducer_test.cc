#include "worker/strategy/group/gradients/gradient_reducer.h"

#include <atomic>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/ranks_for_testing.h"

namespace muster {
namespace {

// Three units of one tensor each.
std::vector<TensorSpec> Tensors(int64_t elements) {
  std::vector<TensorSpec> tensors;
  for (uint32_t unit = 0; unit < 3; ++unit) {
    TensorSpec& tensor = tensors.emplace_back();
    tensor.name = std::string(1, 'a' + unit);
    tensor.shape = {elements};
    tensor.unit = unit;
  }
  return tensors;
}

std::vector<GradientBucket> Plan(const std::vector<TensorSpec>& tensors, uint64_t bucket_bytes) {
  return MakeBucketPlan(DenseLayout::Create(tensors, {}).value(), tensors,
                        {.first_bucket_bytes = bucket_bytes / 2, .bucket_bytes = bucket_bytes});
}

// A small integer, so that sums in any order, and of bf16, are exact.
float Value(int rank, uint64_t step, size_t i) {
  return static_cast<float>((i + step) % 7 * (rank + 1));
}

class GradientReducerTest : public ::testing::TestWithParam<std::tuple<int, DType, bool, bool>> {};

TEST_P(GradientReducerTest, SumsOverRanksStepAfterStep) {
  const auto [size, wire, deterministic, share_memory] = GetParam();
  constexpr int64_t kElements = 1000;
  const std::vector<GradientBucket> plan = Plan(Tensors(kElements), 1200);
  GradientReducerOptions options;
  options.wire = wire;
  options.deterministic = deterministic;
  TestRanks ranks(size, {.share_memory = share_memory});
  const int world = size;
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto reducer = GradientReducer::Create(*communicator, plan, 3 * kElements, options).value();
    const float all_ranks = world * (world + 1) / 2;
    for (uint64_t step = 0; step < 3; ++step) {
      for (int unit = 2; unit >= 0; --unit) {
        for (size_t i = unit * kElements; i < (unit + 1) * kElements; ++i) {
          reducer->gradients()[i] = Value(communicator->rank(), step, i);
        }
        reducer->UnitReady(unit);
      }
      ASSERT_EQ(reducer->Finish(), absl::OkStatus());
      for (size_t i = 0; i < 3 * kElements; ++i) {
        ASSERT_EQ(reducer->gradients()[i], (i + step) % 7 * all_ranks) << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, GradientReducerTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Bool(), ::testing::Bool()));

TEST(GradientReducerTrafficTest, IsTheRingsForBucketsOfSomeSize) {
  constexpr int64_t kElements = 1 << 16;
  const std::vector<GradientBucket> plan = Plan(Tensors(kElements), 1 << 19);
  for (const int size : {2, 3, 4}) {
    for (const DType wire : {DType::kF32, DType::kBf16}) {
      for (const bool deterministic : {false, true}) {
        TestRanks ranks(size);
        std::atomic<uint64_t> sent = 0, received = 0;
        ranks.Run([&](std::unique_ptr<Communicator> communicator) {
          auto reducer = GradientReducer::Create(*communicator, plan, 3 * kElements,
                                                 {.wire = wire, .deterministic = deterministic})
                             .value();
          const CollectiveTraffic before = communicator->traffic();
          ASSERT_EQ(reducer->Finish(), absl::OkStatus());
          sent += communicator->traffic().sent - before.sent;
          received += communicator->traffic().received - before.received;
        });
        EXPECT_EQ(sent, 2 * (size - 1) * 3 * kElements * SizeOf(wire));
        EXPECT_EQ(received, sent);
      }
    }
  }
}

// Waits until the call of that label has ended, and returns how; with the labels of all calls that
// had begun by then.
absl::Status AwaitBucket(const Communicator& communicator, const std::string& label,
                         std::vector<std::string>& begun) {
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (absl::Now() < deadline) {
    begun.clear();
    absl::Duration duration = absl::InfiniteDuration();
    absl::Status status;
    for (const RecordedCall& call : communicator.recorder().Calls()) {
      begun.push_back(call.label);
      if (call.label != label) continue;
      duration = call.duration;
      status = call.status;
    }
    if (duration != absl::InfiniteDuration()) return status;
    std::this_thread::yield();
  }
  return absl::DeadlineExceededError(label + " has not ended");
}

TEST(GradientReducerOverlapTest, ABucketIsReducedWhileBackwardIsInEarlierUnits) {
  constexpr size_t kElements = 100;
  const std::vector<GradientBucket> plan = {{200, 300, 2}, {100, 200, 1}, {0, 100, 0}};
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto reducer = GradientReducer::Create(*communicator, plan, 3 * kElements, {}).value();
    const absl::Span<float> gradients = reducer->gradients();
    for (int bucket = 0; bucket < 3; ++bucket) {
      const int unit = 2 - bucket;
      for (size_t i = unit * kElements; i < (unit + 1) * kElements; ++i) {
        gradients[i] = Value(communicator->rank(), 0, i);
      }
      reducer->UnitReady(unit);
      // The next unit's gradients are written when this one's are sums on both ranks.
      std::vector<std::string> begun;
      EXPECT_EQ(AwaitBucket(*communicator, absl::StrCat("bucket ", bucket), begun),
                absl::OkStatus());
      EXPECT_EQ(begun.back(), absl::StrCat("bucket ", bucket));
      ranks.AwaitAll();
    }
    ASSERT_EQ(reducer->Finish(), absl::OkStatus());
    for (size_t i = 0; i < 3 * kElements; ++i) ASSERT_EQ(gradients[i], i % 7 * 3) << i;
  });
}

TEST(GradientReducerRoundingTest, RoundsEachGradientAndTheSumOnce) {
  const std::vector<GradientBucket> plan = {{0, 1, 0}};
  TestRanks ranks(3);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto reducer = GradientReducer::Create(*communicator, plan, 1, {.wire = DType::kBf16}).value();
    // 1, then twice 2^-8: each alone would be lost next to 1 in bf16, their sum is not.
    reducer->gradients()[0] = communicator->rank() == 0 ? 1 : 0x1p-8f;
    ASSERT_EQ(reducer->Finish(), absl::OkStatus());
    EXPECT_EQ(reducer->gradients()[0], 1 + 0x1p-7f);
  });
}

TEST(GradientReducerFailureTest, ADeadRankEndsTheStepOnAllOthers) {
  const std::vector<GradientBucket> plan = Plan(Tensors(100), 400);
  TestRanks ranks(3);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto reducer = GradientReducer::Create(*communicator, plan, 300, {}).value();
    ranks.AwaitAll();
    if (communicator->rank() == 1) {
      reducer->UnitReady(2);
      ranks.Kill(1);
      return;
    }
    EXPECT_EQ(reducer->Finish().code(), absl::StatusCode::kUnavailable);
  });
}

TEST(GradientReducerFailureTest, AStepGivenUpHalfWayKeepsNobodyWaiting) {
  const std::vector<GradientBucket> plan = Plan(Tensors(100), 400);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto reducer = GradientReducer::Create(*communicator, plan, 300, {}).value();
    ranks.AwaitAll();
    reducer->UnitReady(2);
    // The other rank's first bucket may have gone through; the next cannot.
    if (communicator->rank() == 1) {
      reducer.reset();
      return;
    }
    EXPECT_FALSE(reducer->Finish().ok());
  });
}

TEST(GradientReducerFailureTest, NothingToReduceIsFine) {
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    auto reducer = GradientReducer::Create(*communicator, {}, 0, {}).value();
    reducer->UnitReady(0);
    EXPECT_EQ(reducer->Finish(), absl::OkStatus());
  });
}

// A computation that fails once it has left unit 1.
class FailingComputation final : public CallOrder {
 public:
  absl::Status FollowComputation() override {
    return ++asked_ == 1 ? absl::OkStatus() : absl::InternalError("it failed");
  }
  void* stream() const override { return nullptr; }

 private:
  int asked_ = 0;
};

TEST(GradientReducerOrderTest, NothingOfAFailedComputationLeaves) {
  constexpr int64_t kElements = 100;
  const std::vector<GradientBucket> plan = Plan(Tensors(kElements), 4 * kElements);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    FailingComputation computation;
    std::vector<float> gradients(3 * kElements, 1);
    auto reducer =
        GradientReducer::Create(*communicator, plan, gradients.size(),
                                {.gradients = absl::MakeSpan(gradients), .order = &computation})
            .value();
    for (int unit = 2; unit >= 0; --unit) reducer->UnitReady(unit);
    EXPECT_EQ(reducer->Finish(), absl::InternalError("it failed"));
    EXPECT_EQ(gradients.front(), 1) << "of unit 0";
    EXPECT_EQ(gradients.back(), 2) << "of unit 2, which had left before";
  });
}

}  // namespace
}  // namespace muster
