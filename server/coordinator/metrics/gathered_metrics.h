#ifndef MUSTER_SERVER_COORDINATOR_METRICS_GATHERED_METRICS_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_GATHERED_METRICS_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/metrics/metric_families.h"

namespace muster {

// All metrics of one moment, in the form that costs the logic thread least: making the families of
// 1,000 daemons takes it tens of milliseconds, in which every call waits. A value.
struct GatheredMetrics {
  // The state of a daemon as the coordinator has it.
  struct Daemon {
    std::string id;
    bool worker = false;
    bool live = false;
    uint64_t memory_bytes = 0;
    uint64_t reserved_bytes = 0;
    // Workers alone have these.
    uint32_t slots = 0;
    uint32_t slots_used = 0;
    int devices = 0;
    uint32_t devices_used = 0;
  };
  // Families that a daemon sent, and its id.
  using Reported =
      std::pair<std::string, std::shared_ptr<const std::vector<prometheus::MetricFamily>>>;

  // Metrics of jobs and of the coordinator itself.
  MetricFamilies families;
  std::vector<Daemon> daemons;
  std::vector<Reported> reported;

  // Returns the text that Prometheus reads. Whatever a daemon sent has its id as the label
  // `daemon`. Any thread.
  std::string Text() &&;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_GATHERED_METRICS_H_
