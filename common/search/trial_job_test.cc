#include "common/search/trial_job.h"

#include <string>

#include "common/job/validation/job_validator.h"
#include "common/search/rungs.h"
#include "common/search/search_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

google::protobuf::RepeatedPtrField<v1::Draw> OneDraw(const std::string& field,
                                                     const std::string& value) {
  google::protobuf::RepeatedPtrField<v1::Draw> draws;
  v1::Draw& draw = *draws.Add();
  draw.set_field(field);
  draw.set_value(value);
  return draws;
}

TEST(RungsTest, GrowByTheFactorUpToTheLastStep) {
  const auto steps = [](const std::string& fields) { return RungSteps(SmallSearch(fields)); };
  EXPECT_THAT(steps("asha { min_steps: 100 } job { stop { steps: 6400 } }"),
              ElementsAre(100, 400, 1600, 6400));
  EXPECT_THAT(steps("asha { min_steps: 3 reduction_factor: 2 } job { stop { steps: 10 } }"),
              ElementsAre(3, 6, 10));
  EXPECT_THAT(steps("asha { min_steps: 10 } job { stop { steps: 10 } }"), ElementsAre(10));
  EXPECT_THAT(steps("random {} job { stop { steps: 10 } }"), ElementsAre(10));
  // The product after the last would not fit.
  EXPECT_THAT(steps("asha { min_steps: 1 reduction_factor: 4294967295 } "
                    "job { stop { steps: 18446744073709551615 } }"),
              ElementsAre(1, 4294967295u, 18446744065119617025u, 18446744073709551615u));
}

TEST(TrialJobTest, RungsEndEarlyButScheduleAsTheLastAndResume) {
  const v1::SearchSpec spec = SmallSearch(
      "asha { min_steps: 5 reduction_factor: 2 } "
      "job { stop { steps: 20 } schedule { name: 'cosine' } initial_weights: 'other' }");
  const auto draws = OneDraw("optimizer.learning_rate", "0.25");
  const auto first = SpecOfTrial(spec, draws, {.search_id = "s-1", .trial = 7});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->name(), "sweep-7");
  EXPECT_EQ(first->labels().at("search"), "s-1");
  EXPECT_EQ(first->optimizer().learning_rate(), 0.25f);
  EXPECT_EQ(first->stop().steps(), 5);
  EXPECT_EQ(first->schedule().total_steps(), 20);
  EXPECT_EQ(first->initial_weights(), "other");
  EXPECT_TRUE(ValidateJob(*first).ok()) << ValidateJob(*first);

  const auto second =
      SpecOfTrial(spec, draws, {.search_id = "s-1", .trial = 7, .rung = 1, .previous_job = "j-3"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->stop().steps(), 10);
  EXPECT_EQ(second->schedule().total_steps(), 20);
  EXPECT_EQ(second->resume_from(), "j-3");
  EXPECT_EQ(second->initial_weights(), "");
  EXPECT_TRUE(ValidateJob(*second).ok()) << ValidateJob(*second);
}

TEST(TrialJobTest, DrawsSetWholeMessagesAndVariablesOfPrograms) {
  v1::SearchSpec spec = SmallSearch("random {}");
  const auto job =
      SpecOfTrial(spec, OneDraw("optimizer", "{name: adam, learning_rate: 0.5}"), {.trial = 1});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->optimizer().name(), "adam");
  EXPECT_EQ(job->stop().steps(), 10);

  *spec.mutable_job() = ProgramJob();
  const auto program =
      SpecOfTrial(spec, OneDraw("model.program.environment.RATE", "0.5"), {.trial = 1});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->model().program().environment().at("RATE"), "0.5");
}

TEST(TrialJobTest, AWrongValueNamesTheTrialAndTheField) {
  const auto job = SpecOfTrial(SmallSearch("random {}"), OneDraw("workers", "many"), {.trial = 3});
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr("trial 3: workers is \"many\"; expected a whole number"));
}

}  // namespace
}  // namespace muster
