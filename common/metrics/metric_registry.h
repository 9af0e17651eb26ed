#ifndef MUSTER_COMMON_METRICS_METRIC_REGISTRY_H_
#define MUSTER_COMMON_METRICS_METRIC_REGISTRY_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace muster {

// A number that only grows. Lock-free.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// A number that goes up and down. Lock-free.
class Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double delta);
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_ = 0;
};

// Counts observations by size: bucket i holds those at most bounds[i] and above bounds[i-1]; one
// more bucket holds the rest. Lock-free; a reader may see an observation in the count before it
// sees it in the sum.
class Histogram {
 public:
  // REQUIRES: bounds increase strictly.
  explicit Histogram(std::vector<double> bounds);

  void Observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  // Returns bounds().size() + 1 counts, not cumulated.
  std::vector<uint64_t> Counts() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const std::vector<double> bounds_;
  const std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_ = 0;
};

// Returns `count` bounds, each `factor` times the one before: {start, start * factor, …}.
std::vector<double> ExponentialBounds(double start, double factor, int count);

enum class MetricType { kCounter, kGauge, kHistogram };

// One line of Prometheus' text format. A histogram becomes several: name_bucket, name_sum and
// name_count.
struct MetricPoint {
  std::string name;
  // `key="value",…` without braces; may be empty.
  std::string labels;
  double value = 0;
  // The metric it belongs to, for the TYPE and HELP lines.
  std::string family;
  std::string help;
  MetricType type = MetricType::kGauge;
};

// The metrics of one process. Updating one takes no lock; adding and reading take one that updates
// never take.
class MetricRegistry {
 public:
  // Each returns the metric of that name and label text, made at the first call and alive as long
  // as the registry. REQUIRES: one name is only ever used for one type (and, for histograms, one
  // list of bounds).
  Counter& AddCounter(absl::string_view name, absl::string_view help, absl::string_view labels = "")
      ABSL_LOCKS_EXCLUDED(mutex_);
  Gauge& AddGauge(absl::string_view name, absl::string_view help, absl::string_view labels = "")
      ABSL_LOCKS_EXCLUDED(mutex_);
  Histogram& AddHistogram(absl::string_view name, absl::string_view help,
                          std::vector<double> bounds, absl::string_view labels = "")
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns all current values; points of one family lie together, in order of name.
  std::vector<MetricPoint> Read() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string name;
    std::string help;
    std::string labels;
    MetricType type;
    std::unique_ptr<Counter> counter;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
  };

  Entry& FindOrAddLocked(absl::string_view name, absl::string_view help, absl::string_view labels,
                         MetricType type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  // A deque keeps references to entries valid as it grows.
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

// Returns `key="value"`, escaped as the text format wants it. Join several with commas.
std::string MetricLabel(absl::string_view key, absl::string_view value);

// Returns Prometheus' text format, version 0.0.4. Points of one family must lie together.
std::string PrometheusText(absl::Span<const MetricPoint> points);

}  // namespace muster

#endif  // MUSTER_COMMON_METRICS_METRIC_REGISTRY_H_
