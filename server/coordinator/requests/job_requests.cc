#include "server/coordinator/requests/job_requests.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/name_validator.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/requests/job_status.h"
#include "server/coordinator/requests/list_jobs.h"

namespace muster {
namespace {

constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);
constexpr uint64_t kMaxLogChunkBytes = 256 << 10;
// Time for tasks to report their collective calls.
constexpr absl::Duration kCollectivesWait = absl::Seconds(2);
constexpr absl::Duration kRetireAgainAfter = absl::Minutes(1);

std::optional<uint32_t> SlotOf(const v1::ReadLogsRequest& request) {
  return request.has_slot() ? std::optional<uint32_t>(request.slot()) : std::nullopt;
}

absl::Status CheckSlot(const Job& job, std::optional<uint32_t> slot) {
  if (!slot.has_value() || *slot < job.slots()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "job ", job.id(), " has no slot ", *slot, "; it has ",
      job.slots() == 1 ? "slot 0 alone" : absl::StrCat("slots 0 to ", job.slots() - 1)));
}

absl::Status GoneError() { return absl::CancelledError("the caller is gone"); }

}  // namespace

JobRequests::JobRequests(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
                         CheckpointLifecycle& checkpoints, const Clock& clock,
                         CoordinatorMetrics& metrics, const CoordinatorOptions& options,
                         std::function<bool(const Job&)> may_write)
    : jobs_(jobs),
      members_(members),
      lifecycle_(lifecycle),
      checkpoints_(checkpoints),
      clock_(clock),
      metrics_(metrics),
      options_(options),
      may_write_(std::move(may_write)) {}

absl::StatusOr<Job*> JobRequests::Find(const std::string& job_id) const {
  Job* job = jobs_.Find(job_id);
  if (job == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("there is no job \"", job_id, "\"; `muster list` shows all jobs"));
  }
  return job;
}

absl::StatusOr<v1::JobStatus> JobRequests::Get(const std::string& job_id) const {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, Find(job_id));
  return StatusOf(*job, jobs_.NowUnixMs());
}

absl::StatusOr<v1::ListJobsReply> JobRequests::List(const v1::ListJobsRequest& request) const {
  return ListJobs(jobs_, request);
}

absl::StatusOr<v1::ListEventsReply> JobRequests::Events(const std::string& job_id) const {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, Find(job_id));
  v1::ListEventsReply reply;
  reply.mutable_events()->Assign(job->events.begin(), job->events.end());
  return reply;
}

absl::StatusOr<v1::JobStatus> JobRequests::Cancel(const v1::CancelJobRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(Job * job, Find(request.job_id()));
  // A cancelled job is no error: this call may repeat one whose answer was lost.
  if (IsFinal(job->record.state()) && job->record.state() != v1::CANCELLED) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id(), " has already ended as ", v1::JobState_Name(job->record.state()),
        " at step ", job->progress.step(), "; there is nothing left to cancel"));
  }
  MUSTER_RETURN_IF_ERROR(lifecycle_.Cancel(*job, request.reason()));
  return StatusOf(*job, jobs_.NowUnixMs());
}

void JobRequests::Delete(const std::string& job_id, Call<v1::DeleteJobReply> call) {
  const absl::StatusOr<Job*> job = Find(job_id);
  if (!job.ok()) return call.done(job.status());
  if (absl::Status status = checkpoints_.CheckRemovable(**job); !status.ok()) {
    return call.done(status);
  }
  checkpoints_.RemoveJob(**job, [call = std::move(call)](absl::Status removed) {
    if (removed.ok()) {
      call.done(v1::DeleteJobReply());
    } else {
      call.done(removed);
    }
  });
}

absl::StatusOr<v1::JobStatus> JobRequests::Describe(const v1::DescribeJobRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(Job * job, Find(request.job_id()));
  // By itself: an older release may have taken names that would be refused today.
  v1::JobSpec described;
  described.set_description(request.description());
  MUSTER_RETURN_IF_ERROR(ValidateNames(described));
  JobChange change{.record = job->record};
  change.record.mutable_spec()->set_description(request.description());
  MUSTER_RETURN_IF_ERROR(jobs_.Commit(*job, std::move(change)));
  return StatusOf(*job, jobs_.NowUnixMs());
}

v1::GetClusterReply JobRequests::Cluster() const {
  v1::GetClusterReply reply;
  for (v1::DaemonStatus& daemon : DaemonsOf(jobs_, members_, clock_.Monotonic())) {
    *reply.add_daemons() = std::move(daemon);
  }
  return reply;
}

v1::GetMetricsReply JobRequests::Metrics() const {
  v1::GetMetricsReply reply;
  reply.set_text(GatherMetrics().Text());
  return reply;
}

GatheredMetrics JobRequests::GatherMetrics() const { return metrics_.Gather(jobs_, members_); }

void JobRequests::NextStatus(const std::string& job_id, uint64_t seen_version,
                             Call<StatusUpdate> call) {
  const absl::Duration now = clock_.Monotonic();
  Watcher watcher{.job_id = job_id,
                  .seen_version = seen_version,
                  .not_before = seen_version == 0 ? now : now + kWatchInterval,
                  .call = std::move(call)};
  if (!Answer(watcher)) watchers_.push_back(std::move(watcher));
}

bool JobRequests::HasLastText(Job& job) const {
  if (!IsFinal(job.record.state())) return false;
  if (!job.log_open_until.has_value()) return true;
  if (clock_.Monotonic() < *job.log_open_until && may_write_(job)) return false;
  job.log_open_until.reset();
  return true;
}

bool JobRequests::Answer(Watcher& watcher) const {
  if (watcher.call.gone()) {
    watcher.call.done(GoneError());
    return true;
  }
  const absl::StatusOr<Job*> job = Find(watcher.job_id);
  if (!job.ok()) {
    watcher.call.done(job.status());
    return true;
  }
  const bool last = HasLastText(**job);
  if ((*job)->status_version == watcher.seen_version ||
      (!last && (IsFinal((*job)->record.state()) || clock_.Monotonic() < watcher.not_before))) {
    return false;
  }
  watcher.call.done(StatusUpdate{StatusOf(**job, jobs_.NowUnixMs()), (*job)->status_version, last});
  return true;
}

void JobRequests::NextLog(const v1::ReadLogsRequest& request, Call<LogUpdate> call) {
  LogReader reader{.request = request, .call = std::move(call)};
  if (const Job* job = jobs_.Find(request.job_id()); job != nullptr) BeginAt(*job, reader.request);
  if (!Answer(reader)) log_readers_.push_back(std::move(reader));
}

void JobRequests::BeginAt(const Job& job, v1::ReadLogsRequest& request) const {
  if (request.since_ms() == 0 && !request.has_tail_lines()) return;
  JobLog::Part part{.slot = SlotOf(request)};
  if (request.has_tail_lines()) part.tail_lines = request.tail_lines();
  if (request.since_ms() > 0) {
    // Nothing is older than the epoch.
    const uint64_t now = std::max<int64_t>(jobs_.NowUnixMs(), 0);
    part.since_unix_ms = static_cast<int64_t>(now - std::min<uint64_t>(request.since_ms(), now));
  }
  request.set_offset(std::max(request.offset(), job.log.StartOf(part)));
  request.clear_since_ms();
  request.clear_tail_lines();
}

bool JobRequests::Answer(LogReader& reader) const {
  if (reader.call.gone()) {
    reader.call.done(GoneError());
    return true;
  }
  const absl::StatusOr<Job*> job = Find(reader.request.job_id());
  if (!job.ok()) {
    reader.call.done(job.status());
    return true;
  }
  if (const absl::Status exists = CheckSlot(**job, SlotOf(reader.request)); !exists.ok()) {
    reader.call.done(exists);
    return true;
  }
  JobLog::Excerpt excerpt =
      (*job)->log.Read(reader.request.offset(), kMaxLogChunkBytes, SlotOf(reader.request));
  const bool at_end = excerpt.next >= (*job)->log.end();
  const bool last = at_end && (!reader.request.follow() || HasLastText(**job));
  if (excerpt.text.empty() && !last) {
    // Skips text of other slots for good.
    if (excerpt.missing == 0) reader.request.set_offset(excerpt.next);
    return false;
  }
  LogUpdate update;
  update.chunk.set_offset(excerpt.offset);
  update.chunk.set_text(std::move(excerpt.text));
  update.chunk.set_missing_bytes(excerpt.missing);
  update.chunk.set_next_offset(excerpt.next);
  update.last = last;
  reader.call.done(std::move(update));
  return true;
}

void JobRequests::ListCollectives(const std::string& job_id, Call<v1::ListCollectivesReply> call) {
  const absl::StatusOr<Job*> job = Find(job_id);
  if (!job.ok()) return call.done(job.status());
  CollectivesReader reader{.job_id = job_id,
                           .question = (*job)->collectives.Ask(),
                           .deadline = clock_.Monotonic() + kCollectivesWait,
                           .call = std::move(call)};
  if (!Answer(reader)) collectives_readers_.push_back(std::move(reader));
}

bool JobRequests::Answer(CollectivesReader& reader) const {
  if (reader.call.gone()) {
    reader.call.done(GoneError());
    return true;
  }
  const absl::StatusOr<Job*> found = Find(reader.job_id);
  if (!found.ok()) {
    reader.call.done(found.status());
    return true;
  }
  const Job& job = **found;
  const bool may_tell = IsActive(job.record.state()) && TrainsInRounds(job.record.spec()) &&
                        clock_.Monotonic() < reader.deadline;
  for (uint32_t slot = 0; may_tell && slot < job.slots(); ++slot) {
    const v1::SlotRecord& holder = job.record.slots(slot);
    // Only a task that reports progress can be asked.
    const bool asked = !holder.done() && !holder.worker_id().empty() && job.tasks[slot].heard;
    if (asked && !job.collectives.HasTold(slot, reader.question)) return false;
  }
  v1::ListCollectivesReply reply;
  for (v1::SlotCollectives& slot : job.collectives.List()) *reply.add_slots() = std::move(slot);
  reader.call.done(std::move(reply));
  return true;
}

void JobRequests::Retire() {
  if (clock_.Monotonic() < retire_after_) return;
  std::vector<Job*> without_checkpoint, with_checkpoints;
  for (const auto& [number, job] : jobs_.jobs()) {
    if (!IsFinal(job->record.state()) || job->removing) continue;
    // A damaged checkpoint counts: its files may be restored from a backup.
    const bool trained = !job->record.checkpoints().empty();
    (trained ? with_checkpoints : without_checkpoint).push_back(job.get());
  }
  RetireBeyond(options_.ended_without_checkpoint_kept, std::move(without_checkpoint),
               "it has no checkpoint, and as many later jobs as are kept have none either "
               "(--keep-jobs-without-checkpoint)");
  if (!options_.ended_with_checkpoints_kept.has_value()) return;
  RetireBeyond(*options_.ended_with_checkpoints_kept, std::move(with_checkpoints),
               "with its checkpoints, as many later jobs as are kept have some (--keep-jobs)");
}

void JobRequests::RetireBeyond(size_t kept, std::vector<Job*> ended, const std::string& why) {
  if (ended.size() <= kept) return;
  // Ordered by time of end, so that a long job is not removed as soon as it ends.
  std::sort(ended.begin(), ended.end(), [](const Job* a, const Job* b) {
    return std::pair(a->record.finished_unix_ms(), a->record.number()) >
           std::pair(b->record.finished_unix_ms(), b->record.number());
  });
  for (size_t i = kept; i < ended.size(); ++i) {
    if (!checkpoints_.CheckRemovable(*ended[i]).ok()) continue;
    const std::string job =
        absl::StrCat("job ", ended[i]->id(), " (\"", ended[i]->record.spec().name(), "\", ",
                     v1::JobState_Name(ended[i]->record.state()), ")");
    checkpoints_.RemoveJob(*ended[i], [this, job, why](absl::Status removed) {
      if (removed.ok()) {
        metrics_.retired.Increment();
      } else {
        retire_after_ = clock_.Monotonic() + kRetireAgainAfter;
      }
      if (options_.log == nullptr) return;
      options_.log(removed.ok() ? absl::StrCat(job, " is retired: ", why)
                                : absl::StrCat(job, " cannot be retired, tried again in ",
                                               absl::FormatDuration(kRetireAgainAfter), ": ",
                                               removed.message()));
    });
  }
}

void JobRequests::AnswerChanged() {
  std::erase_if(watchers_, [this](Watcher& watcher) { return Answer(watcher); });
  std::erase_if(log_readers_, [this](LogReader& reader) { return Answer(reader); });
  std::erase_if(collectives_readers_, [this](CollectivesReader& reader) { return Answer(reader); });
}

void JobRequests::AnswerAll(const absl::Status& status) {
  for (Watcher& watcher : std::exchange(watchers_, {})) watcher.call.done(status);
  for (LogReader& reader : std::exchange(log_readers_, {})) reader.call.done(status);
  for (CollectivesReader& reader : std::exchange(collectives_readers_, {})) {
    reader.call.done(status);
  }
}

}  // namespace muster
