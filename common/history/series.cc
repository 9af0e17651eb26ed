#include "common/history/series.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

constexpr uint64_t kMostStep = uint64_t{1} << 53;
// At this level all steps but step 0 are one group.
constexpr uint32_t kLastLevel = 53;

// Returns the group of 2^level steps that a step is in. Step 0 is alone.
uint64_t GroupOf(uint64_t step, uint32_t level) {
  return (step + (uint64_t{1} << level) - 1) >> level;
}

}  // namespace

SeriesPoint OneValue(uint64_t step, double value, int64_t unix_ms) {
  return {.first_step = step,
          .last_step = step,
          .values = 1,
          .min = value,
          .max = value,
          .mean = value,
          .last = value,
          .unix_ms = unix_ms};
}

bool IsSound(const SeriesPoint& point) {
  return point.first_step <= point.last_step && point.last_step <= kMostStep && point.values >= 1 &&
         point.values - 1 <= point.last_step - point.first_step && std::isfinite(point.min) &&
         std::isfinite(point.max) && point.min <= point.mean && point.mean <= point.max &&
         point.min <= point.last && point.last <= point.max;
}

SeriesPoint Joined(const SeriesPoint& earlier, const SeriesPoint& later) {
  SeriesPoint joined;
  joined.first_step = earlier.first_step;
  joined.last_step = later.last_step;
  joined.values = earlier.values + later.values;
  joined.min = std::min(earlier.min, later.min);
  joined.max = std::max(earlier.max, later.max);
  // Neither a sum nor a difference of values, which might overflow.
  const double share = static_cast<double>(later.values) / static_cast<double>(joined.values);
  joined.mean = std::clamp(earlier.mean * (1 - share) + later.mean * share, joined.min, joined.max);
  joined.last = later.last;
  joined.unix_ms = later.unix_ms;
  return joined;
}

bool Boundaries::Separate(uint64_t earlier, uint64_t later, uint64_t newest) const {
  if (every > 0) {
    const uint64_t last = newest / every;
    const uint64_t oldest = last - std::min(last, kRecent - 1);
    const uint64_t next = std::max(earlier / every + (earlier % every > 0), oldest) * every;
    if (next >= earlier && next < later) return true;
  }
  const auto it = std::lower_bound(clocks.begin(), clocks.end(), earlier);
  return it != clocks.end() && *it < later;
}

bool Series::Add(const SeriesPoint& point, const Boundaries& boundaries) {
  if (!IsSound(point)) return false;
  if (points_.empty()) {
    points_.push_back(point);
  } else {
    SeriesPoint& last = points_.back();
    if (point.first_step <= last.last_step) return false;
    if (GroupOf(last.first_step, level_) == GroupOf(point.last_step, level_) &&
        !boundaries.Separate(last.last_step, point.first_step, point.last_step)) {
      last = Joined(last, point);
    } else {
      if (points_.size() >= most_points_) JoinTo(most_points_ * 3 / 4, boundaries);
      points_.push_back(point);
    }
  }
  changed_ = true;
  unchanged_ = std::min(unchanged_, points_.size() - 1);
  return true;
}

void Series::JoinTo(size_t most, const Boundaries& boundaries) {
  Boundaries counted = boundaries;
  if (const size_t room = most_points_ / 4; counted.clocks.size() > room) {
    counted.clocks.erase(counted.clocks.begin(), counted.clocks.end() - room);
  }
  const uint64_t newest = points_.back().last_step;
  // The first pass joins what a boundary kept apart that is none any more.
  for (;; ++level_) {
    std::vector<SeriesPoint> joined;
    joined.reserve(most_points_);
    for (const SeriesPoint& point : points_) {
      if (!joined.empty() &&
          GroupOf(joined.back().first_step, level_) == GroupOf(point.last_step, level_) &&
          !counted.Separate(joined.back().last_step, point.first_step, newest)) {
        joined.back() = Joined(joined.back(), point);
      } else {
        joined.push_back(point);
      }
    }
    points_ = std::move(joined);
    if (points_.size() <= most || level_ == kLastLevel) break;
  }
  ++revision_;
  changed_ = true;
  unchanged_ = 0;
}

void Series::CutAfter(uint64_t step) {
  const auto end = std::find_if(points_.begin(), points_.end(),
                                [step](const SeriesPoint& p) { return p.last_step > step; });
  if (end == points_.end()) return;
  points_.erase(end, points_.end());
  ++revision_;
  changed_ = true;
  unchanged_ = std::min(unchanged_, points_.size());
}

void Series::Thin(size_t most_points) {
  most_points_ = most_points;
  if (points_.size() > most_points) JoinTo(most_points, {});
}

void Series::Replace(size_t kept, uint32_t level, absl::Span<const SeriesPoint> points) {
  points_.resize(kept);
  points_.insert(points_.end(), points.begin(), points.end());
  level_ = std::min(level, kLastLevel);
  ++revision_;
  changed_ = true;
  unchanged_ = std::min(unchanged_, kept);
}

std::optional<uint64_t> Series::last_step() const {
  if (points_.empty()) return std::nullopt;
  return points_.back().last_step;
}

void Series::ForgetChanges() {
  changed_ = false;
  unchanged_ = points_.size();
}

}  // namespace muster
