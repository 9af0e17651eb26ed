#ifndef MUSTER_COMMON_HISTORY_SERIES_H_
#define MUSTER_COMMON_HISTORY_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace muster {

// One value of a series, or several of consecutive steps.
struct SeriesPoint {
  // The steps of the first and the last value.
  uint64_t first_step = 0;
  uint64_t last_step = 0;
  uint64_t values = 1;
  double min = 0;
  double max = 0;
  double mean = 0;
  // The value at `last_step`.
  double last = 0;
  int64_t unix_ms = 0;

  bool operator==(const SeriesPoint&) const = default;
};

SeriesPoint OneValue(uint64_t step, double value, int64_t unix_ms = 0);

// Returns whether a point from outside can be one: all numbers finite and in order, not more values
// than steps, and steps of at most 2^53.
bool IsSound(const SeriesPoint& point);

// Returns the point that stands for both. REQUIRES: `earlier` ends before `later` begins.
SeriesPoint Joined(const SeriesPoint& earlier, const SeriesPoint& later);

// Clocks that a job may go back to. No point joins steps from before and after one.
struct Boundaries {
  // Clocks of checkpoints, ascending.
  std::vector<uint64_t> clocks;
  // Multiples of this clock may become checkpoints; 0: none. Only the last kRecent multiples count:
  // one checkpoint is written at a time, so an older one is in `clocks` or was given up.
  uint64_t every = 0;
  static constexpr uint64_t kRecent = 4;

  // Returns whether a boundary lies between two steps, in a series that ends at `newest`.
  // REQUIRES: earlier < later <= newest.
  bool Separate(uint64_t earlier, uint64_t later, uint64_t newest) const;
};

// The values of one figure over steps, in bounded memory: first a point for each value, and once
// there are too many, points that join up to 2^level steps. Steps 1 to 2^level are such a group,
// and so on; a point joins steps of one group alone, on one side of every boundary. Each time the
// series is full, neighbours are joined, and if that does not suffice the level grows. So spikes
// survive in `min` and `max`, and a series costs amortised constant time a value.
//
// Steps only grow: a value at a step that the series has passed is not taken. So nothing that is
// reported twice, late or out of order is shown twice. Not thread-safe.
class Series {
 public:
  // Boundaries beyond most_points / 4, the oldest, do not count: joining must make room.
  // REQUIRES: most_points >= 16.
  explicit Series(size_t most_points) : most_points_(most_points) {}

  // Adds values. Returns false, without any change, if the point is not sound, or begins at a step
  // that the series has passed.
  bool Add(const SeriesPoint& point, const Boundaries& boundaries);

  // Removes all steps after `step`. A point that spans `step` is removed whole; that happens only
  // if `step` is no boundary.
  void CutAfter(uint64_t step);

  // Reduces the series to this many points, now and from now on. REQUIRES: most_points >= 2.
  void Thin(size_t most_points);

  // Sets the content to what was stored. REQUIRES: sound points, by step. `kept` <=
  // points().size().
  void Replace(size_t kept, uint32_t level, absl::Span<const SeriesPoint> points);

  absl::Span<const SeriesPoint> points() const { return points_; }
  std::optional<uint64_t> last_step() const;
  uint32_t level() const { return level_; }
  // Grows with every change other than a new point at the end or a value joined to the last one.
  uint64_t revision() const { return revision_; }

  // Whether anything changed since the last call of ForgetChanges, and the number of leading points
  // that did not.
  bool changed() const { return changed_; }
  size_t unchanged() const { return unchanged_; }
  void ForgetChanges();

 private:
  // Joins neighbours until at most `most` points are left, if boundaries let it.
  void JoinTo(size_t most, const Boundaries& boundaries);

  size_t most_points_;
  std::vector<SeriesPoint> points_;
  uint32_t level_ = 0;
  uint64_t revision_ = 0;
  bool changed_ = false;
  size_t unchanged_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_HISTORY_SERIES_H_
