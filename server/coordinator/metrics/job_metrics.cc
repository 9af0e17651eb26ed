#include "server/coordinator/metrics/job_metrics.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/job_record.pb.h"
#include "proto/status.pb.h"
#include "server/coordinator/history/expert_sums.h"
#include "server/coordinator/history/slot_times.h"
#include "server/coordinator/job/find_checkpoint.h"
#include "server/coordinator/job/job.h"
#include "server/coordinator/job/job_state_machine.h"

namespace muster {
namespace {

constexpr char kSlotSeconds[] = "muster_job_slot_seconds_total";
constexpr char kSlotSecondsHelp[] =
    "Time of training steps, of all slots together, by what it was spent on.";

double Seconds(int64_t unix_ms) { return static_cast<double>(unix_ms) / 1000; }

std::string StateName(v1::JobState state) { return v1::JobState_Name(state); }

// Returns the ended jobs that are shown.
std::vector<const Job*> EndedLately(const JobTable& jobs) {
  const int64_t since = jobs.NowUnixMs() - absl::ToInt64Milliseconds(kEndedJobsShown);
  std::vector<const Job*> ended;
  for (const auto& [number, job] : jobs.jobs()) {
    if (IsFinal(job->record.state()) && job->record.finished_unix_ms() > since) {
      ended.push_back(job.get());
    }
  }
  std::sort(ended.begin(), ended.end(), [](const Job* a, const Job* b) {
    return a->record.finished_unix_ms() > b->record.finished_unix_ms();
  });
  if (ended.size() > kMostEndedJobsShown) ended.resize(kMostEndedJobsShown);
  return ended;
}

void AddTimes(const v1::JobRecord& record, const MetricLabels& job, MetricFamilies& families) {
  families.AddGauge("muster_job_submitted_timestamp_seconds", "Time of the job's submission.", job,
                    Seconds(record.submitted_unix_ms()));
  if (record.started_unix_ms() > 0) {
    families.AddGauge("muster_job_started_timestamp_seconds", "Time of the job's first step.", job,
                      Seconds(record.started_unix_ms()));
  }
  if (record.finished_unix_ms() > 0) {
    families.AddGauge("muster_job_ended_timestamp_seconds", "Time of the job's end.", job,
                      Seconds(record.finished_unix_ms()));
  }
}

void AddProgress(const Job& job, const MetricLabels& labels, MetricFamilies& families) {
  const v1::JobRecord& record = job.record;
  const v1::JobProgress progress = job.progress.Progress(record.met().total_steps());
  families.AddGauge("muster_job_step", "Steps that are done; falls when the job goes back.", labels,
                    progress.step());
  if (progress.total_steps() > 0) {
    families.AddGauge("muster_job_planned_steps", "Steps of the whole job.", labels,
                      progress.total_steps());
  }
  const ProgressTracker::Totals& totals = job.progress.totals();
  families.AddCounter("muster_job_steps_total", "Steps made, those that were made again included.",
                      labels, totals.steps);
  families.AddCounter("muster_job_examples_total", "Examples trained on, those again included.",
                      labels, totals.examples);
  if (job.record.spec().update().backup_workers() > 0) {
    families.AddCounter("muster_job_dropped_examples_total",
                        "Examples of workers that steps did not wait for.", labels,
                        totals.dropped_examples);
  }
  if (totals.tokens > 0) {
    families.AddCounter("muster_job_tokens_total", "Tokens of the examples trained on.", labels,
                        totals.tokens);
  }
  const double other = totals.training_seconds - totals.compute_seconds -
                       totals.communication_seconds - totals.data_seconds;
  for (const auto& [part, seconds] :
       {std::pair("compute", totals.compute_seconds),
        std::pair("communication", totals.communication_seconds),
        std::pair("data", totals.data_seconds), std::pair("other", std::max(other, 0.0))}) {
    MetricLabels parts = labels;
    parts.push_back({"part", part});
    families.AddCounter(kSlotSeconds, kSlotSecondsHelp, std::move(parts), seconds);
  }
  if (progress.has_loss()) {
    families.AddGauge("muster_job_loss", "Mean training loss per example since the last report.",
                      labels, progress.loss());
  }
  if (const std::optional<LoadRange> loads = job.progress.expert_loads().Range()) {
    families.AddGauge("muster_job_expert_load_lowest",
                      "Tokens of the least loaded expert of any block over its block's mean.",
                      labels, loads->lowest);
    families.AddGauge("muster_job_expert_load_highest",
                      "Tokens of the most loaded expert of any block over its block's mean.",
                      labels, loads->highest);
  }
}

void AddEvaluations(const v1::JobRecord& record, const MetricLabels& labels,
                    MetricFamilies& families) {
  std::map<std::string, double> last;
  for (const v1::EvaluationResult& each : record.evaluations()) {
    if (each.no_value().empty()) last[each.metric()] = each.value();
  }
  for (const auto& [metric, value] : last) {
    MetricLabels metrics = labels;
    metrics.push_back({"metric", metric});
    families.AddGauge("muster_job_evaluation", "Last value of a metric on held-out data.",
                      std::move(metrics), value);
  }
}

void AddCheckpoints(const v1::JobRecord& record, const MetricLabels& labels,
                    MetricFamilies& families) {
  if (const v1::CheckpointRecord* last = LastSound(record)) {
    families.AddGauge("muster_job_checkpoint_step", "Step of the last sound checkpoint.", labels,
                      last->clock());
    if (last->unix_ms() > 0) {
      families.AddGauge("muster_job_checkpoint_timestamp_seconds",
                        "Time at which the last sound checkpoint was completed.", labels,
                        Seconds(last->unix_ms()));
    }
    if (last->seconds() > 0) {
      families.AddGauge("muster_job_checkpoint_seconds",
                        "Time that writing the last sound checkpoint took.", labels,
                        last->seconds());
    }
  }
  const auto damaged = std::count_if(
      record.checkpoints().begin(), record.checkpoints().end(),
      [](const v1::CheckpointRecord& checkpoint) { return !checkpoint.damage().empty(); });
  families.AddGauge("muster_job_damaged_checkpoints", "Kept checkpoints that are known as damaged.",
                    labels, damaged);
}

// Adds what there is of a job only until its end.
void AddSlots(const Job& job, const MetricLabels& labels, MetricFamilies& families) {
  families.AddGauge("muster_job_slots", "Slots of the job.", labels, job.slots());
  const auto placed =
      std::count_if(job.record.slots().begin(), job.record.slots().end(),
                    [](const v1::SlotRecord& slot) { return !slot.worker_id().empty(); });
  families.AddGauge("muster_job_slots_placed", "Slots that have a worker.", labels, placed);
  const std::vector<std::string> slow = SlowSlots(job.progress.times());
  families.AddGauge(
      "muster_job_slow_slots", "Slots that are slower than the job's others.", labels,
      std::count_if(slow.begin(), slow.end(), [](const std::string& why) { return !why.empty(); }));
  const WaitReason reason =
      job.wait_reason == WaitReason::kNothing && !job.checkpoint_waits_for.empty()
          ? WaitReason::kCheckpoint
          : job.wait_reason;
  if (reason == WaitReason::kNothing) return;
  MetricLabels reasons = labels;
  reasons.push_back({"reason", std::string(NameOf(reason))});
  families.AddGauge("muster_job_waiting", "1: the job does not go on, for this reason.",
                    std::move(reasons), 1);
}

void AddJob(const Job& job, MetricFamilies& families) {
  const v1::JobRecord& record = job.record;
  const MetricLabels labels = {{"job_id", job.id()}};
  families.AddGauge("muster_job_info", "Facts about a job; the value is always 1.",
                    {{"job_id", job.id()},
                     {"name", record.spec().name()},
                     {"owner", record.spec().owner()},
                     {"namespace", record.spec().namespace_()}},
                    1);
  families.AddGauge("muster_job_state", "1 for the job's state.",
                    {{"job_id", job.id()}, {"state", StateName(record.state())}}, 1);
  AddTimes(record, labels, families);
  AddProgress(job, labels, families);
  AddEvaluations(record, labels, families);
  AddCheckpoints(record, labels, families);
}

}  // namespace

void AddJobMetrics(const JobTable& jobs, MetricFamilies& families) {
  std::map<v1::JobState, int> by_state;
  for (int state = v1::PENDING; state <= v1::CANCELLED; ++state) {
    by_state[static_cast<v1::JobState>(state)] = 0;
  }
  for (const auto& [number, job] : jobs.jobs()) {
    ++by_state[job->record.state()];
    if (IsFinal(job->record.state())) continue;
    AddJob(*job, families);
    AddSlots(*job, {{"job_id", job->id()}}, families);
  }
  for (const Job* job : EndedLately(jobs)) AddJob(*job, families);
  for (const auto& [state, count] : by_state) {
    families.AddGauge("muster_jobs", "Jobs that are kept, by state.", {{"state", StateName(state)}},
                      count);
  }
}

}  // namespace muster
