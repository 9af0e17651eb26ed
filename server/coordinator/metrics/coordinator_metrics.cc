#include "server/coordinator/metrics/coordinator_metrics.h"

#include <utility>

#include "common/metrics/metric_families.h"
#include "common/metrics/metric_family_proto.h"
#include "proto/cluster_service.pb.h"
#include "proto/status.pb.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/metrics/job_metrics.h"

namespace muster {
namespace {

prometheus::Counter& AddCounter(const char* name, const char* help,
                                prometheus::Registry& registry) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

void AddMembers(const JobTable& jobs, const Membership& members, MetricFamilies& families) {
  const std::map<std::string, Reserved> reserved = ReservedBy(jobs, members);
  for (const auto& [id, member] : members.members()) {
    const auto it = reserved.find(id);
    const Reserved held = it == reserved.end() ? Reserved{} : it->second;
    // One that was drained and stopped was removed, not lost.
    if (!member.live && held.bytes == 0 && jobs.draining().count(id) > 0) continue;
    const MetricLabels labels = {{"daemon", id}};
    const char* kind = member.kind() == v1::WORKER ? "worker" : "server";
    families.AddGauge("muster_daemon_live", "1 if the daemon holds a lease, 0 if it was lost.",
                      {{"daemon", id}, {"kind", kind}}, member.live);
    families.AddGauge("muster_daemon_memory_bytes",
                      "Memory that jobs may reserve; 0: the daemon sets no limit.", labels,
                      member.record.memory_bytes());
    families.AddGauge("muster_daemon_memory_reserved_bytes",
                      "Memory that placed jobs are predicted to take.", labels, held.bytes);
    if (member.kind() != v1::WORKER) continue;
    families.AddGauge("muster_worker_slots", "Task slots offered.", labels, member.record.slots());
    families.AddGauge("muster_worker_slots_used", "Task slots held by jobs.", labels, held.slots);
    families.AddGauge("muster_worker_devices", "Devices offered.", labels,
                      member.record.devices_size());
    families.AddGauge("muster_worker_devices_used", "Devices held by jobs.", labels, held.devices);
  }
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(std::vector<MetricSource> sources)
    : sources_(std::move(sources)),
      submitted(AddCounter("muster_jobs_submitted_total", "Jobs accepted.", registry_)),
      placed(AddCounter("muster_placements_total", "Jobs placed, again included.", registry_)),
      respawned_slots(AddCounter("muster_slots_respawned_total",
                                 "Slots given to another task after a loss.", registry_)),
      rollbacks(AddCounter("muster_rollbacks_total", "Jobs taken back to their last checkpoint.",
                           registry_)),
      daemons_lost(AddCounter("muster_daemons_lost_total",
                              "Leases that ran out or were taken over.", registry_)),
      checkpoints(AddCounter("muster_checkpoints_total", "Checkpoints completed.", registry_)),
      retired(AddCounter("muster_jobs_retired_total",
                         "Ended jobs that were forgotten to keep no more than asked.", registry_)),
      heartbeats(AddCounter("muster_heartbeats_total", "Heartbeats taken.", registry_)),
      store_errors(AddCounter("muster_store_errors_total",
                              "Changes that could not be stored and are tried again.", registry_)),
      refused_families(AddCounter("muster_metric_families_refused_total",
                                  "Metrics of daemons that Prometheus could not read.",
                                  registry_)) {}

void CoordinatorMetrics::Take(const v1::HeartbeatRequest& heartbeat) {
  if (heartbeat.metrics().empty()) return;
  std::vector<prometheus::MetricFamily>& families = daemons_[heartbeat.id()];
  families.clear();
  for (const v1::MetricFamily& message : heartbeat.metrics()) {
    absl::StatusOr<prometheus::MetricFamily> family = FromProto(message);
    if (family.ok()) {
      families.push_back(*std::move(family));
    } else {
      refused_families.Increment();
    }
  }
}

void CoordinatorMetrics::Forget(const std::string& daemon_id) {
  daemons_.erase(daemon_id);
  collectives_.Forget(daemon_id);
}

MetricFamilies CoordinatorMetrics::Gather(const JobTable& jobs, const Membership& members) const {
  MetricFamilies families;
  families.Add(registry_.Collect());
  AddJobMetrics(jobs, families);
  AddMembers(jobs, members, families);
  MetricFamilies own;
  AddBuildInfo("muster-coordinator", own);
  for (const auto& [name, family] : own.families()) {
    families.Add(family, {{"daemon", "coordinator"}});
  }
  for (const MetricSource& source : sources_) families.Add(source(), {{"daemon", "coordinator"}});
  for (const auto& [id, reported] : daemons_) families.Add(reported, {{"daemon", id}});
  collectives_.AddTo(families);
  return families;
}

}  // namespace muster
