#include "common/search/brackets.h"

#include <algorithm>

#include "proto/search.pb.h"

namespace muster {
namespace {

// A bracket with more trials than a search may have never fills.
constexpr uint64_t kEndlessBracket = uint64_t{1} << 32;

// Returns n = ceil((s_max + 1) / (s + 1) * factor^s).
uint64_t TrialsAt(int level, int greatest, uint64_t factor) {
  uint64_t power = 1;
  for (int i = 0; i < level; ++i) {
    power *= factor;
    if (power >= kEndlessBracket) return kEndlessBracket;
  }
  const uint64_t divisor = static_cast<uint64_t>(level) + 1;
  const uint64_t product = (static_cast<uint64_t>(greatest) + 1) * power;
  return std::min(kEndlessBracket, (product + divisor - 1) / divisor);
}

}  // namespace

uint64_t BracketFactor(const v1::SearchSpec& spec) {
  const uint64_t factor = spec.hyperband().reduction_factor();
  return factor == 0 ? 3 : factor;
}

int GreatestLevel(const v1::SearchSpec& spec) {
  uint64_t steps = spec.job().stop().steps() / BracketFactor(spec);
  int level = 0;
  for (; steps >= spec.hyperband().min_steps(); steps /= BracketFactor(spec)) ++level;
  return level;
}

std::vector<uint64_t> BracketRungSteps(const v1::SearchSpec& spec, int level) {
  std::vector<uint64_t> steps(level + 1);
  uint64_t step = spec.job().stop().steps();
  for (int rung = level; rung >= 0; --rung) {
    steps[rung] = step;
    step /= BracketFactor(spec);
  }
  return steps;
}

uint64_t TrialsOfAllBrackets(const v1::SearchSpec& spec) {
  const int greatest = GreatestLevel(spec);
  uint64_t trials = 0;
  for (int level = greatest; level >= 0; --level) {
    trials += TrialsAt(level, greatest, BracketFactor(spec));
  }
  return trials;
}

Bracket BracketOf(const v1::SearchSpec& spec, uint64_t trial) {
  const int greatest = GreatestLevel(spec);
  const uint64_t round = TrialsOfAllBrackets(spec);
  Bracket bracket = {.level = greatest, .first_trial = (trial - 1) / round * round + 1};
  while (true) {
    bracket.trials = TrialsAt(bracket.level, greatest, BracketFactor(spec));
    if (trial - bracket.first_trial < bracket.trials) return bracket;
    bracket.first_trial += bracket.trials;
    --bracket.level;
  }
}

}  // namespace muster
