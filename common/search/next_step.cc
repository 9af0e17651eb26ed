#include "common/search/next_step.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/eval/metric.h"
#include "common/search/rungs.h"
#include "common/search/trial_draws.h"

namespace muster {
namespace {

bool HasJob(const v1::SearchTrial& trial) {
  return trial.failure().empty() && !trial.rungs().empty() &&
         !trial.rungs(trial.rungs_size() - 1).has_objective();
}

bool HasObjective(const v1::SearchTrial& trial, int rung) {
  return trial.rungs_size() > rung && trial.rungs(rung).has_objective();
}

// Returns the indices of the trials with an objective at a rung, best first.
std::vector<int> Ranked(const v1::SearchRecord& record, int rung) {
  std::vector<int> ranked;
  for (int i = 0; i < record.trials_size(); ++i) {
    if (HasObjective(record.trials(i), rung)) ranked.push_back(i);
  }
  const bool maximizes = Maximizes(record.spec());
  // The sort is stable, so of equal ones the earlier is better.
  std::stable_sort(ranked.begin(), ranked.end(), [&](int a, int b) {
    const double left = record.trials(a).rungs(rung).objective();
    const double right = record.trials(b).rungs(rung).objective();
    return maximizes ? left > right : left < right;
  });
  return ranked;
}

// Returns the trial to promote from a rung.
std::optional<int> Promotable(const v1::SearchRecord& record, int rung) {
  std::vector<int> ranked = Ranked(record, rung);
  ranked.resize(ranked.size() / ReductionFactor(record.spec()));
  for (const int i : ranked) {
    const v1::SearchTrial& trial = record.trials(i);
    if (trial.failure().empty() && trial.rungs_size() == rung + 1) return i;
  }
  return std::nullopt;
}

// Returns the steps that all jobs so far have taken, or will at most.
uint64_t StepsOf(const v1::SearchRecord& record) {
  uint64_t steps = 0;
  for (const v1::SearchTrial& trial : record.trials()) {
    for (const v1::TrialRung& rung : trial.rungs()) steps += rung.last_step() - rung.first_step();
  }
  return steps;
}

uint64_t NumberOfTrials(const v1::SearchSpec& spec) {
  if (!spec.has_grid()) return spec.trials();
  const uint64_t most = spec.trials() == 0 ? UINT64_MAX : spec.trials();
  return GridPoints(spec, most);
}

}  // namespace

bool Maximizes(const v1::SearchSpec& spec) {
  const v1::ObjectiveSpec& objective = spec.objective();
  if (objective.direction() != v1::ObjectiveSpec::DIRECTION_UNSPECIFIED) {
    return objective.direction() == v1::ObjectiveSpec::MAXIMIZE;
  }
  return HigherIsBetter(objective.metric().empty() ? spec.job().evaluation().metric()
                                                   : objective.metric());
}

uint64_t BestTrial(const v1::SearchRecord& record) {
  for (int rung = static_cast<int>(RungSteps(record.spec()).size()) - 1; rung >= 0; --rung) {
    const std::vector<int> ranked = Ranked(record, rung);
    if (!ranked.empty()) return ranked[0] + 1;
  }
  return 0;
}

SearchStep NextStep(const v1::SearchRecord& record) {
  const v1::SearchSpec& spec = record.spec();
  if (record.state() != v1::SEARCH_RUNNING) return {};
  const auto& trials = record.trials();
  const uint64_t failed = std::count_if(trials.begin(), trials.end(),
                                        [](const auto& trial) { return !trial.failure().empty(); });
  if (spec.has_max_failed_trials() && failed > spec.max_failed_trials()) {
    return {.kind = SearchStep::Kind::kFail};
  }
  const uint64_t busy = std::count_if(trials.begin(), trials.end(), HasJob);
  if (busy >= std::max(spec.parallel(), 1u)) return {};
  const SearchStep idle = {.kind =
                               busy > 0 ? SearchStep::Kind::kWait : SearchStep::Kind::kComplete};
  const std::vector<uint64_t> steps = RungSteps(spec);
  const auto within_limit = [&](const SearchStep& next) {
    const uint64_t begin = next.rung == 0 ? 0 : steps[next.rung - 1];
    const uint64_t used = StepsOf(record);
    return spec.max_steps() == 0 ||
           (used <= spec.max_steps() && steps[next.rung] - begin <= spec.max_steps() - used);
  };
  for (int rung = static_cast<int>(steps.size()) - 2; rung >= 0; --rung) {
    const std::optional<int> trial = Promotable(record, rung);
    if (!trial.has_value()) continue;
    const SearchStep next = {.kind = SearchStep::Kind::kPromote,
                             .trial = static_cast<uint64_t>(*trial) + 1,
                             .rung = rung + 1};
    return within_limit(next) ? next : idle;
  }
  const uint64_t begun = static_cast<uint64_t>(trials.size());
  const SearchStep next = {.kind = SearchStep::Kind::kBegin, .trial = begun + 1};
  return begun < NumberOfTrials(spec) && within_limit(next) ? next : idle;
}

}  // namespace muster
