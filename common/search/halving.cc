#include "common/search/halving.h"

#include <algorithm>
#include <vector>

#include "common/search/brackets.h"
#include "common/search/ranking.h"
#include "common/search/rungs.h"
#include "proto/search.pb.h"

namespace muster {
namespace {

// Returns the promotion of the first of the ranked trials that has not gone on from a rung.
std::optional<SearchStep> PromoteFirst(const v1::SearchRecord& record,
                                       const std::vector<int>& ranked, int rung) {
  for (const int i : ranked) {
    const v1::SearchTrial& trial = record.trials(i);
    if (!trial.failure().empty() || trial.rungs_size() != rung + 1) continue;
    return SearchStep{.kind = SearchStep::Kind::kPromote,
                      .trial = static_cast<uint64_t>(i) + 1,
                      .rung = rung + 1};
  }
  return std::nullopt;
}

std::optional<SearchStep> PromoteInBracket(const v1::SearchRecord& record, const Bracket& bracket,
                                           uint64_t trials) {
  const int first = static_cast<int>(bracket.first_trial) - 1;
  const int end = first + static_cast<int>(trials);
  uint64_t places = trials;
  for (int rung = 0; rung < bracket.level; ++rung) {
    for (int i = first; i < end; ++i) {
      const v1::SearchTrial& trial = record.trials(i);
      if (HasJob(trial) && trial.rungs_size() == rung + 1) return std::nullopt;
    }
    places /= BracketFactor(record.spec());
    std::vector<int> ranked = Ranked(record, rung, first, end);
    ranked.resize(std::min<uint64_t>(ranked.size(), places));
    const std::optional<SearchStep> step = PromoteFirst(record, ranked, rung);
    if (step.has_value()) return step;
  }
  return std::nullopt;
}

}  // namespace

std::optional<SearchStep> PromoteByAsha(const v1::SearchRecord& record) {
  for (int rung = static_cast<int>(RungSteps(record.spec()).size()) - 2; rung >= 0; --rung) {
    std::vector<int> ranked = Ranked(record, rung, 0, record.trials_size());
    ranked.resize(ranked.size() / ReductionFactor(record.spec()));
    const std::optional<SearchStep> step = PromoteFirst(record, ranked, rung);
    if (step.has_value()) return step;
  }
  return std::nullopt;
}

std::optional<SearchStep> PromoteByHyperband(const v1::SearchRecord& record, uint64_t trials) {
  const uint64_t begun = record.trials_size();
  for (uint64_t first = 1; first <= begun;) {
    const Bracket bracket = BracketOf(record.spec(), first);
    // The search may have fewer trials than its last bracket.
    const uint64_t most = std::max(trials, begun);
    const uint64_t size = std::min(bracket.trials, most - first + 1);
    if (first + size - 1 > begun) return std::nullopt;
    const std::optional<SearchStep> step = PromoteInBracket(record, bracket, size);
    if (step.has_value()) return step;
    first += bracket.trials;
  }
  return std::nullopt;
}

}  // namespace muster
