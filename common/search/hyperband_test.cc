#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/search/brackets.h"
#include "common/search/next_step.h"
#include "common/search/rungs.h"
#include "common/search/search_run_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

constexpr char kHyperbandRate[] =
    " parameters { field: 'optimizer.learning_rate' uniform { min: 0.1 max: 1 } }";

v1::SearchRecord HyperbandSearch(const std::string& fields) {
  return RunningSearch(fields + kHyperbandRate);
}

// The loss of a trial's rung; few values, so that some are equal. Some jobs fail.
std::optional<double> HyperbandLoss(uint64_t seed, uint64_t trial, int rung) {
  const Philox random(seed, "loss", "test");
  if (random.Below(12, trial, 2 * rung) == 0) return std::nullopt;
  return static_cast<double>(random.Below(20, trial, 2 * rung + 1));
}

// A job: trial and last step.
using Jobs = std::set<std::pair<uint64_t, uint64_t>>;

// Algorithm 1 of Li and others (2018), bracket after bracket until all trials have begun. Failed
// trials have an infinite loss and are never among the top k.
Jobs PaperHyperband(double R, double eta, uint64_t trials, uint64_t seed) {
  Jobs jobs;
  const int s_max = static_cast<int>(std::floor(std::log(R) / std::log(eta) + 1e-9));
  const double B = (s_max + 1) * R;
  uint64_t drawn = 0;
  while (drawn < trials) {
    for (int s = s_max; s >= 0 && drawn < trials; --s) {
      const double n = std::ceil(B / R * std::pow(eta, s) / (s + 1) - 1e-9);
      std::vector<uint64_t> T;
      while (T.size() < n && drawn < trials) T.push_back(++drawn);
      const double begun = static_cast<double>(T.size());
      for (int i = 0; i <= s; ++i) {
        const double n_i = std::floor(begun * std::pow(eta, -i) + 1e-9);
        const double r_i = std::floor(R * std::pow(eta, i - s) + 1e-9);
        std::vector<std::pair<double, uint64_t>> L;
        for (const uint64_t t : T) {
          jobs.insert({t, static_cast<uint64_t>(r_i)});
          const std::optional<double> loss = HyperbandLoss(seed, t, i);
          if (loss.has_value()) L.push_back({*loss, t});
        }
        std::sort(L.begin(), L.end());
        L.resize(std::min(static_cast<double>(L.size()), std::floor(n_i / eta + 1e-9)));
        T.clear();
        for (const auto& [loss, t] : L) T.push_back(t);
      }
    }
  }
  return jobs;
}

Jobs JobsOf(const v1::SearchRecord& record) {
  Jobs jobs;
  for (int i = 0; i < record.trials_size(); ++i) {
    const std::vector<uint64_t> steps = TrialRungSteps(record.spec(), i + 1);
    for (int rung = 0; rung < record.trials(i).rungs_size(); ++rung) {
      EXPECT_TRUE(jobs.insert({i + 1, steps[rung]}).second);
    }
  }
  return jobs;
}

TEST(BracketsTest, AreThoseOfThePapersTable) {
  // Table 1 of the paper: R = 81, eta = 3.
  const v1::SearchSpec spec = SmallSearch("hyperband { min_steps: 1 } job { stop { steps: 81 } }");
  std::vector<uint64_t> trials;
  for (uint64_t first = 1; trials.size() < 6; first += trials.back()) {
    const Bracket bracket = BracketOf(spec, first);
    EXPECT_EQ(bracket.first_trial, first);
    EXPECT_EQ(BracketOf(spec, first + bracket.trials - 1).first_trial, first);
    trials.push_back(bracket.trials);
  }
  EXPECT_THAT(trials, ElementsAre(81, 34, 15, 8, 5, 81));
  EXPECT_EQ(NumberOfTrials(spec), 143u);
  EXPECT_THAT(TrialRungSteps(spec, 1), ElementsAre(1, 3, 9, 27, 81));
  EXPECT_THAT(TrialRungSteps(spec, 82), ElementsAre(3, 9, 27, 81));
  EXPECT_THAT(TrialRungSteps(spec, 143), ElementsAre(81));
}

TEST(BracketsTest, TheFirstRungHasTheLeastStepsAtLeast) {
  const auto rungs = [](const std::string& fields) { return RungSteps(SmallSearch(fields)); };
  EXPECT_THAT(rungs("hyperband { min_steps: 12 reduction_factor: 2 } job { stop { steps: 100 } }"),
              ElementsAre(12, 25, 50, 100));
  EXPECT_THAT(rungs("hyperband { min_steps: 13 reduction_factor: 2 } job { stop { steps: 100 } }"),
              ElementsAre(25, 50, 100));
  EXPECT_THAT(rungs("hyperband { min_steps: 100 } job { stop { steps: 100 } }"), ElementsAre(100));
  // The brackets of so many levels never fill; their numbers still fit.
  const v1::SearchSpec spec = SmallSearch(
      "hyperband { min_steps: 1 reduction_factor: 2 } job { stop { steps: 18446744073709551615 } "
      "}");
  EXPECT_EQ(GreatestLevel(spec), 63);
  EXPECT_EQ(BracketOf(spec, 10000).first_trial, 1u);
}

TEST(HyperbandTest, RunsThePapersJobsInAnyOrder) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Philox random(seed);
    const uint64_t factor = 2 + random.Below(3, 0);
    const uint64_t last = factor == 2 ? 16 : factor == 3 ? 27 : 64;
    const uint64_t trials = 1 + random.Below(120, 1);
    v1::SearchRecord record = HyperbandSearch(absl::StrCat(
        "hyperband { min_steps: 1 reduction_factor: ", factor, " } job { stop { steps: ", last,
        " } } trials: ", trials, " parallel: ", 1 + random.Below(9, 2)));
    const auto objective = [&](const v1::SearchTrial&, uint64_t trial, int rung) {
      return HyperbandLoss(seed, trial, rung);
    };
    EXPECT_EQ(RunSearchToEnd(seed, objective, record), SearchStep::Kind::kComplete);
    EXPECT_EQ(static_cast<uint64_t>(record.trials_size()), trials);
    EXPECT_EQ(JobsOf(record), PaperHyperband(last, factor, trials, seed)) << seed;
  }
}

TEST(HyperbandTest, MoreTrialsGoOnWithABracketThatWasCutShort) {
  const std::string fields =
      "hyperband { min_steps: 1 reduction_factor: 2 } job { stop { steps: 8 } } parallel: 3 ";
  const auto objective = [](const v1::SearchTrial&, uint64_t trial, int) {
    return std::optional<double>(static_cast<double>(100 - trial));
  };
  // The first bracket has 8 trials.
  v1::SearchRecord record = HyperbandSearch(fields + "trials: 5");
  EXPECT_EQ(RunSearchToEnd(1, objective, record), SearchStep::Kind::kComplete);
  EXPECT_EQ(JobsOf(record).size(), 5u + 2u + 1u);
  record.mutable_spec()->set_trials(8);
  EXPECT_EQ(RunSearchToEnd(2, objective, record), SearchStep::Kind::kComplete);
  // Trials 5 to 8 are the best four of eight; 4 and 5 had gone on when there were five.
  EXPECT_EQ(record.trials(7).rungs_size(), 4);
  EXPECT_EQ(record.trials(6).rungs_size(), 3);
  EXPECT_EQ(record.trials(5).rungs_size(), 2);
  EXPECT_EQ(record.trials(0).rungs_size(), 1);
  EXPECT_EQ(BestTrial(record), 8u);
}

TEST(HyperbandTest, BestTrialComparesLastStepsOverBrackets) {
  v1::SearchRecord record =
      HyperbandSearch("hyperband { min_steps: 1 reduction_factor: 2 } job { stop { steps: 2 } }");
  // Two brackets: two trials of 1 and 2 steps, then two trials of 2 steps.
  EXPECT_EQ(NumberOfTrials(record.spec()), 4u);
  const std::map<std::pair<uint64_t, int>, double> losses = {
      {{1, 0}, 0.1}, {{2, 0}, 0.2}, {{1, 1}, 5}, {{3, 0}, 4}, {{4, 0}, 6}};
  const auto objective = [&](const v1::SearchTrial&, uint64_t trial, int rung) {
    return std::optional<double>(losses.at({trial, rung}));
  };
  EXPECT_EQ(RunSearchToEnd(0, objective, record), SearchStep::Kind::kComplete);
  EXPECT_EQ(BestTrial(record), 3u);
}

TEST(HyperbandTest, KeepsToMaxStepsAndEndsWithTooManyFailures) {
  v1::SearchRecord record = HyperbandSearch(
      "hyperband { min_steps: 1 } job { stop { steps: 27 } } parallel: 4 max_steps: 40");
  const auto objective = [](const v1::SearchTrial&, uint64_t trial, int) {
    return std::optional<double>(static_cast<double>(trial));
  };
  EXPECT_EQ(RunSearchToEnd(3, objective, record), SearchStep::Kind::kComplete);
  uint64_t steps = 0;
  for (const v1::SearchTrial& trial : record.trials()) {
    for (const v1::TrialRung& rung : trial.rungs()) steps += rung.last_step() - rung.first_step();
  }
  EXPECT_LE(steps, 40u);
  // The next job would have been one of 6 steps, from step 3 to step 9.
  EXPECT_GT(steps, 34u);

  record =
      HyperbandSearch("hyperband { min_steps: 1 } job { stop { steps: 27 } } max_failed_trials: 2");
  const auto failing = [](const v1::SearchTrial&, uint64_t, int) {
    return std::optional<double>();
  };
  EXPECT_EQ(RunSearchToEnd(3, failing, record), SearchStep::Kind::kFail);
  EXPECT_EQ(record.trials_size(), 3);
}

}  // namespace
}  // namespace muster
