#include "common/metrics/metric_registry.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

// std::atomic<double>::fetch_add is C++20, but GCC 12 makes a call of it where a loop is as good.
void AtomicAdd(std::atomic<double>& target, double delta) {
  double old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, old + delta, std::memory_order_relaxed)) {
  }
}

// Returns whole numbers without an exponent, others with all digits that matter.
std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (std::floor(value) == value && std::abs(value) < 1e15) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.17g", value);
}

std::string Joined(absl::string_view labels, absl::string_view more) {
  return labels.empty() ? std::string(more) : absl::StrCat(labels, ",", more);
}

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::string EscapeHelp(absl::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

void Gauge::Add(double delta) { AtomicAdd(value_, delta); }

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(new std::atomic<uint64_t>[bounds_.size() + 1]()) {}

void Histogram::Observe(double value) {
  size_t bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  AtomicAdd(sum_, value);
}

std::vector<uint64_t> Histogram::Counts() const {
  std::vector<uint64_t> counts(bounds_.size() + 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = counts_[i].load(std::memory_order_relaxed);
  }
  return counts;
}

std::vector<double> ExponentialBounds(double start, double factor, int count) {
  std::vector<double> bounds;
  for (int i = 0; i < count; ++i, start *= factor) bounds.push_back(start);
  return bounds;
}

MetricRegistry::Entry& MetricRegistry::FindOrAddLocked(absl::string_view name,
                                                       absl::string_view help,
                                                       absl::string_view labels, MetricType type) {
  for (Entry& entry : entries_) {
    if (entry.name == name && entry.labels == labels && entry.type == type) return entry;
  }
  Entry& entry = entries_.emplace_back();
  entry.name = std::string(name);
  entry.help = std::string(help);
  entry.labels = std::string(labels);
  entry.type = type;
  return entry;
}

Counter& MetricRegistry::AddCounter(absl::string_view name, absl::string_view help,
                                    absl::string_view labels) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = FindOrAddLocked(name, help, labels, MetricType::kCounter);
  if (entry.counter == nullptr) entry.counter = std::make_unique<Counter>();
  return *entry.counter;
}

Gauge& MetricRegistry::AddGauge(absl::string_view name, absl::string_view help,
                                absl::string_view labels) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = FindOrAddLocked(name, help, labels, MetricType::kGauge);
  if (entry.gauge == nullptr) entry.gauge = std::make_unique<Gauge>();
  return *entry.gauge;
}

Histogram& MetricRegistry::AddHistogram(absl::string_view name, absl::string_view help,
                                        std::vector<double> bounds, absl::string_view labels) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = FindOrAddLocked(name, help, labels, MetricType::kHistogram);
  if (entry.histogram == nullptr) entry.histogram = std::make_unique<Histogram>(std::move(bounds));
  return *entry.histogram;
}

std::vector<MetricPoint> MetricRegistry::Read() const {
  absl::MutexLock lock(&mutex_);
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries_) sorted.push_back(&entry);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry* a, const Entry* b) { return a->name < b->name; });
  std::vector<MetricPoint> points;
  for (const Entry* entry : sorted) {
    auto add = [&](absl::string_view suffix, std::string labels, double value) {
      points.push_back({.name = absl::StrCat(entry->name, suffix),
                        .labels = std::move(labels),
                        .value = value,
                        .family = entry->name,
                        .help = entry->help,
                        .type = entry->type});
    };
    if (entry->counter != nullptr) add("", entry->labels, entry->counter->value());
    if (entry->gauge != nullptr) add("", entry->labels, entry->gauge->value());
    if (entry->histogram != nullptr) {
      const Histogram& histogram = *entry->histogram;
      std::vector<uint64_t> counts = histogram.Counts();
      uint64_t total = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        total += counts[i];
        std::string bound = i < histogram.bounds().size() ? Number(histogram.bounds()[i]) : "+Inf";
        add("_bucket", Joined(entry->labels, MetricLabel("le", bound)), total);
      }
      add("_sum", entry->labels, histogram.sum());
      add("_count", entry->labels, total);
    }
  }
  return points;
}

std::string MetricLabel(absl::string_view key, absl::string_view value) {
  std::string text = absl::StrCat(key, "=\"");
  for (char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string PrometheusText(absl::Span<const MetricPoint> points) {
  std::string text;
  absl::string_view family;
  for (const MetricPoint& point : points) {
    if (point.family != family) {
      family = point.family;
      if (!point.help.empty()) {
        absl::StrAppend(&text, "# HELP ", family, " ", EscapeHelp(point.help), "\n");
      }
      absl::StrAppend(&text, "# TYPE ", family, " ", TypeName(point.type), "\n");
    }
    absl::StrAppend(&text, point.name);
    if (!point.labels.empty()) absl::StrAppend(&text, "{", point.labels, "}");
    absl::StrAppend(&text, " ", Number(point.value), "\n");
  }
  return text;
}

}  // namespace muster
