#include "common/search/next_step.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/philox.h"
#include "common/search/rungs.h"
#include "common/search/search_for_testing.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using Kind = SearchStep::Kind;

v1::SearchRecord Running(const std::string& fields) {
  v1::SearchRecord record;
  *record.mutable_spec() = SmallSearch(
      fields + " parameters { field: 'optimizer.learning_rate' uniform { min: 0.1 max: 1 } }");
  record.set_state(v1::SEARCH_RUNNING);
  return record;
}

// Records that a job of a step has begun.
void Record(const SearchStep& step, v1::SearchRecord& record) {
  while (static_cast<uint64_t>(record.trials_size()) < step.trial) record.add_trials();
  v1::TrialRung& rung = *record.mutable_trials(static_cast<int>(step.trial) - 1)->add_rungs();
  const std::vector<uint64_t> steps = RungSteps(record.spec());
  rung.set_first_step(step.rung == 0 ? 0 : steps[step.rung - 1]);
  rung.set_last_step(steps[step.rung]);
}

// Begins the next job, which must be this one.
void Begin(Kind kind, uint64_t trial, int rung, v1::SearchRecord& record) {
  const SearchStep step = NextStep(record);
  ASSERT_EQ(step.kind, kind);
  ASSERT_EQ(step.trial, trial);
  ASSERT_EQ(step.rung, rung);
  Record(step, record);
}

void End(uint64_t trial, double objective, v1::SearchRecord& record) {
  v1::SearchTrial& ended = *record.mutable_trials(static_cast<int>(trial) - 1);
  ended.mutable_rungs(ended.rungs_size() - 1)->set_objective(objective);
}

// Algorithm 2 of Li and others (2018), which keeps its rungs and promotions as the paper does.
class PaperAsha {
 public:
  PaperAsha(int rungs, int factor, bool maximizes)
      : factor_(factor), maximizes_(maximizes), rungs_(rungs), promoted_(rungs) {}

  std::pair<uint64_t, int> GetJob(uint64_t most) {
    for (int k = static_cast<int>(rungs_.size()) - 2; k >= 0; --k) {
      const size_t top = rungs_[k].size() / factor_;
      size_t place = 0;
      for (const auto& [loss, trial] : rungs_[k]) {
        if (place++ == top) break;
        if (promoted_[k].insert(trial).second) return {trial, k + 1};
      }
    }
    if (drawn_ == most) return {0, 0};
    return {++drawn_, 0};
  }

  void Report(uint64_t trial, int rung, double objective) {
    rungs_[rung].insert({maximizes_ ? -objective : objective, trial});
  }

 private:
  const int factor_;
  const bool maximizes_;
  uint64_t drawn_ = 0;
  // Losses with trials, lowest first.
  std::vector<std::set<std::pair<double, uint64_t>>> rungs_;
  std::vector<std::set<uint64_t>> promoted_;
};

TEST(NextStepTest, DecidesAsThePapersPseudoCodeOnRandomTables) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Philox random(seed);
    uint64_t drawn = 0;
    const auto below = [&](uint64_t bound) { return random.Below(bound, drawn++); };
    const bool maximizes = seed % 2 == 1;
    const int factor = 2 + static_cast<int>(below(3));
    v1::SearchRecord record = Running(
        "trials: 40 asha { min_steps: 1 } job { stop { steps: 64 } } objective { direction: " +
        std::string(maximizes ? "MAXIMIZE" : "MINIMIZE") + " }");
    record.mutable_spec()->mutable_asha()->set_reduction_factor(factor);
    record.mutable_spec()->set_parallel(1 + below(6));
    PaperAsha paper(static_cast<int>(RungSteps(record.spec()).size()), factor, maximizes);
    std::vector<std::pair<uint64_t, int>> jobs;
    while (true) {
      if (jobs.size() < record.spec().parallel()) {
        const SearchStep step = NextStep(record);
        const std::pair<uint64_t, int> expected = paper.GetJob(40);
        if (expected.first == 0) {
          ASSERT_EQ(step.kind, jobs.empty() ? Kind::kComplete : Kind::kWait);
          if (jobs.empty()) break;
        } else {
          ASSERT_EQ(std::pair(step.trial, step.rung), expected) << seed;
          ASSERT_EQ(step.kind, step.rung == 0 ? Kind::kBegin : Kind::kPromote);
          Record(step, record);
          jobs.push_back(expected);
          if (below(3) > 0) continue;
        }
      } else {
        ASSERT_EQ(NextStep(record).kind, Kind::kWait);
      }
      const size_t ends = below(jobs.size());
      const auto [trial, rung] = jobs[ends];
      jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(ends));
      if (below(10) == 0) {
        record.mutable_trials(static_cast<int>(trial) - 1)->set_failure("diverged");
        continue;
      }
      // There are few values, so that some are equal.
      const double objective = static_cast<double>(below(12));
      End(trial, objective, record);
      paper.Report(trial, rung, objective);
    }
    EXPECT_EQ(record.trials_size(), 40);
  }
}

TEST(NextStepTest, RandomSearchRunsEachTrialOnce) {
  v1::SearchRecord record = Running("trials: 2 random {}");
  Begin(Kind::kBegin, 1, 0, record);
  EXPECT_EQ(NextStep(record).kind, Kind::kWait);
  End(1, 0.5, record);
  Begin(Kind::kBegin, 2, 0, record);
  EXPECT_EQ(NextStep(record).kind, Kind::kWait);
  EXPECT_EQ(BestTrial(record), 1u);
  End(2, 0.25, record);
  EXPECT_EQ(NextStep(record).kind, Kind::kComplete);
  EXPECT_EQ(BestTrial(record), 2u);
}

TEST(NextStepTest, AGridEndsWithItsPoints) {
  v1::SearchRecord record;
  *record.mutable_spec() =
      SmallSearch("grid {} parameters { field: 'workers' integer { min: 1 max: 2 } }");
  record.set_state(v1::SEARCH_RUNNING);
  Begin(Kind::kBegin, 1, 0, record);
  End(1, 1, record);
  Begin(Kind::kBegin, 2, 0, record);
  End(2, 1, record);
  EXPECT_EQ(NextStep(record).kind, Kind::kComplete);
}

TEST(NextStepTest, ASearchWithTooManyFailedTrialsFails) {
  v1::SearchRecord record = Running("random {} max_failed_trials: 1");
  Begin(Kind::kBegin, 1, 0, record);
  record.mutable_trials(0)->set_failure("loss is nan");
  Begin(Kind::kBegin, 2, 0, record);
  record.mutable_trials(1)->set_failure("loss is nan");
  EXPECT_EQ(NextStep(record).kind, Kind::kFail);
}

TEST(NextStepTest, NothingBeginsBeyondTheMostSteps) {
  // Trials take 10 steps.
  v1::SearchRecord record = Running("random {} max_steps: 25");
  Begin(Kind::kBegin, 1, 0, record);
  End(1, 1, record);
  Begin(Kind::kBegin, 2, 0, record);
  EXPECT_EQ(NextStep(record).kind, Kind::kWait);
  End(2, 1, record);
  EXPECT_EQ(NextStep(record).kind, Kind::kComplete);
  record.mutable_spec()->set_max_steps(30);
  Begin(Kind::kBegin, 3, 0, record);
}

TEST(NextStepTest, APausedSearchWaits) {
  v1::SearchRecord record = Running("random {}");
  record.set_state(v1::SEARCH_PAUSED);
  EXPECT_EQ(NextStep(record).kind, Kind::kWait);
}

TEST(NextStepTest, TheBestTrialIsAmongThoseThatCameFurthest) {
  v1::SearchRecord record = Running("asha { min_steps: 5 reduction_factor: 2 }");
  Begin(Kind::kBegin, 1, 0, record);
  End(1, 2, record);
  Begin(Kind::kBegin, 2, 0, record);
  End(2, 1, record);
  EXPECT_EQ(BestTrial(record), 2u);
  Begin(Kind::kPromote, 2, 1, record);
  // Its loss has risen above that of trial 1, which is at a lower rung.
  End(2, 3, record);
  EXPECT_EQ(BestTrial(record), 2u);
}

}  // namespace
}  // namespace muster
