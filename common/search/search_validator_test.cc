#include "common/search/search_validator.h"

#include <string>

#include "common/search/search_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = "parameters { field: 'workers' integer { min: 1 max: 4 } } ";

std::string Refusal(const std::string& fields) {
  const absl::Status status = ValidateSearch(SmallSearch(fields));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fields;
  return std::string(status.message());
}

TEST(SearchValidatorTest, TakesWhatTheDocsShow) {
  for (const std::string fields :
       {"", "grid {}", "asha { min_steps: 2 }",
        "parameters { field: 'optimizer.learning_rate' log_uniform { min: 1e-4 max: 1 } "
        "             when { field: 'workers' equals: '2' } } "
        "parameters { field: 'optimizer.learning_rate' uniform { min: 1 max: 2 } "
        "             when { field: 'workers' equals: '3' } }",
        "parameters { field: 'model' choice { values: ['{mlp: {hidden: [4], classes: 3}}', "
        "             '{logistic_regression: {classes: 3}}'] } }"}) {
    const absl::Status status = ValidateSearch(SmallSearch(kGood + fields));
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(SearchValidatorTest, UnknownFieldsNameTheNearestAndValuesTheirType) {
  EXPECT_EQ(Refusal("parameters { field: 'optimizer.lerning_rate' uniform { max: 1 } }"),
            "parameters[0]: optimizer has no field \"lerning_rate\"; did you mean "
            "\"learning_rate\"?");
  EXPECT_THAT(Refusal("parameters { field: 'workers' uniform { min: 1 max: 4 } }"),
              HasSubstr("parameters[0]: workers is \"2.5\"; expected a whole number"));
  EXPECT_THAT(Refusal("parameters { field: 'workers' integer { min: -1 max: 4 } }"),
              HasSubstr("parameters[0]: workers is \"-1\"; expected a whole number"));
  EXPECT_THAT(Refusal("parameters { field: 'model.transformer.layers' integer { max: 4 } }"),
              HasSubstr("model.transformer and model.mlp are both given"));
}

TEST(SearchValidatorTest, RangesAreNotEmpty) {
  const std::string rate = "parameters { field: 'optimizer.learning_rate' ";
  EXPECT_EQ(Refusal(rate + "}"),
            "parameters[0] is without a range; give one of choice, uniform, log_uniform and "
            "integer");
  EXPECT_EQ(Refusal(rate + "choice {} }"),
            "parameters[0].choice.values is empty; give one at least");
  EXPECT_EQ(Refusal(rate + "uniform { min: 2 max: 2 } }"),
            "parameters[0].uniform is from 2 to 2; min must be a finite number below max");
  EXPECT_EQ(Refusal(rate + "uniform { min: nan max: 2 } }"),
            "parameters[0].uniform is from nan to 2; min must be a finite number below max");
  EXPECT_THAT(Refusal(rate + "log_uniform { max: 2 } }"),
              HasSubstr("log_uniform.min is 0; a logarithm needs a number above 0"));
  EXPECT_THAT(Refusal("parameters { field: 'workers' integer { min: 4 max: 3 } }"),
              HasSubstr("integer.min is 4; it must be at most max, 3"));
  EXPECT_THAT(Refusal("grid {} " + rate + "uniform { max: 2 } }"),
              HasSubstr("a grid tries each value; give them as choice.values"));
}

TEST(SearchValidatorTest, FieldsOfTheSearchItselfDoNotVary) {
  for (const std::string field : {"name", "owner", "namespace", "resume_from"}) {
    EXPECT_THAT(Refusal("parameters { field: '" + field + "' choice { values: 'a' } }"),
                HasSubstr("all trials have the search's own"));
  }
  const std::string steps = "parameters { field: 'stop.steps' integer { min: 1 max: 4 } } ";
  EXPECT_TRUE(ValidateSearch(SmallSearch(steps)).ok());
  EXPECT_THAT(Refusal(steps + "asha { min_steps: 2 }"), HasSubstr("the search's rungs decide"));
  EXPECT_THAT(Refusal(steps + "max_steps: 2"), HasSubstr("needs trials of equal length"));
  EXPECT_THAT(Refusal(std::string(kGood) + kGood), HasSubstr("parameters[0] varies it, too"));
}

TEST(SearchValidatorTest, ConditionsNameAnEarlierValue) {
  const auto when = [](const std::string& field, const std::string& value) {
    return Refusal(std::string(kGood) +
                   "parameters { field: 'batch_size' integer { min: 8 max: 9 } when { field: '" +
                   field + "' equals: '" + value + "' } }");
  };
  EXPECT_THAT(when("worker", "1"), HasSubstr("did you mean \"workers\"?"));
  EXPECT_THAT(when("batch_size", "8"), HasSubstr("name the field of an earlier parameter"));
  EXPECT_THAT(when("workers", "5"),
              HasSubstr("when.equals is \"5\"; give one of the values of workers"));
}

TEST(SearchValidatorTest, LimitsAndAlgorithmsFitTheJob) {
  const std::string good = kGood;
  EXPECT_THAT(Refusal(""), HasSubstr("parameters is a list of 0; give 1 to 64"));
  EXPECT_THAT(Refusal(good + "trials: 10001"), HasSubstr("it must be at most 10000"));
  EXPECT_THAT(Refusal(good + "asha {}"), HasSubstr("asha.min_steps is 0"));
  EXPECT_THAT(Refusal(good + "asha { min_steps: 2 } job { resume_from: 'other' }"),
              HasSubstr("job.resume_from is \"other\"; the rungs of `asha` count steps from 0"));
  EXPECT_THAT(Refusal(good + "asha { min_steps: 11 }"),
              HasSubstr("it must be from 1 to job.stop.steps, 10"));
  EXPECT_THAT(Refusal(good + "asha { min_steps: 1 reduction_factor: 1 }"),
              HasSubstr("at least 2, or 0 for 4"));
  EXPECT_THAT(
      Refusal(good + "objective { metric: 'auc' } job { evaluation { metric: 'accuracy' } }"),
      HasSubstr("the job's evaluations have accuracy and loss"));
  EXPECT_THAT(Refusal("grid {} parameters { field: 'seed' integer { max: 10000 } }"),
              HasSubstr("the grid has more than 10000 points"));
}

}  // namespace
}  // namespace muster
