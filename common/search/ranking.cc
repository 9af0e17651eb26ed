#include "common/search/ranking.h"

#include <algorithm>

#include "common/eval/metric.h"
#include "common/search/rungs.h"
#include "proto/search.pb.h"

namespace muster {

bool Maximizes(const v1::SearchSpec& spec) {
  const v1::ObjectiveSpec& objective = spec.objective();
  if (objective.direction() != v1::ObjectiveSpec::DIRECTION_UNSPECIFIED) {
    return objective.direction() == v1::ObjectiveSpec::MAXIMIZE;
  }
  return HigherIsBetter(objective.metric().empty() ? spec.job().evaluation().metric()
                                                   : objective.metric());
}

bool HasJob(const v1::SearchTrial& trial) {
  return trial.failure().empty() && !trial.rungs().empty() &&
         !trial.rungs(trial.rungs_size() - 1).has_objective();
}

bool HasObjective(const v1::SearchTrial& trial, int rung) {
  return trial.rungs_size() > rung && trial.rungs(rung).has_objective();
}

std::vector<int> Ranked(const v1::SearchRecord& record, int rung, int first, int end) {
  std::vector<int> ranked;
  for (int i = first; i < end; ++i) {
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

uint64_t BestTrial(const v1::SearchRecord& record) {
  const v1::SearchSpec& spec = record.spec();
  const bool maximizes = Maximizes(spec);
  const int most_rungs = static_cast<int>(RungSteps(spec).size());
  uint64_t best = 0;
  int furthest = -1;
  double best_objective = 0;
  for (int i = 0; i < record.trials_size(); ++i) {
    const v1::SearchTrial& trial = record.trials(i);
    int rung = trial.rungs_size() - 1;
    if (rung >= 0 && !HasObjective(trial, rung)) --rung;
    if (rung < 0) continue;
    const double objective = trial.rungs(rung).objective();
    // Trials of Hyperband's later brackets have fewer rungs, which are the last of the first's.
    if (spec.has_hyperband()) {
      rung += most_rungs - static_cast<int>(TrialRungSteps(spec, i + 1).size());
    }
    const bool better = maximizes ? objective > best_objective : objective < best_objective;
    if (rung < furthest || (rung == furthest && !better)) continue;
    best = i + 1;
    furthest = rung;
    best_objective = objective;
  }
  return best;
}

}  // namespace muster
