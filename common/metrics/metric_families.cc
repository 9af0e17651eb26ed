#include "common/metrics/metric_families.h"

#include <prometheus/metric_type.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "common/base/version.h"

namespace muster {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

bool Has(const MetricLabels& labels, const std::string& name) {
  return std::any_of(labels.begin(), labels.end(),
                     [&name](const ClientMetric::Label& label) { return label.name == name; });
}

}  // namespace

MetricFamily& MetricFamilies::Family(absl::string_view name, absl::string_view help,
                                     MetricType type) {
  auto it = families_.find(name);
  if (it == families_.end()) {
    MetricFamily family;
    family.name = std::string(name);
    // The serializer does not escape what is in help texts.
    family.help = absl::StrReplaceAll(help, {{"\n", " "}, {"\\", "/"}});
    family.type = type;
    it = families_.emplace(family.name, std::move(family)).first;
  }
  return it->second;
}

void MetricFamilies::AddCounter(absl::string_view name, absl::string_view help, MetricLabels labels,
                                double value) {
  ClientMetric& metric = Family(name, help, MetricType::Counter).metric.emplace_back();
  metric.label = std::move(labels);
  metric.counter.value = value;
}

void MetricFamilies::AddGauge(absl::string_view name, absl::string_view help, MetricLabels labels,
                              double value) {
  ClientMetric& metric = Family(name, help, MetricType::Gauge).metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

void MetricFamilies::Add(MetricFamily family, const MetricLabels& labels) {
  if (family.type != MetricType::Counter && family.type != MetricType::Gauge &&
      family.type != MetricType::Histogram) {
    return;
  }
  MetricFamily& target = Family(family.name, family.help, family.type);
  if (target.type != family.type) return;
  // The library's registry has no order of its own.
  std::sort(family.metric.begin(), family.metric.end(),
            [](const ClientMetric& a, const ClientMetric& b) { return a.label < b.label; });
  for (ClientMetric& metric : family.metric) {
    MetricLabels all = labels;
    for (ClientMetric::Label& own : metric.label) {
      if (!Has(labels, own.name)) all.push_back(std::move(own));
    }
    metric.label = std::move(all);
    target.metric.push_back(std::move(metric));
  }
}

void MetricFamilies::Add(std::vector<MetricFamily> families, const MetricLabels& labels) {
  for (MetricFamily& family : families) Add(std::move(family), labels);
}

std::string MetricFamilies::Text() && {
  std::vector<MetricFamily> ordered;
  ordered.reserve(families_.size());
  for (auto& [name, family] : families_) {
    if (!family.metric.empty()) ordered.push_back(std::move(family));
  }
  families_.clear();
  return prometheus::TextSerializer().Serialize(ordered);
}

void AddBuildInfo(absl::string_view program, MetricFamilies& families) {
  families.AddGauge("muster_build_info", "Programs of the cluster; the value is always 1.",
                    {{"program", std::string(program)},
                     {"version", kRelease},
                     {"commit", Commit()},
                     {"build", BuildType()}},
                    1);
}

}  // namespace muster
