// The trainer asks what is decided while a job runs, and goes on with it.
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/adjustment.pb.h"
#include "proto/job.pb.h"
#include "proto/metrics.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/training/trainer_fixture_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::AdjustReply Decided(const std::vector<std::pair<uint64_t, double>>& factors) {
  v1::AdjustReply reply;
  for (const auto& [clock, factor] : factors) {
    v1::Adjustment& added = *reply.add_adjustments();
    added.set_clock(clock);
    added.set_rate_factor(factor);
  }
  return reply;
}

// A job whose batch of 32 is decided to be 64 from step 10 on, and the rate with it.
TEST_F(TrainerTest, BatchesGrowAsDecided) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_adaptive_batch()->set_max_batch_size(64);
  spec.mutable_adaptive_batch()->set_every_steps(10);
  spec.mutable_clipping()->set_measure_norm(true);
  spec.set_micro_batches(4);
  spec.mutable_schedule()->set_scaling("linear");
  spec.mutable_schedule()->set_base_batch_size(16);
  v1::AdjustReply grown = Decided({{10, 1}});
  grown.mutable_adjustments(0)->set_batch_size(64);
  coordinator_.OnAdjust(
      [&](const v1::AdjustRequest&) -> absl::StatusOr<v1::AdjustReply> { return grown; });
  const auto examples_from = [&](size_t report) {
    uint64_t examples = 0;
    const std::vector<v1::ReportProgressRequest> reports = coordinator_.progress();
    for (; report < reports.size(); ++report) examples += reports[report].examples();
    return examples;
  };
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_EQ(examples_from(0), 10 * 32 + 30 * 64);
  ASSERT_EQ(coordinator_.adjusts().size(), 3);
  EXPECT_EQ(coordinator_.adjusts()[0].clock(), 10);
  EXPECT_TRUE(coordinator_.adjusts()[0].has_noise_scale());
  const std::vector<double> factors = strategy_->rate_factors();
  ASSERT_EQ(factors.size(), 40);
  for (size_t clock = 0; clock < 40; ++clock) EXPECT_EQ(factors[clock], clock < 10 ? 1 : 2);
  // A task that begins later was told when it met the others.
  options_.adjustments = Adjustments(grown.adjustments());
  const size_t before = coordinator_.progress().size();
  ASSERT_EQ(Run(spec, /*start=*/25), absl::OkStatus());
  EXPECT_EQ(examples_from(before), 15 * 64);
}

// One of two workers is left: its share stays, in the usual micro-batches. Half of the batch of 32
// would be too little for these if it were divided as with all workers.
TEST_F(TrainerTest, AScaledBatchKeepsTheSharesOfRanks) {
  v1::JobSpec spec = MlpSpec();
  spec.set_workers(2);
  spec.set_min_workers(1);
  spec.set_scale_batch(true);
  spec.set_micro_batches(16);
  v1::AdjustReply scaled = Decided({{5, 1}});
  scaled.mutable_adjustments(0)->set_batch_size(16);
  options_.adjustments = Adjustments(scaled.adjustments());
  ASSERT_EQ(Run(spec, /*start=*/5), absl::OkStatus());
  uint64_t examples = 0;
  for (const v1::ReportProgressRequest& report : coordinator_.progress()) {
    examples += report.examples();
  }
  EXPECT_EQ(examples, 35 * 16);
}

TEST_F(TrainerTest, GoesOnWithWhatIsDecidedAfterAnEvaluation) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  spec.mutable_schedule()->mutable_plateau();
  options_.adjustments = Adjustments(Decided({{3, 0.5}}).adjustments());
  coordinator_.OnAdjust([](const v1::AdjustRequest& request) -> absl::StatusOr<v1::AdjustReply> {
    return request.clock() < 20 ? Decided({{3, 0.5}}) : Decided({{3, 0.5}, {20, 0.25}});
  });
  ASSERT_EQ(Run(spec), absl::OkStatus());
  std::vector<uint64_t> asked;
  for (const v1::AdjustRequest& request : coordinator_.adjusts()) asked.push_back(request.clock());
  EXPECT_THAT(asked, ElementsAre(10, 20, 30)) << "after the last step there is nothing to decide";
  const std::vector<double>& factors = strategy_->rate_factors();
  ASSERT_EQ(factors.size(), 40);
  for (size_t clock = 0; clock < 40; ++clock) {
    EXPECT_EQ(factors[clock], clock < 3 ? 1 : clock < 20 ? 0.5 : 0.25) << clock;
  }
  double least = 1;
  for (const v1::ReportProgressRequest& report : coordinator_.progress()) {
    for (const v1::ReportedSeries& series : report.series()) {
      if (series.name() != "train/learning_rate") continue;
      for (const v1::SeriesPoint& point : series.points()) least = std::min(least, point.last());
    }
  }
  EXPECT_FLOAT_EQ(least, 0.05);
}

TEST_F(TrainerTest, JobsWithNothingToDecideDoNotAsk) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  ASSERT_EQ(Run(spec), absl::OkStatus());
  EXPECT_THAT(coordinator_.adjusts(), IsEmpty());
}

TEST_F(TrainerTest, EndsItsRoundIfTheOthersMeetBeforeADecision) {
  v1::JobSpec spec = MlpSpec();
  spec.mutable_evaluation()->set_every_steps(10);
  spec.mutable_schedule()->mutable_plateau();
  coordinator_.OnAdjust([](const v1::AdjustRequest&) { return absl::CancelledError("meet"); });
  EXPECT_EQ(Run(spec).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(absl::IsCancelled(coordinator_status_));
}

}  // namespace
}  // namespace muster
