#include "client/plan/step_order.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/plan/job_plans_for_testing.h"
#include "client/plan/plan_output.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the calls that start, one after another.
std::vector<std::string> Starts(const std::vector<OrderedAction>& order) {
  std::vector<std::string> starts;
  for (const OrderedAction& action : order) {
    starts.insert(starts.end(), action.starts.begin(), action.starts.end());
  }
  return starts;
}

std::vector<OrderedAction> OrderOf(const v1::JobSpec& spec) {
  const auto plan = PlanOf(spec);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto order = OrderOfStep(*plan);
  EXPECT_TRUE(order.ok()) << order.status();
  return *order;
}

// 4 ranks train two layers of 4 x 4. Sliced weights are gathered before they are read, each
// gradient is scattered once backward has left its unit, and only then do weights change.
TEST(StepOrderTest, IsThatOfTheWorkedExample) {
  const std::vector<OrderedAction> order = OrderOf(
      Job("model { mlp { hidden: 4 classes: 4 } } data { synthetic_classification { examples: 12 "
          "features: 4 classes: 4 } } optimizer { name: 'sgd' learning_rate: 0.1 } batch_size: 12 "
          "workers: 4 update { dense: ALL_REDUCE sparse: ALL_REDUCE } parallelism { zero { stage: "
          "3 } }"));
  std::vector<std::string> lines;
  for (const OrderedAction& action : order) {
    lines.push_back(action.action);
    if (action.unit >= 0) absl::StrAppend(&lines.back(), " ", action.unit);
    for (const std::string& call : action.starts) absl::StrAppend(&lines.back(), ": ", call);
  }
  EXPECT_THAT(
      lines,
      ElementsAre("begin step: gather 0", "load examples", "acquire 0: gather 1", "forward 0",
                  "release 0", "acquire 1", "begin backward", "forward and backward 1", "release 1",
                  "check loss", "gradients ready 1: scatter 1", "acquire 0", "backward 0",
                  "release 0", "gradients ready 0: scatter 0", "end step", "wait for the sums",
                  "agree on the step: gather counts", "step the own slices"));
}

TEST(StepOrderTest, GathersAsOftenAsIsPredicted) {
  v1::JobSpec spec = ByAllReduce("workers: 2 micro_batches: 3 " + Stage(3));
  spec.mutable_model()->mutable_transformer()->set_layers(5);
  const std::vector<std::string> starts = Starts(OrderOf(spec));
  // The embedding has a place of its own; blocks and the last unit share two. At each turn the two
  // units at hand are still in place.
  const auto times = [&](const std::string& call) {
    return std::count(starts.begin(), starts.end(), call);
  };
  EXPECT_EQ(times("gather 0"), 1);
  EXPECT_EQ(times("gather 1"), 4);
  EXPECT_EQ(times("gather 3"), 6);
  EXPECT_EQ(times("gather 6"), 3);
  for (int unit = 0; unit <= 6; ++unit) EXPECT_EQ(times(absl::StrCat("scatter ", unit)), 3) << unit;
}

TEST(StepOrderTest, GathersKeptUnitsOnce) {
  const auto starts = [](uint64_t kept_bytes) {
    v1::JobSpec spec = ByAllReduce("workers: 2 micro_batches: 3 " + Stage(3));
    spec.mutable_model()->mutable_transformer()->set_layers(5);
    spec.mutable_parallelism()->mutable_zero()->set_keep_gathered_bytes(kept_bytes);
    return Starts(OrderOf(spec));
  };
  const auto times = [](const std::vector<std::string>& calls, int unit) {
    return std::count(calls.begin(), calls.end(), absl::StrCat("gather ", unit));
  };
  // A block has about 50,000 parameters, so there is room for two, and for the last unit's gain.
  // Three blocks share two places.
  const std::vector<std::string> two = starts(450'000);
  for (const int unit : {0, 1, 2, 4, 6}) EXPECT_EQ(times(two, unit), 1) << unit;
  EXPECT_EQ(times(two, 3), 4);
  EXPECT_EQ(times(two, 5), 3);
  const std::vector<std::string> all = starts(1 << 30);
  for (int unit = 0; unit <= 6; ++unit) EXPECT_EQ(times(all, unit), 1) << unit;
}

TEST(StepOrderTest, EachStageExchangesInItsOwnPlace) {
  const std::string two = "workers: 2 micro_batches: 2 ";
  EXPECT_THAT(Starts(OrderOf(ByAllReduce(two + Stage(1)))),
              ElementsAre("scatter 3", "scatter 2", "scatter 1", "scatter 0", "gather counts",
                          "gather 0", "gather 1", "gather 2", "gather 3"));
  EXPECT_THAT(Starts(OrderOf(ByAllReduce(two + Stage(2)))),
              ElementsAre("scatter 3", "scatter 2", "scatter 1", "scatter 0", "scatter 3",
                          "scatter 2", "scatter 1", "scatter 0", "gather counts", "gather 0",
                          "gather 1", "gather 2", "gather 3"));
  EXPECT_THAT(
      Starts(OrderOf(ByAllReduce("workers: 2 parallelism { zero { stage: 3 redundancy: 1 } }"))),
      testing::IsSupersetOf({"move slices", "gather counts"}));
  EXPECT_EQ(OrderOf(ByAllReduce("workers: 2 parallelism { zero { stage: 1 redundancy: 1 } }"))
                .back()
                .action,
            "step the copies");
  const std::vector<std::string> clipped =
      Starts(OrderOf(ByAllReduce("workers: 4 parallelism { zero { stage: 1 shard: 2 } } "
                                 "clipping { by_global_norm: 1 }")));
  EXPECT_THAT(clipped, Contains("all-reduce slices"));
  EXPECT_THAT(clipped, Contains("gather norms"));
  EXPECT_THAT(Starts(OrderOf(ByAllReduce(two))),
              ElementsAre("all-reduce bucket 0", "gather counts"));
  EXPECT_THAT(Starts(OrderOf(Gpt(two))), ElementsAre("pull 0", "pull 1", "pull 2", "pull 3",
                                                     "push 3", "push 2", "push 1", "push 0"));
  EXPECT_THAT(Starts(OrderOf(ByAllReduce("workers: 1"))), IsEmpty());
}

// Units in flight are pulled as they are gathered, and each micro-batch's gradients are pushed: two
// blocks and the head share two places, and the embedding, to which the head is tied, has its own.
TEST(StepOrderTest, ServersGiveUnitsInFlightWhenTheyAreAcquired) {
  std::vector<std::string> lines;
  for (const OrderedAction& action :
       OrderOf(Gpt("workers: 2 micro_batches: 2 parallelism { zero { stage: 3 } } "))) {
    if (action.starts.empty()) continue;
    lines.push_back(action.action);
    if (action.unit >= 0) absl::StrAppend(&lines.back(), " ", action.unit);
    for (const std::string& call : action.starts) absl::StrAppend(&lines.back(), ": ", call);
  }
  const std::vector<std::string> backward = {
      "gradients ready 3: push 3", "acquire 2: pull 1", "gradients ready 2: push 2",
      "gradients ready 1: push 1", "gradients ready 0: push 0"};
  std::vector<std::string> expected = {"begin step: pull 0", "acquire 0: pull 1",
                                       "acquire 1: pull 2", "acquire 2: pull 3"};
  expected.insert(expected.end(), backward.begin(), backward.end());
  expected.push_back("acquire 2: pull 3");
  expected.insert(expected.end(), backward.begin(), backward.end());
  EXPECT_THAT(lines, ElementsAreArray(expected));
}

// Ranks of a layer whose backward is in two parts gather again what the second one multiplies.
TEST(StepOrderTest, ShowsTheCallsOfASplitBackward) {
  const auto starts = [](const std::string& name) {
    for (const OrderedAction& action :
         OrderOf(ByAllReduce("workers: 4 micro_batches: 2 parallelism { pipeline: 2 tensor: 2 "
                             "pipeline_schedule: ZERO_BUBBLE } "))) {
      if (action.action == name && action.unit == 1) return action.starts;
    }
    return std::vector<std::string>();
  };
  EXPECT_THAT(starts("backward of input"),
              ElementsAre("gather gradients", "scatter sums", "gather gradients", "scatter sums"));
  EXPECT_THAT(starts("backward of weights"),
              ElementsAre("gather gradients", "gather rows", "gather gradients", "gather rows"));
}

// Two stages of two units, in 1F1B order. The embedding is in both stages, which is tied to the
// head.
TEST(StepOrderTest, ShowsEachStageOfAPipeline) {
  const std::string two =
      "workers: 2 micro_batches: 2 parallelism { pipeline: 2 pipeline_layers: [2, 2] } ";
  const std::vector<OrderedAction> order = OrderOf(ByAllReduce(two));
  std::vector<std::string> messages[2], ends[2];
  for (const OrderedAction& action : order) {
    ASSERT_TRUE(action.stage == 0 || action.stage == 1) << action.stage;
    if (action.action == "forward") EXPECT_EQ(action.unit / 2, action.stage);
    if (action.micro_batch < 0) ends[action.stage].push_back(action.action);
    for (const std::string& start : action.starts) {
      if (absl::StrContains(start, " stage ")) {
        messages[action.stage].push_back(absl::StrCat(action.micro_batch, ": ", start));
      }
    }
  }
  EXPECT_THAT(messages[0],
              ElementsAre("0: to stage 1", "1: to stage 1", "0: from stage 1", "1: from stage 1"));
  EXPECT_THAT(messages[1],
              ElementsAre("0: from stage 0", "1: from stage 0", "0: to stage 0", "1: to stage 0"));
  for (const auto& end : ends) EXPECT_THAT(end, Contains("sum with the other stage"));
  EXPECT_THAT(Starts(OrderOf(Gpt(two))),
              ElementsAre("pull 0", "pull 1", "to stage 1", "to stage 1", "from stage 1",
                          "from stage 1", "push 1", "receive tied sums", "push 0", "pull 2",
                          "pull 3", "from stage 0", "from stage 0", "to stage 0", "send tied sums",
                          "push 3", "push 2", "to stage 0"));
  const auto plan = PlanOf(ByAllReduce(two));
  EXPECT_THAT(OrderText(*plan, order), AllOf(HasSubstr("One step of each worker of stage 0\n"),
                                             HasSubstr("One step of each worker of stage 1\n")));
  EXPECT_EQ(nlohmann::json::parse(OrderJson(order)).back()["stage"], 1);
}

TEST(StepOrderTest, FitsATerminal) {
  const auto plan = PlanOf(ByAllReduce("workers: 2 " + Stage(1)));
  const std::string text = OrderText(*plan, *OrderOfStep(*plan));
  EXPECT_THAT(text, HasSubstr("by all-reduce, zero stage 1 over 2 ranks"));
  EXPECT_THAT(text, ContainsRegex("0 +acquire +1 block0"));
  EXPECT_THAT(text, HasSubstr("gather 0, …, gather 3"));
  const std::string table = text.substr(text.find("One step"));
  // The ellipsis takes three bytes.
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    EXPECT_LE(line.size(), 82) << line;
  }
  const auto json = nlohmann::json::parse(OrderJson(*OrderOfStep(*plan)));
  EXPECT_EQ(json.back()["starts"][3], "gather 3");
}

TEST(StepOrderTest, RefusesWhatNobodyReads) {
  v1::JobSpec spec = ByAllReduce("workers: 2");
  spec.mutable_model()->mutable_transformer()->set_layers(500);
  EXPECT_THAT(std::string(OrderOfStep(*PlanOf(spec)).status().message()),
              HasSubstr("fewer layers or micro-batches"));
}

}  // namespace
}  // namespace muster
