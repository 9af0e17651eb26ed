#include "common/plan/size/distinct_rows.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace muster {
namespace {

// Bytes computed from it do not overflow.
uint64_t Rows(double rows) {
  return static_cast<uint64_t>(std::min(rows, static_cast<double>(kMostRows)));
}

// Of `draws` from v in [0, values) with P(v) = ln((v + 2) / (v + 1)) / ln(values + 1), how many
// values are expected to come: the sum of 1 - (1 - P(v))^draws. Values whose P is nearly equal are
// taken together, a run an eighth longer each time.
double DistinctByPowerLaw(double values, double draws) {
  const double norm = std::log(values + 1);
  double distinct = 0;
  for (double first = 0; first < values;) {
    const double run = std::min(values - first, std::max(1.0, std::floor(first / 8)));
    const double probability = std::log((first + run + 1) / (first + 1)) / norm / run;
    distinct += run * -std::expm1(draws * std::log1p(-std::min(probability, 1 - 1e-12)));
    first += run;
  }
  return distinct;
}

// Of `draws` positions of a text whose strings repeat themselves so: exact in the mean for draws
// without replacement out of what was looked at. Beyond that the number grows by Heaps' law, by
// the power by which it grew from the first half to the whole.
double DistinctByRepeats(const std::map<uint64_t, uint64_t>& repeats, double draws) {
  double positions = 0;
  for (const auto& [times, strings] : repeats) positions += static_cast<double>(times * strings);
  const auto among = [&](double part) {
    double distinct = 0;
    for (const auto& [times, strings] : repeats) {
      const double missed = std::pow(1 - part, static_cast<double>(times));
      distinct += static_cast<double>(strings) * (1 - missed);
    }
    return distinct;
  };
  if (draws <= positions) return among(draws / positions);
  const double all = among(1);
  return all * std::pow(draws / positions, std::log2(all / among(0.5)));
}

// Text repeats itself: of strings of k bytes about so many make up most of it (tiny Shakespeare has
// 65, 1,400, 12,000 and 50,000 of one to four), drawn by a power law, too.
uint64_t DistinctStrings(uint64_t orders, uint64_t rows, double draws) {
  double values = 64;
  double distinct = 0;
  for (uint64_t order = 1; order <= orders && values < 1e15; ++order, values *= 12) {
    distinct += DistinctByPowerLaw(values, draws);
  }
  return std::min(rows, Rows(distinct));
}

}  // namespace

uint64_t DistinctRows(const ModelSize& model, const DataSize& data, uint64_t examples) {
  if (data.examples > 0) examples = std::min(examples, data.examples);
  if (data.cardinality > 0) {
    const double each =
        DistinctByPowerLaw(static_cast<double>(data.cardinality), static_cast<double>(examples));
    return Rows(each * static_cast<double>(data.fields));
  }
  if (data.repeats.size() >= model.lookups && model.lookups > 0) {
    // Later epochs have no others than the first.
    const auto draws =
        static_cast<double>(data.examples > 0 ? std::min(examples, data.examples) : examples);
    double distinct = 0;
    for (uint64_t order = 0; order < model.lookups; ++order) {
      distinct += DistinctByRepeats(data.repeats[order], draws);
    }
    return std::min(model.rows, Rows(distinct));
  }
  if (data.vocabulary > 0) {
    return DistinctStrings(model.lookups, model.rows, static_cast<double>(examples));
  }
  const double lookups = static_cast<double>(model.lookups) * static_cast<double>(examples);
  return Rows(std::min(lookups, static_cast<double>(model.rows)));
}

}  // namespace muster
