#ifndef MUSTER_COMMON_METRICS_TIME_BOUNDS_H_
#define MUSTER_COMMON_METRICS_TIME_BOUNDS_H_

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace muster {

// Upper bounds, in seconds, of the buckets of every histogram of times.
inline constexpr double kTimeBounds[] = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03,
                                         0.1,    0.3,    1,     3,     10,   30};
// One more bucket holds the rest.
inline constexpr size_t kTimeBuckets = std::size(kTimeBounds) + 1;

// Returns the bucket of a time.
inline size_t TimeBucket(double seconds) {
  return std::lower_bound(std::begin(kTimeBounds), std::end(kTimeBounds), seconds) -
         std::begin(kTimeBounds);
}

}  // namespace muster

#endif  // MUSTER_COMMON_METRICS_TIME_BOUNDS_H_
