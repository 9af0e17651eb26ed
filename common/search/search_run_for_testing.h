#ifndef MUSTER_COMMON_SEARCH_SEARCH_RUN_FOR_TESTING_H_
#define MUSTER_COMMON_SEARCH_SEARCH_RUN_FOR_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/search/next_step.h"
#include "common/search/search_for_testing.h"
#include "common/search/trial_job.h"
#include "common/search/trial_table.h"
#include "gtest/gtest.h"
#include "proto/search.pb.h"

namespace muster {

inline v1::SearchRecord RunningSearch(const std::string& fields) {
  v1::SearchRecord record;
  record.set_search_id("s-1");
  *record.mutable_spec() = SmallSearch(fields);
  record.set_state(v1::SEARCH_RUNNING);
  return record;
}

// Returns the objective of a trial's job; nothing: the job fails.
using ObjectiveForTesting =
    std::function<std::optional<double>(const v1::SearchTrial& trial, uint64_t number, int rung)>;

// Takes one step of a search, which is begun from its stored bytes alone. Expects that the step's
// job is a new one. Returns false where nothing can begin; `kind` says why.
inline bool TakeStep(v1::SearchRecord& record, SearchStep::Kind& kind) {
  const std::string bytes = record.SerializeAsString();
  record.Clear();
  EXPECT_TRUE(record.ParseFromString(bytes));
  const SearchStep step = NextStep(record);
  kind = step.kind;
  if (kind != SearchStep::Kind::kBegin && kind != SearchStep::Kind::kPromote) return false;
  const TrialJob job = JobOfStep(record, step);
  EXPECT_EQ(job.trial, step.trial);
  EXPECT_TRUE(SpecOfTrial(record.spec(), DrawsOfStep(record, step), job).ok());
  RecordJob(step, TrialRequestId("s-1", step.trial, step.rung), record);
  EXPECT_EQ(record.trials(static_cast<int>(step.trial) - 1).rungs_size(), step.rung + 1);
  return true;
}

// Runs a search until nothing can begin and no job is under way; returns the last kind. Jobs end in
// an order that follows from `seed`. Expects that at most `parallel` jobs are under way, and that
// every place is taken before a job ends if the search lets it.
inline SearchStep::Kind RunSearchToEnd(uint64_t seed, const ObjectiveForTesting& objective,
                                       v1::SearchRecord& record) {
  const Philox random(seed);
  uint64_t drawn = 0;
  SearchStep::Kind kind = SearchStep::Kind::kWait;
  while (true) {
    while (TakeStep(record, kind)) {
    }
    std::vector<int> running;
    for (int i = 0; i < record.trials_size(); ++i) {
      if (HasJob(record.trials(i))) running.push_back(i);
    }
    EXPECT_LE(running.size(), std::max(record.spec().parallel(), 1u));
    if (running.empty()) return kind;
    const int i = running[random.Below(running.size(), drawn++)];
    const v1::SearchTrial& trial = record.trials(i);
    const int rung = trial.rungs_size() - 1;
    TrialEnd end = {.last_step = trial.rungs(rung).last_step(),
                    .objective = objective(trial, i + 1, rung)};
    if (!end.objective.has_value()) end.failure = "diverged";
    const std::string job = trial.rungs(rung).job_id();
    EXPECT_TRUE(RecordEnd(job, end, record));
    EXPECT_FALSE(RecordEnd(job, end, record));
  }
}

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_SEARCH_RUN_FOR_TESTING_H_
