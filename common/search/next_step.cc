#include "common/search/next_step.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/search/brackets.h"
#include "common/search/halving.h"
#include "common/search/rungs.h"
#include "common/search/trial_draws.h"

namespace muster {
namespace {

// Returns whether a job keeps the search within `max_steps`, with the steps that all jobs so far
// have taken or will take at most.
bool WithinLimit(const v1::SearchRecord& record, const SearchStep& next) {
  const uint64_t most = record.spec().max_steps();
  if (most == 0) return true;
  uint64_t used = 0;
  for (const v1::SearchTrial& trial : record.trials()) {
    for (const v1::TrialRung& rung : trial.rungs()) used += rung.last_step() - rung.first_step();
  }
  const std::vector<uint64_t> steps = TrialRungSteps(record.spec(), next.trial);
  const uint64_t begin = next.rung == 0 ? 0 : steps[next.rung - 1];
  return used <= most && steps[next.rung] - begin <= most - used;
}

std::optional<SearchStep> Promotion(const v1::SearchRecord& record) {
  const v1::SearchSpec& spec = record.spec();
  if (spec.has_asha()) return PromoteByAsha(record);
  if (spec.has_hyperband()) return PromoteByHyperband(record, NumberOfTrials(spec));
  return std::nullopt;
}

// Returns the step that comes next if there is room for its job.
std::optional<SearchStep> Candidate(const v1::SearchRecord& record) {
  const std::optional<SearchStep> promotion = Promotion(record);
  if (promotion.has_value()) return promotion;
  const uint64_t begun = record.trials_size();
  if (begun >= NumberOfTrials(record.spec())) return std::nullopt;
  return SearchStep{.kind = SearchStep::Kind::kBegin, .trial = begun + 1};
}

}  // namespace

uint64_t NumberOfTrials(const v1::SearchSpec& spec) {
  if (spec.has_grid()) return GridPoints(spec, spec.trials() == 0 ? UINT64_MAX : spec.trials());
  if (spec.has_hyperband() && spec.trials() == 0) return TrialsOfAllBrackets(spec);
  return spec.trials();
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
  const std::optional<SearchStep> next = Candidate(record);
  if (next.has_value() && WithinLimit(record, *next)) return *next;
  return {.kind = busy > 0 ? SearchStep::Kind::kWait : SearchStep::Kind::kComplete};
}

}  // namespace muster
