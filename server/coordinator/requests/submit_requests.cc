#include "server/coordinator/requests/submit_requests.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/message_fingerprint.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/job/job_road.h"
#include "common/job/regression.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/size/memory_part.h"
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
#include "server/coordinator/requests/list_jobs.h"

namespace muster {
namespace {

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
  const bool uses = spec.data().has_csv() || RegressionOf(spec.model()) != nullptr;
  if (!uses || !IsFolder(spec.initial_weights())) return "";
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
                   "\", whose manifest says how the data are to be prepared, but the coordinator "
                   "cannot read it: ",
                   preparation.status().message()));
}

// Checks that a job that starts from another one's checkpoint can read it.
absl::Status CheckSameKind(absl::string_view field, const v1::JobSpec& spec,
                           const v1::JobSpec& source) {
  if (RunsProgram(spec) == RunsProgram(source)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " names a job that runs ", RunsProgram(source) ? "a program" : "a model of Muster's",
      ", whose checkpoints only such jobs can read"));
}

}  // namespace

SubmitRequests::SubmitRequests(JobTable& jobs, const Membership& members,
                               const CheckpointArchive& archive, ShipRequests& shipped,
                               SerialExecutor& logic, SerialExecutor& planning,
                               CoordinatorMetrics& metrics, const CoordinatorOptions& options)
    : jobs_(jobs),
      members_(members),
      archive_(archive),
      shipped_(shipped),
      logic_(logic),
      planning_(planning),
      metrics_(metrics),
      options_(options) {}

absl::StatusOr<const Job*> SubmitRequests::FindRequest(const std::string& request_id,
                                                       uint64_t fingerprint) const {
  const Job* job = jobs_.FindRequest(request_id);
  if (job != nullptr && job->record.request_fingerprint() != fingerprint) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id \"", request_id, "\" was used for job ", job->id(),
                     " with another specification; send a new one for a new job"));
  }
  return job;
}

void SubmitRequests::Submit(const v1::SubmitJobRequest& request, Call<v1::SubmitJobReply> call) {
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

absl::Status SubmitRequests::CheckMayRun(const v1::SubmitJobRequest& request) const {
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

absl::StatusOr<v1::SubmitJobReply> SubmitRequests::Accept(
    const std::string& request_id, uint64_t fingerprint,
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

absl::StatusOr<SubmitRequests::Source> SubmitRequests::FindSource(absl::string_view field,
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

absl::Status SubmitRequests::TakeInitialWeights(NewJob& job) const {
  v1::JobRecord& record = job.record;
  const std::string source = record.spec().initial_weights();
  // The client and the servers check that a checkpoint is there.
  if (IsFolder(source)) {
    record.set_initial_uri(source);
  } else {
    MUSTER_ASSIGN_OR_RETURN(const Source found, FindSource("initial_weights", source));
    MUSTER_RETURN_IF_ERROR(
        CheckSameKind("initial_weights", record.spec(), found.job->record.spec()));
    if (record.spec().averaged_weights() &&
        found.job->record.spec().optimizer().average_decay() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "averaged_weights is true, but job ", found.job->id(),
          ", which initial_weights names, kept no averages (its optimizer.average_decay is 0); "
          "leave averaged_weights out to start from its weights"));
    }
    record.mutable_spec()->set_initial_weights(found.by_id);
    record.set_initial_uri(found.checkpoint->uri());
    job.data_preparation = found.job->data_preparation;
    if (OnlyEvaluates(record.spec())) ExpectDataOf(found.job->record, record);
  }
  StartFromLast(record);
  return absl::OkStatus();
}

absl::Status SubmitRequests::Resume(NewJob& job) const {
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
  SetPositions(found.job->record, checkpoint.clock(), record);
  for (const v1::Adjustment& each : found.job->record.adjustments()) {
    if (each.clock() > checkpoint.clock()) continue;
    v1::Adjustment& taken = *record.add_adjustments();
    taken = each;
    // The positions tell of examples that were passed over.
    taken.clear_skipped_examples();
    if (!spec.has_adaptive_batch()) taken.clear_batch_size();
    if (!spec.has_balance()) taken.clear_shares();
  }
  ExpectDataOf(found.job->record, record);
  StartFromLast(record);
  for (int slot = 0; slot < record.slots_size(); ++slot) {
    record.mutable_progress()->add_clocks(checkpoint.clock());
  }
  return absl::OkStatus();
}

absl::StatusOr<SubmitRequests::NewJob> SubmitRequests::MakeJob(const PlannedJob& planned) const {
  NewJob job;
  job.data_preparation = planned.data_preparation;
  v1::JobRecord& record = job.record;
  *record.mutable_spec() = planned.spec;
  record.mutable_given()->Assign(planned.given.begin(), planned.given.end());
  record.set_state(v1::PENDING);
  record.set_generation(1);
  record.set_submitted_unix_ms(jobs_.NowUnixMs());
  for (uint32_t slot = 0; slot < MostWorkers(record.spec()); ++slot) {
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

}  // namespace muster
