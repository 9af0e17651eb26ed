#include "server/coordinator/metrics/gathered_metrics.h"

namespace muster {
namespace {

void AddDaemon(const GatheredMetrics::Daemon& daemon, MetricFamilies& families) {
  const MetricLabels labels = {{"daemon", daemon.id}};
  families.AddGauge("muster_daemon_live", "1 if the daemon holds a lease, 0 if it was lost.",
                    {{"daemon", daemon.id}, {"kind", daemon.worker ? "worker" : "server"}},
                    daemon.live);
  families.AddGauge("muster_daemon_memory_bytes",
                    "Memory that jobs may reserve; 0: the daemon sets no limit.", labels,
                    static_cast<double>(daemon.memory_bytes));
  families.AddGauge("muster_daemon_memory_reserved_bytes",
                    "Memory that placed jobs are predicted to take.", labels,
                    static_cast<double>(daemon.reserved_bytes));
  if (!daemon.worker) return;
  families.AddGauge("muster_worker_slots", "Task slots offered.", labels, daemon.slots);
  families.AddGauge("muster_worker_slots_used", "Task slots held by jobs.", labels,
                    daemon.slots_used);
  families.AddGauge("muster_worker_devices", "Devices offered.", labels, daemon.devices);
  families.AddGauge("muster_worker_devices_used", "Devices held by jobs.", labels,
                    daemon.devices_used);
}

}  // namespace

std::string GatheredMetrics::Text() && {
  for (const Daemon& daemon : daemons) AddDaemon(daemon, families);
  for (const auto& [id, sent] : reported) families.Add(*sent, {{"daemon", id}});
  return std::move(families).Text();
}

}  // namespace muster
