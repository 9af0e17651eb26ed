#include "server/coordinator/metrics/coordinator_metrics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/job/job_state_machine.h"

namespace muster {
namespace {

void AddGauge(std::string name, std::string help, std::string labels, double value,
              std::vector<MetricPoint>& points) {
  points.push_back({.name = name,
                    .labels = std::move(labels),
                    .value = value,
                    .family = std::move(name),
                    .help = std::move(help),
                    .type = MetricType::kGauge});
}

void AddJobs(const JobTable& jobs, std::vector<MetricPoint>& points) {
  std::map<int, int> by_state;
  for (int state = v1::PENDING; state <= v1::CANCELLED; ++state) by_state[state] = 0;
  for (const auto& [number, job] : jobs.jobs()) ++by_state[job->record.state()];
  for (const auto& [state, count] : by_state) {
    AddGauge("muster_jobs", "Jobs by state.",
             MetricLabel("state", v1::JobState_Name(static_cast<v1::JobState>(state))), count,
             points);
  }
}

// Figures only of jobs that have not ended: a cluster keeps many ended ones.
void AddProgress(const JobTable& jobs, std::vector<MetricPoint>& points) {
  for (const auto& [number, job] : jobs.jobs()) {
    const v1::JobRecord& record = job->record;
    if (IsFinal(record.state())) continue;
    const std::string labels =
        absl::StrCat(MetricLabel("job", job->id()), ",", MetricLabel("name", record.spec().name()));
    const v1::JobProgress progress = job->progress.Progress(record.met().total_steps());
    AddGauge("muster_job_step", "Steps that every slot has finished.", labels, progress.step(),
             points);
    AddGauge("muster_job_loss", "Mean training loss per example since the last report.", labels,
             progress.loss(), points);
    AddGauge("muster_job_examples_per_second", "Trained on by all workers together.", labels,
             progress.examples_per_second(), points);
    std::map<std::string, double> last;
    for (const v1::EvaluationResult& each : record.evaluations()) {
      if (each.no_value().empty()) last[each.metric()] = each.value();
    }
    for (const auto& [metric, value] : last) {
      AddGauge("muster_job_evaluation", "Last value of a metric on held-out data.",
               absl::StrCat(labels, ",", MetricLabel("metric", metric)), value, points);
    }
  }
}

void AddMembers(const JobTable& jobs, const Membership& members, std::vector<MetricPoint>& points) {
  const std::map<std::string, Reserved> reserved = ReservedBy(jobs, members);
  for (const auto& [id, member] : members.members()) {
    const std::string label = MetricLabel("daemon", id);
    AddGauge("muster_daemon_live", "Whether the daemon holds a lease.", label, member.live, points);
    const auto it = reserved.find(id);
    const Reserved held = it == reserved.end() ? Reserved{} : it->second;
    AddGauge("muster_memory_reserved_bytes", "Predicted bytes of placed jobs.", label, held.bytes,
             points);
    if (member.kind() != v1::WORKER) continue;
    AddGauge("muster_slots", "Task slots offered.", label, member.record.slots(), points);
    AddGauge("muster_slots_used", "Task slots held by jobs.", label, held.slots, points);
    AddGauge("muster_devices", "Devices offered.", label, member.record.devices_size(), points);
    AddGauge("muster_devices_used", "Devices held by jobs.", label, held.devices, points);
  }
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics()
    : submitted(registry_.AddCounter("muster_jobs_submitted_total", "Jobs accepted.")),
      placed(registry_.AddCounter("muster_placements_total", "Jobs placed, again included.")),
      respawned_slots(registry_.AddCounter("muster_slots_respawned_total",
                                           "Slots given to another task after a loss.")),
      rollbacks(registry_.AddCounter("muster_rollbacks_total",
                                     "Jobs taken back to their last checkpoint.")),
      daemons_lost(registry_.AddCounter("muster_daemons_lost_total",
                                        "Leases that ran out or were taken over.")),
      checkpoints(registry_.AddCounter("muster_checkpoints_total", "Checkpoints completed.")),
      retired(registry_.AddCounter("muster_jobs_retired_total",
                                   "Ended jobs that were forgotten to keep no more than asked.")),
      heartbeats(registry_.AddCounter("muster_heartbeats_total", "Heartbeats taken.")),
      store_errors(registry_.AddCounter("muster_store_errors_total",
                                        "Changes that could not be stored and are tried again.")) {}

void CoordinatorMetrics::SetSamples(const std::string& daemon_id,
                                    std::vector<v1::MetricSample> samples) {
  if (!samples.empty()) samples_[daemon_id] = std::move(samples);
}

std::string CoordinatorMetrics::Text(const JobTable& jobs, const Membership& members) const {
  std::vector<MetricPoint> points = registry_.Read();
  AddJobs(jobs, points);
  AddProgress(jobs, points);
  AddMembers(jobs, members, points);
  for (const auto& [id, samples] : samples_) {
    for (const v1::MetricSample& sample : samples) {
      std::string labels = sample.labels();
      if (!absl::StartsWith(labels, "daemon=") && !absl::StrContains(labels, ",daemon=")) {
        labels = absl::StrCat(MetricLabel("daemon", id), labels.empty() ? "" : ",", labels);
      }
      const bool total = absl::EndsWith(sample.name(), "_total");
      points.push_back({.name = sample.name(),
                        .labels = std::move(labels),
                        .value = sample.value(),
                        .family = sample.name(),
                        .help = "Reported by daemons.",
                        .type = total ? MetricType::kCounter : MetricType::kGauge});
    }
  }
  // Prometheus wants the points of one family together.
  std::stable_sort(points.begin(), points.end(),
                   [](const MetricPoint& a, const MetricPoint& b) { return a.family < b.family; });
  return PrometheusText(points);
}

}  // namespace muster
