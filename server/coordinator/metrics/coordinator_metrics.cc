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

std::vector<GatheredMetrics::Daemon> DaemonsOf(const JobTable& jobs, const Membership& members) {
  const std::map<std::string, Reserved> reserved = ReservedBy(jobs, members);
  std::vector<GatheredMetrics::Daemon> daemons;
  for (const auto& [id, member] : members.members()) {
    const auto it = reserved.find(id);
    const Reserved held = it == reserved.end() ? Reserved{} : it->second;
    // One that was drained and stopped was removed, not lost.
    if (!member.live && held.bytes == 0 && jobs.draining().count(id) > 0) continue;
    daemons.push_back({.id = id,
                       .worker = member.kind() == v1::WORKER,
                       .live = member.live,
                       .memory_bytes = member.record.memory_bytes(),
                       .reserved_bytes = held.bytes,
                       .slots = member.record.slots(),
                       .slots_used = held.slots,
                       .devices = member.record.devices_size(),
                       .devices_used = held.devices});
  }
  return daemons;
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
  std::vector<prometheus::MetricFamily> families;
  for (const v1::MetricFamily& message : heartbeat.metrics()) {
    absl::StatusOr<prometheus::MetricFamily> family = FromProto(message);
    if (family.ok()) {
      families.push_back(*std::move(family));
    } else {
      refused_families.Increment();
    }
  }
  // Replaced, not changed: what was gathered before may be read on another thread.
  daemons_[heartbeat.id()] =
      std::make_shared<const std::vector<prometheus::MetricFamily>>(std::move(families));
}

void CoordinatorMetrics::Forget(const std::string& daemon_id) {
  daemons_.erase(daemon_id);
  collectives_.Forget(daemon_id);
}

GatheredMetrics CoordinatorMetrics::Gather(const JobTable& jobs, const Membership& members) const {
  GatheredMetrics gathered{.daemons = DaemonsOf(jobs, members),
                           .reported = {daemons_.begin(), daemons_.end()}};
  MetricFamilies& families = gathered.families;
  families.Add(registry_.Collect());
  AddJobMetrics(jobs, families);
  MetricFamilies own;
  AddBuildInfo("muster-coordinator", own);
  for (const auto& [name, family] : own.families()) {
    families.Add(family, {{"daemon", "coordinator"}});
  }
  for (const MetricSource& source : sources_) families.Add(source(), {{"daemon", "coordinator"}});
  collectives_.AddTo(families);
  return gathered;
}

}  // namespace muster
