#include "worker/data/sampling/steps.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::StopSpec Steps(uint64_t steps) {
  v1::StopSpec stop;
  stop.set_steps(steps);
  return stop;
}

v1::StopSpec Epochs(double epochs) {
  v1::StopSpec stop;
  stop.set_epochs(epochs);
  return stop;
}

void ExpectError(const absl::StatusOr<int64_t>& steps, const std::string& a,
                 const std::string& b = "") {
  EXPECT_EQ(steps.status().code(), absl::StatusCode::kInvalidArgument) << a;
  EXPECT_THAT(std::string(steps.status().message()), AllOf(HasSubstr(a), HasSubstr(b)));
}

// Batches of a job that goes on at a position.
StepBatches After(const DataPosition& position, int64_t batch_size) {
  return StepBatches({position}, batch_size);
}

TEST(TotalStepsTest, TakesStepsAsTheyAre) {
  EXPECT_EQ(TotalSteps(Steps(17), {100}, StepBatches(10)).value(), 17);
  EXPECT_EQ(TotalSteps(Steps(1000), {100}, StepBatches(100)).value(), 1000);
}

TEST(TotalStepsTest, CountsAStepBegunWhole) {
  EXPECT_EQ(TotalSteps(Epochs(1), {100}, StepBatches(10)).value(), 10);
  EXPECT_EQ(TotalSteps(Epochs(1), {101}, StepBatches(10)).value(), 11);
  EXPECT_EQ(TotalSteps(Epochs(2.5), {100}, StepBatches(10)).value(), 25);
  EXPECT_EQ(TotalSteps(Epochs(0.001), {100}, StepBatches(10)).value(), 1);
  // Fractions that binary numbers only come near to ask for no step more.
  EXPECT_EQ(TotalSteps(Epochs(0.1), {1000}, StepBatches(10)).value(), 10);
  EXPECT_EQ(TotalSteps(Epochs(0.7), {1000}, StepBatches(10)).value(), 70);
  EXPECT_EQ(TotalSteps(Epochs(1.1), {1'000'000}, StepBatches(100)).value(), 11'000);
}

TEST(TotalStepsTest, EpochsCountWhatAJobBeforeHasSeen) {
  const DataPosition half = {.clock = 5, .examples = 20};
  EXPECT_EQ(TotalSteps(Epochs(1), {40}, After(half, 8), half.clock).value(), 8);
  EXPECT_EQ(TotalSteps(Epochs(1), {40}, After(half, 20), half.clock).value(), 6);
  EXPECT_EQ(TotalSteps(Epochs(1), {40}, After(half, 2), half.clock).value(), 15);
  // As it would have gone on.
  EXPECT_EQ(TotalSteps(Epochs(1), {40}, After(half, 4), half.clock).value(), 10);
  EXPECT_EQ(TotalSteps(Epochs(1.1), {1'000'000},
                       After(DataPosition{.clock = 7, .examples = 1'099'900}, 100), 7)
                .value(),
            8);
  EXPECT_EQ(TotalSteps(Epochs(0.5), {40}, After(half, 8), half.clock).value(), 5)
      << "nothing is left";
  EXPECT_EQ(TotalSteps(Steps(6), {40}, After(half, 8), half.clock).value(), 6)
      << "steps are clocks";
  ExpectError(TotalSteps(Steps(6), {40}, After(DataPosition{5, int64_t{1} << 62}, 8), 5),
              "stop.steps", "2^62");
}

TEST(TotalStepsTest, CountsStepsOfAnyBatch) {
  StepBatches batches(10);
  batches.SetSize(4, 30);
  EXPECT_EQ(TotalSteps(Epochs(1), {100}, batches).value(), 6);
  EXPECT_EQ(TotalSteps(Epochs(0.3), {100}, batches).value(), 3);
  EXPECT_EQ(TotalSteps(Epochs(2), {100}, batches).value(), 10);
  batches.SetSize(5, 101);
  ExpectError(TotalSteps(Steps(3), {100}, batches), "batch_size is 101", "the 100 training");
}

TEST(TotalStepsTest, TokensTakeAsManyWholeStepsAsTheyNeed) {
  v1::StopSpec stop;
  stop.set_tokens(1000);
  const TrainingSize size = {.examples = 40, .tokens_each = 10};
  EXPECT_EQ(TotalSteps(stop, size, StepBatches(20)).value(), 5);
  EXPECT_EQ(TotalSteps(stop, size, StepBatches(30)).value(), 4) << "a step begun counts whole";
  EXPECT_EQ(TotalSteps(stop, size, After(DataPosition{.clock = 3, .examples = 60}, 10), 3).value(),
            7)
      << "a job before has seen 600 of them";
  stop.set_steps(3);
  ExpectError(TotalSteps(stop, size, StepBatches(20)), "stop.tokens 1000", "exactly one");
}

TEST(TotalStepsTest, AnEvaluationOnlyJobHasNone) {
  v1::StopSpec only_evaluates;
  only_evaluates.set_evaluate_only(true);
  EXPECT_EQ(TotalSteps(only_evaluates, {0}, StepBatches(0)).value(), 0);
  EXPECT_EQ(TotalSteps(only_evaluates, {100}, StepBatches(10)).value(), 0);
  ExpectError(TotalSteps(Steps(5), {0}, StepBatches(10)), "stop.steps is 5",
              "no training examples");
  ExpectError(TotalSteps(Epochs(1.5), {0}, StepBatches(10)), "stop.epochs is 1.5",
              "no training examples");
}

TEST(TotalStepsTest, WantsExactlyOneOfStepsAndEpochs) {
  ExpectError(TotalSteps(v1::StopSpec(), {100}, StepBatches(10)), "stop.steps is 0", "exactly one");
  v1::StopSpec both = Steps(3);
  both.set_epochs(2);
  ExpectError(TotalSteps(both, {100}, StepBatches(10)), "stop.steps is 3, stop.epochs 2",
              "exactly one");
}

TEST(TotalStepsTest, RefusesEpochsThatAreNoCount) {
  ExpectError(TotalSteps(Epochs(-1), {100}, StepBatches(10)), "stop.epochs is -1");
  ExpectError(TotalSteps(Epochs(std::numeric_limits<double>::quiet_NaN()), {100}, StepBatches(10)),
              "stop.epochs is nan");
  ExpectError(TotalSteps(Epochs(std::numeric_limits<double>::infinity()), {100}, StepBatches(10)),
              "stop.epochs is inf");
}

TEST(TotalStepsTest, RefusesABatchThatTheDataCannotFill) {
  ExpectError(TotalSteps(Steps(5), {100}, StepBatches(101)), "batch_size is 101",
              "the 100 training examples");
  ExpectError(TotalSteps(Epochs(5), {100}, StepBatches(101)), "batch_size is 101",
              "the 100 training examples");
  ExpectError(TotalSteps(Steps(5), {100}, StepBatches(0)), "batch_size is 0");
}

TEST(TotalStepsTest, RefusesMoreThanAPositionCanCount) {
  ExpectError(TotalSteps(Steps(~uint64_t{0}), {100}, StepBatches(10)), "stop.steps", "2^62");
  ExpectError(TotalSteps(Epochs(1e300), {100}, StepBatches(10)), "stop.epochs", "2^62");
}

}  // namespace
}  // namespace muster
