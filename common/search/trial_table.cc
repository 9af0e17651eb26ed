#include "common/search/trial_table.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/search/rungs.h"
#include "common/search/trial_draws.h"

namespace muster {

std::string TrialRequestId(const std::string& search_id, uint64_t trial, int rung) {
  return absl::StrCat("search ", search_id, " trial ", trial, " rung ", rung);
}

TrialJob JobOfStep(const v1::SearchRecord& record, const SearchStep& step) {
  TrialJob job = {.search_id = record.search_id(), .trial = step.trial, .rung = step.rung};
  if (step.rung > 0) {
    const v1::SearchTrial& trial = record.trials(static_cast<int>(step.trial) - 1);
    job.previous_job = trial.rungs(step.rung - 1).job_id();
  }
  return job;
}

google::protobuf::RepeatedPtrField<v1::Draw> DrawsOfStep(const v1::SearchRecord& record,
                                                         const SearchStep& step) {
  if (step.kind == SearchStep::Kind::kPromote) {
    return record.trials(static_cast<int>(step.trial) - 1).draws();
  }
  const std::vector<v1::Draw> draws = *TrialDraws(record.spec(), step.trial);
  return {draws.begin(), draws.end()};
}

void RecordJob(const SearchStep& step, const std::string& job_id, v1::SearchRecord& record) {
  if (step.kind == SearchStep::Kind::kBegin) {
    google::protobuf::RepeatedPtrField<v1::Draw> draws = DrawsOfStep(record, step);
    *record.add_trials()->mutable_draws() = std::move(draws);
  }
  const std::vector<uint64_t> steps = TrialRungSteps(record.spec(), step.trial);
  v1::TrialRung& rung = *record.mutable_trials(static_cast<int>(step.trial) - 1)->add_rungs();
  rung.set_job_id(job_id);
  rung.set_first_step(step.rung == 0 ? 0 : steps[step.rung - 1]);
  rung.set_last_step(steps[step.rung]);
}

bool RecordEnd(const std::string& job_id, const TrialEnd& end, v1::SearchRecord& record) {
  for (v1::SearchTrial& trial : *record.mutable_trials()) {
    if (!trial.failure().empty() || trial.rungs().empty()) continue;
    v1::TrialRung& rung = *trial.mutable_rungs(trial.rungs_size() - 1);
    if (rung.job_id() != job_id || rung.has_objective()) continue;
    // A job that fails before it has begun has reached no step.
    rung.set_last_step(std::max(end.last_step, rung.first_step()));
    if (end.objective.has_value() && std::isfinite(*end.objective)) {
      rung.set_objective(*end.objective);
      return true;
    }
    trial.set_failure(!end.failure.empty() ? end.failure
                      : end.objective.has_value()
                          ? absl::StrCat("its objective is ", *end.objective)
                          : "it ended without an objective");
    return true;
  }
  return false;
}

}  // namespace muster
