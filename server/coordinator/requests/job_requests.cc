#include "server/coordinator/requests/job_requests.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/message_fingerprint.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/job/job_road.h"
#include "common/job/job_validator.h"
#include "common/job/name_validator.h"
#include "common/plan/memory_part.h"
#include "common/plan/memory_plan.h"
#include "common/program/program_proof.h"
#include "common/transport/keyed_hash.h"
#include "server/coordinator/checkpoints/best_checkpoint.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/placement.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/job/request_limits.h"
#include "server/coordinator/job/training_data.h"
#include "server/coordinator/lifecycle/recovery.h"
#include "server/coordinator/requests/hidden_environment.h"
#include "server/coordinator/requests/job_status.h"
#include "server/coordinator/requests/list_jobs.h"

namespace muster {
namespace {

constexpr absl::Duration kWatchInterval = absl::Milliseconds(250);
constexpr uint64_t kMaxLogChunkBytes = 256 << 10;
// Time for tasks to report their collective calls.
constexpr absl::Duration kCollectivesWait = absl::Seconds(2);
constexpr absl::Duration kRetireAgainAfter = absl::Minutes(1);
// Most specifications that wait to be checked, each of at most 256 KiB.
constexpr size_t kMaxInPlanning = 64;

// Checks that the job fits when nothing else runs.
absl::Status CheckWholeCluster(const Demand& demand, const MemoryPlan& plan,
                               const ClusterCapacity& whole) {
  const absl::Status fits = FitsEmpty(demand, whole);
  if (fits.ok()) return absl::OkStatus();
  Demand without_tables = demand;
  without_tables.server_bytes = 0;
  const bool short_of_server_memory = FitsEmpty(without_tables, whole).ok();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the job does not fit this cluster even when nothing else runs: ", fits.message(),
      short_of_server_memory
          ? absl::StrCat("; all servers together need:\n", MemoryTable(plan.servers, "  "))
          : "; ",
      "ask for less, or start more daemons first"));
}

v1::SubmitJobReply ReplyFor(const Job& job) {
  v1::SubmitJobReply reply;
  reply.set_job_id(job.id());
  return reply;
}

// Says for people that a resumed job may have other data than its source; empty if not.
std::string FreeData(const v1::JobRecord& record) {
  const std::string& source = record.spec().resume_from();
  if (source.empty() || record.has_expected_data()) return "";
  return absl::StrCat("; its data need not be those of ", source);
}

// Returns whether `initial_weights` names a folder: no job id looks like this.
bool IsFolder(absl::string_view initial_weights) {
  return absl::StartsWith(initial_weights, "/") || absl::StartsWith(initial_weights, "file://");
}

// Returns how the data of the weights in a folder were prepared, for jobs whose reader uses that.
// Empty for all others: the coordinator need not be able to read their folder.
absl::StatusOr<std::string> PreparationInFolder(const v1::JobSpec& spec,
                                                const CheckpointArchive& archive) {
  if (!spec.data().has_csv() || !IsFolder(spec.initial_weights())) return "";
  absl::StatusOr<std::string> preparation = archive.DataPreparation(spec.initial_weights());
  if (preparation.ok() && preparation->size() > kMostPreparationBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "initial_weights is \"", spec.initial_weights(), "\", whose manifest has a preparation of ",
        preparation->size(), " bytes; at most ", kMostPreparationBytes,
        " are taken, and Muster writes no larger one: is the manifest Muster's?"));
  }
  if (preparation.ok()) return preparation;
  return absl::Status(
      preparation.status().code(),
      absl::StrCat("initial_weights is \"", spec.initial_weights(),
                   "\", whose manifest says how data.csv is to be prepared, but the coordinator "
                   "cannot read it: ",
                   preparation.status().message()));
}

std::optional<uint32_t> SlotOf(const v1::ReadLogsRequest& request) {
  return request.has_slot() ? std::optional<uint32_t>(request.slot()) : std::nullopt;
}

absl::Status CheckSlot(const Job& job, std::optional<uint32_t> slot) {
  if (!slot.has_value() || *slot < job.slots()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "job ", job.id(), " has no slot ", *slot, "; it has ",
      job.slots() == 1 ? "slot 0 alone" : absl::StrCat("slots 0 to ", job.slots() - 1)));
}

// Checks that a job that starts from another one's checkpoint can read it.
absl::Status CheckSameKind(absl::string_view field, const v1::JobSpec& spec,
                           const v1::JobSpec& source) {
  if (RunsProgram(spec) == RunsProgram(source)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " names a job that runs ", RunsProgram(source) ? "a program" : "a model of Muster's",
      ", whose checkpoints only such jobs can read"));
}

absl::Status GoneError() { return absl::CancelledError("the caller is gone"); }

}  // namespace

JobRequests::JobRequests(JobTable& jobs, const Membership& members, JobLifecycle& lifecycle,
                         CheckpointLifecycle& checkpoints, const CheckpointArchive& archive,
                         ShipRequests& shipped, SerialExecutor& logic, SerialExecutor& planning,
                         const Clock& clock, CoordinatorMetrics& metrics,
                         const CoordinatorOptions& options,
                         std::function<bool(const Job&)> may_write)
    : jobs_(jobs),
      members_(members),
      lifecycle_(lifecycle),
      checkpoints_(checkpoints),
      archive_(archive),
      shipped_(shipped),
      logic_(logic),
      planning_(planning),
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

absl::StatusOr<const Job*> JobRequests::FindRequest(const std::string& request_id,
                                                    uint64_t fingerprint) const {
  const Job* job = jobs_.FindRequest(request_id);
  if (job != nullptr && job->record.request_fingerprint() != fingerprint) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id \"", request_id, "\" was used for job ", job->id(),
                     " with another specification; send a new one for a new job"));
  }
  return job;
}

void JobRequests::Submit(const v1::SubmitJobRequest& request, Call<v1::SubmitJobReply> call) {
  if (request.request_id().empty()) {
    return call.done(absl::InvalidArgumentError(
        "request_id is empty; send a random string, the same one when the call is repeated"));
  }
  if (absl::Status allowed = CheckMayRun(request); !allowed.ok()) return call.done(allowed);
  const uint64_t fingerprint = FingerprintOf(request.spec());
  const absl::StatusOr<const Job*> known = FindRequest(request.request_id(), fingerprint);
  if (!known.ok()) return call.done(known.status());
  if (*known != nullptr) return call.done(ReplyFor(**known));
  if (absl::Status stays = shipped_.CheckStays(request.spec()); !stays.ok()) {
    return call.done(stays);
  }
  if (in_planning_ == kMaxInPlanning) {
    return call.done(absl::UnavailableError(
        absl::StrCat(in_planning_, " submitted jobs are being checked; try again soon")));
  }
  ++in_planning_;
  planning_.Post([this, request, fingerprint, whole = WholeCapacityOf(members_),
                  call = std::move(call)]() mutable {
    absl::StatusOr<PlannedJob> planned =
        CatchOutOfMemory("the call", [&]() -> absl::StatusOr<PlannedJob> {
          MUSTER_ASSIGN_OR_RETURN(PlannedJob job, PlanJob(request.spec(), whole));
          MUSTER_ASSIGN_OR_RETURN(job.data_preparation, PreparationInFolder(job.spec, archive_));
          MUSTER_RETURN_IF_ERROR(shipped_.CheckThere(job.spec));
          return job;
        });
    logic_.Post([this, request_id = request.request_id(), fingerprint, planned = std::move(planned),
                 call = std::move(call)] {
      --in_planning_;
      call.done(Accept(request_id, fingerprint, planned));
    });
  });
}

absl::Status JobRequests::CheckMayRun(const v1::SubmitJobRequest& request) const {
  if (!RunsProgram(request.spec())) return absl::OkStatus();
  if (options_.program_token.empty()) {
    return absl::PermissionDeniedError(
        "the job runs a program (model.program), and this cluster takes none: its coordinator has "
        "no --program-token-file (`muster up --allow-programs` gives it one)");
  }
  if (SameHash(request.program_proof(), ProofOfSubmit(request, options_.program_token))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the job runs a program (model.program), but program_proof is ",
                   request.program_proof().empty() ? "empty" : "not the right one",
                   "; make it with the content of the coordinator's --program-token-file"));
}

absl::StatusOr<v1::SubmitJobReply> JobRequests::Accept(const std::string& request_id,
                                                       uint64_t fingerprint,
                                                       const absl::StatusOr<PlannedJob>& planned) {
  MUSTER_RETURN_IF_ERROR(planned.status());
  // The same call may have come twice while the first one was planned.
  MUSTER_ASSIGN_OR_RETURN(const Job* known, FindRequest(request_id, fingerprint));
  if (known != nullptr) return ReplyFor(*known);
  MUSTER_ASSIGN_OR_RETURN(NewJob made, MakeJob(*planned));
  v1::JobRecord& record = made.record;
  record.set_request_id(request_id);
  record.set_request_fingerprint(fingerprint);
  const std::string event = absl::StrCat("submitted", record.spec().owner().empty() ? "" : " by ",
                                         record.spec().owner(), FreeData(record), planned->assumed);
  MUSTER_ASSIGN_OR_RETURN(const Job* job,
                          jobs_.Create(std::move(record), event, std::move(made.data_preparation)));
  shipped_.Claim(job->record.spec());
  metrics_.submitted.Increment();
  return ReplyFor(*job);
}

absl::StatusOr<JobRequests::Source> JobRequests::FindSource(absl::string_view field,
                                                            const std::string& text) const {
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(text));
  const Job* job = FindJobCalled(jobs_, name.job_id);
  if (job == nullptr) {
    return absl::NotFoundError(absl::StrCat(field, " is \"", text,
                                            "\", but no job has the id or the name \"", name.job_id,
                                            "\"; `muster list` shows all jobs"));
  }
  const absl::StatusOr<const v1::CheckpointRecord*> found = FindNamedCheckpoint(job->record, name);
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat(field, " is \"", text, "\", but ", found.status().message()));
  }
  // The best may be another one later.
  const bool last = !name.clock.has_value() && !name.best;
  return Source{job, *found, last ? job->id() : absl::StrCat(job->id(), "@", (*found)->clock())};
}

absl::Status JobRequests::TakeInitialWeights(NewJob& job) const {
  v1::JobRecord& record = job.record;
  const std::string source = record.spec().initial_weights();
  // The client and the servers check that a checkpoint is there.
  if (IsFolder(source)) {
    record.set_initial_uri(source);
  } else {
    MUSTER_ASSIGN_OR_RETURN(const Source found, FindSource("initial_weights", source));
    MUSTER_RETURN_IF_ERROR(
        CheckSameKind("initial_weights", record.spec(), found.job->record.spec()));
    record.mutable_spec()->set_initial_weights(found.by_id);
    record.set_initial_uri(found.checkpoint->uri());
    job.data_preparation = found.job->data_preparation;
    if (OnlyEvaluates(record.spec())) ExpectDataOf(found.job->record, record);
  }
  StartFromLast(record);
  return absl::OkStatus();
}

absl::Status JobRequests::Resume(NewJob& job) const {
  v1::JobRecord& record = job.record;
  const v1::JobSpec& spec = record.spec();
  MUSTER_ASSIGN_OR_RETURN(const Source found, FindSource("resume_from", spec.resume_from()));
  MUSTER_RETURN_IF_ERROR(CheckSameKind("resume_from", spec, found.job->record.spec()));
  record.mutable_spec()->set_resume_from(found.by_id);
  TakeHiddenValues(found.job->record.spec(), *record.mutable_spec());
  const v1::CheckpointRecord& checkpoint = *found.checkpoint;
  const std::string& trained_by = found.job->record.spec().optimizer().name();
  if (spec.optimizer().name() != trained_by) {
    return absl::InvalidArgumentError(absl::StrCat(
        "resume_from is \"", spec.resume_from(), "\", which was trained by ", trained_by,
        ", but optimizer.name is ", spec.optimizer().name(),
        ", which has other state; keep the optimizer, or name the job as initial_weights"));
  }
  if (spec.stop().steps() > 0 && spec.stop().steps() <= checkpoint.clock()) {
    return absl::InvalidArgumentError(
        absl::StrCat("resume_from is \"", spec.resume_from(), "\", which is at step ",
                     checkpoint.clock(), ", but stop.steps is ", spec.stop().steps(),
                     ", so nothing is left to train; stop later (it counts from the first job's "
                     "beginning), or go on from an earlier checkpoint"));
  }
  if (const v1::JobSpec& source = found.job->record.spec();
      spec.data().shuffle_holdout() && spec.data().holdout() > 0 && spec.data().holdout() < 1 &&
      spec.seed() != source.seed()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "resume_from is \"", spec.resume_from(), "\", whose seed is ", source.seed(),
        ", but seed is ", spec.seed(),
        ", which would hold out other examples (data.shuffle_holdout); keep the seed"));
  }
  record.set_initial_uri(checkpoint.uri());
  job.data_preparation = found.job->data_preparation;
  record.set_initial_resumes(true);
  record.set_initial_clock(checkpoint.clock());
  record.set_initial_examples(ExamplesSeen(found.job->record, checkpoint.clock()));
  ExpectDataOf(found.job->record, record);
  StartFromLast(record);
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    record.mutable_progress()->add_clocks(checkpoint.clock());
  }
  return absl::OkStatus();
}

absl::StatusOr<JobRequests::NewJob> JobRequests::MakeJob(const PlannedJob& planned) const {
  NewJob job;
  job.data_preparation = planned.data_preparation;
  v1::JobRecord& record = job.record;
  *record.mutable_spec() = planned.spec;
  record.mutable_given()->Assign(planned.given.begin(), planned.given.end());
  record.set_state(v1::PENDING);
  record.set_generation(1);
  record.set_submitted_unix_ms(jobs_.NowUnixMs());
  for (uint32_t slot = 0; slot < record.spec().workers(); ++slot) {
    record.add_slots()->set_incarnation(1);
  }
  if (!record.spec().initial_weights().empty()) {
    MUSTER_RETURN_IF_ERROR(TakeInitialWeights(job));
  }
  if (!record.spec().resume_from().empty()) MUSTER_RETURN_IF_ERROR(Resume(job));
  MUSTER_RETURN_IF_ERROR(CheckNothingHidden(record.spec()));
  const MemoryPlan& plan = planned.plan;
  record.set_predicted_server_bytes(plan.server_bytes());
  record.set_predicted_worker_bytes(plan.worker_own_bytes() * record.spec().workers());
  record.set_predicted_device_bytes(plan.device_bytes());
  record.set_flops_per_example(planned.flops_per_example);

  MUSTER_RETURN_IF_ERROR(
      CheckWholeCluster(DemandOf(record, jobs_), plan, WholeCapacityOf(members_)));
  size_t unfinished = 0;
  for (const auto& [number, other] : jobs_.jobs()) {
    unfinished += !IsFinal(other->record.state());
  }
  if (unfinished >= options_.max_unfinished_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat(unfinished, " jobs wait or run already; the limit is ",
                     options_.max_unfinished_jobs, ": submit again when some have ended"));
  }
  return job;
}

absl::StatusOr<v1::JobStatus> JobRequests::Get(const std::string& job_id) const {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, Find(job_id));
  return StatusOf(*job);
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
  return StatusOf(*job);
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
  return StatusOf(*job);
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

MetricFamilies JobRequests::GatherMetrics() const { return metrics_.Gather(jobs_, members_); }

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
  watcher.call.done(StatusUpdate{StatusOf(**job), (*job)->status_version, last});
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
