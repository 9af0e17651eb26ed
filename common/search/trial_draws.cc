#include "common/search/trial_draws.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"

namespace muster {
namespace {

bool Holds(const v1::ParameterSpec& parameter, const std::vector<v1::Draw>& draws) {
  if (!parameter.has_when()) return true;
  return std::any_of(draws.begin(), draws.end(), [&](const v1::Draw& draw) {
    return draw.field() == parameter.when().field() && draw.value() == parameter.when().equals();
  });
}

v1::Draw MakeDraw(const v1::ParameterSpec& parameter, std::string value) {
  v1::Draw draw;
  draw.set_field(parameter.field());
  draw.set_value(std::move(value));
  return draw;
}

// Returns a number in [min, max) from 53 random bits.
double Between(const v1::RealRange& range, double share, bool logarithmic) {
  const double value = logarithmic
                           ? range.min() * std::exp(share * std::log(range.max() / range.min()))
                           : range.min() + share * (range.max() - range.min());
  // Rounding may reach beyond the ends.
  return std::clamp(value, range.min(), range.max());
}

std::string RandomValue(const v1::ParameterSpec& parameter, uint64_t seed, uint64_t trial) {
  const Philox random(seed, "search", parameter.field());
  const bool logarithmic = parameter.has_log_uniform();
  if (logarithmic || parameter.has_uniform()) {
    const double share = std::ldexp(static_cast<double>(random.Uint64(trial) >> 11), -53);
    return RealText(
        Between(logarithmic ? parameter.log_uniform() : parameter.uniform(), share, logarithmic));
  }
  return ValueAt(parameter, random.Below(NumberOfValues(parameter), trial));
}

// Visits the points of a grid in order until `visit` returns false; returns false then.
bool VisitGrid(const v1::SearchSpec& spec, int parameter, std::vector<v1::Draw>& draws,
               const std::function<bool(const std::vector<v1::Draw>&)>& visit) {
  if (parameter == spec.parameters_size()) return visit(draws);
  const v1::ParameterSpec& range = spec.parameters(parameter);
  if (!Holds(range, draws)) return VisitGrid(spec, parameter + 1, draws, visit);
  for (uint64_t i = 0; i < NumberOfValues(range); ++i) {
    draws.push_back(MakeDraw(range, ValueAt(range, i)));
    const bool more = VisitGrid(spec, parameter + 1, draws, visit);
    draws.pop_back();
    if (!more) return false;
  }
  return true;
}

}  // namespace

std::string RealText(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

uint64_t NumberOfValues(const v1::ParameterSpec& parameter) {
  if (parameter.has_choice()) return parameter.choice().values_size();
  const v1::IntegerRange& range = parameter.integer();
  const uint64_t step = std::max<uint64_t>(range.step(), 1);
  return (static_cast<uint64_t>(range.max()) - static_cast<uint64_t>(range.min())) / step + 1;
}

std::string ValueAt(const v1::ParameterSpec& parameter, uint64_t index) {
  if (parameter.has_choice()) return parameter.choice().values(static_cast<int>(index));
  const v1::IntegerRange& range = parameter.integer();
  const uint64_t step = std::max<uint64_t>(range.step(), 1);
  return absl::StrCat(static_cast<int64_t>(static_cast<uint64_t>(range.min()) + index * step));
}

std::optional<std::vector<v1::Draw>> TrialDraws(const v1::SearchSpec& spec, uint64_t trial) {
  std::vector<v1::Draw> draws;
  if (!spec.has_grid()) {
    for (const v1::ParameterSpec& parameter : spec.parameters()) {
      if (!Holds(parameter, draws)) continue;
      draws.push_back(MakeDraw(parameter, RandomValue(parameter, spec.seed(), trial)));
    }
    return draws;
  }
  std::optional<std::vector<v1::Draw>> found;
  uint64_t passed = 0;
  VisitGrid(spec, 0, draws, [&](const std::vector<v1::Draw>& point) {
    if (++passed < trial) return true;
    found = point;
    return false;
  });
  return found;
}

uint64_t GridPoints(const v1::SearchSpec& spec, uint64_t most) {
  std::vector<v1::Draw> draws;
  uint64_t points = 0;
  VisitGrid(spec, 0, draws, [&](const std::vector<v1::Draw>&) { return ++points < most; });
  return points;
}

}  // namespace muster
