#include "common/job/validation/job_validator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/job/job_road.h"
#include "common/job/sequence_sources.h"
#include "common/job/validation/adapter_validator.h"
#include "common/job/validation/backup_workers_validator.h"
#include "common/job/validation/balance_validator.h"
#include "common/job/validation/batch_validator.h"
#include "common/job/validation/context_validator.h"
#include "common/job/validation/device_validator.h"
#include "common/job/validation/divergence_validator.h"
#include "common/job/validation/elastic_validator.h"
#include "common/job/validation/expert_validator.h"
#include "common/job/validation/invalid.h"
#include "common/job/validation/model_validator.h"
#include "common/job/validation/name_validator.h"
#include "common/job/validation/pipeline_validator.h"
#include "common/job/validation/program_validator.h"
#include "common/job/validation/sparse_tables_validator.h"
#include "common/job/validation/tensor_validator.h"
#include "common/job/validation/verify_validator.h"
#include "common/job/validation/zero_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/optim/optimizer.h"
#include "common/optim/schedule.h"
#include "common/partition/schema.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint32_t kMaxWorkers = 4096;
constexpr uint32_t kMaxPartitions = 4096;
// The coordinator keeps the last 1,000 evaluations of a job
// (server/coordinator/requests/task_requests.cc).
constexpr uint32_t kMostPatience = 999;
// A block travels in one message, whose limit is 64 MiB.
constexpr uint64_t kMaxBlockBytes = 32 << 20;
constexpr uint32_t kDefaultCheckpointsKept = 2;
constexpr uint64_t kDefaultFirstBucketBytes = 1 << 20;
constexpr uint64_t kDefaultBucketBytes = 25 << 20;
constexpr uint64_t kMaxBucketBytes = 1 << 30;
// Positions in the stream of examples stay within a signed 64-bit number
// (worker/data/sampling/steps.h).
constexpr uint64_t kMostExamples = (uint64_t{1} << 62) - 1;

void FillWorkers(v1::JobSpec& spec) {
  if (spec.workers() == 0) spec.set_workers(1);
}

// Checks examples that are evaluated and not trained on: a reader of the same kind, or a share.
absl::Status ValidateValidation(const v1::JobSpec& spec) {
  if (!spec.has_validation()) return absl::OkStatus();
  if (spec.data().holdout() > 0) {
    return Invalid("data.holdout", spec.data().holdout(),
                   "but the job has validation data, which it is evaluated on; leave one of the "
                   "two out");
  }
  if (spec.validation().holdout() > 0) {
    return Invalid("validation.holdout", spec.validation().holdout(),
                   "all of these examples are evaluated; leave it out");
  }
  if (spec.validation().reader_case() != spec.data().reader_case() &&
      !(HasSequences(spec.validation()) && HasSequences(spec.data()))) {
    return absl::InvalidArgumentError(
        "validation has another reader than data, or none; give it the same one");
  }
  return absl::OkStatus();
}

absl::Status ValidateData(const v1::JobSpec& spec) {
  const double holdout = spec.data().holdout();
  if (!(holdout >= 0 && holdout <= 1)) {
    return Invalid("data.holdout", holdout, "it is a share of the examples, in [0, 1]");
  }
  MUSTER_RETURN_IF_ERROR(ValidateValidation(spec));
  if (Evaluates(spec)) return absl::OkStatus();
  constexpr absl::string_view kNothing =
      "but there is nothing to evaluate on; hold out a share (data.holdout), or name other data "
      "(validation)";
  if (spec.evaluation().every_steps() > 0) {
    return Invalid("evaluation.every_steps", spec.evaluation().every_steps(), kNothing);
  }
  if (spec.stop().has_target()) return Invalid("stop.target", spec.stop().target(), kNothing);
  return absl::OkStatus();
}

absl::Status ValidateClipping(const v1::JobSpec& spec) {
  const v1::ClippingSpec& clipping = spec.clipping();
  if (!(clipping.by_value() >= 0) || std::isinf(clipping.by_value())) {
    return Invalid("clipping.by_value", clipping.by_value(),
                   "give a positive limit, or 0 for none");
  }
  if (!(clipping.by_global_norm() >= 0) || std::isinf(clipping.by_global_norm())) {
    return Invalid("clipping.by_global_norm", clipping.by_global_norm(),
                   "give a positive limit, or 0 for none");
  }
  if (clipping.by_global_norm() > 0 && !IsBsp(spec.update())) {
    return Invalid("clipping.by_global_norm", clipping.by_global_norm(),
                   absl::StrCat("but the update is ", PolicyName(spec),
                                ": its pushes are applied one by one, so there is no one gradient "
                                "whose norm could be taken; use BSP (staleness_bound 0), or "
                                "clipping.by_value"));
  }
  if (clipping.measure_norm() && !IsBsp(spec.update())) {
    return Invalid("clipping.measure_norm", "true",
                   absl::StrCat("but the update is ", PolicyName(spec),
                                ": its pushes are applied one by one, so there is no one gradient "
                                "whose norm could be taken; use BSP (staleness_bound 0)"));
  }
  return absl::OkStatus();
}

// Longest chain of checkpoints, which are kept, and read by a restore, together.
constexpr uint32_t kMostDeltas = 64;

absl::Status ValidateCheckpoints(const v1::JobSpec& spec) {
  if (spec.checkpoint().full_every() > 1 && TrainsByAllReduce(spec)) {
    return Invalid("checkpoint.full_every", spec.checkpoint().full_every(),
                   "but update.dense is ALL_REDUCE, whose checkpoints are whole; leave it out");
  }
  if (spec.checkpoint().full_every() > kMostDeltas) {
    return Invalid(
        "checkpoint.full_every", spec.checkpoint().full_every(),
        absl::StrCat("which makes chains of deltas too long to restore; at most ", kMostDeltas));
  }
  if (spec.averaged_weights() && spec.initial_weights().empty()) {
    return Invalid("averaged_weights", "true",
                   "but initial_weights is empty; name the job there whose averages to start from");
  }
  if (spec.resume_from().empty()) return absl::OkStatus();
  if (const absl::Status name = ParseCheckpointName(spec.resume_from()).status(); !name.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("resume_from is ", name.message()));
  }
  if (!spec.initial_weights().empty()) {
    return Invalid("resume_from", spec.resume_from(),
                   absl::StrCat("but initial_weights is ", spec.initial_weights(),
                                "; name one of the two: where to go on, or what to start from"));
  }
  if (spec.stop().evaluate_only()) {
    return Invalid("resume_from", spec.resume_from(),
                   "but stop.evaluate_only goes nowhere; name the job as initial_weights");
  }
  return absl::OkStatus();
}

absl::Status ValidateRoads(const v1::UpdateSpec& update) {
  const struct {
    absl::string_view field;
    v1::UpdateSpec::Road road;
  } roads[] = {{"update.dense", update.dense()}, {"update.sparse", update.sparse()}};
  for (const auto& [field, road] : roads) {
    if (!v1::UpdateSpec::Road_IsValid(road)) {
      return Invalid(field, static_cast<int>(road), "it must be PARAMETER_SERVER or ALL_REDUCE");
    }
  }
  if (update.sparse() == v1::UpdateSpec::ALL_REDUCE &&
      update.dense() != v1::UpdateSpec::ALL_REDUCE) {
    return Invalid("update.sparse", "ALL_REDUCE",
                   "but update.dense is PARAMETER_SERVER; take ALL_REDUCE for both, or for dense "
                   "alone (hybrid: sparse tables on servers)");
  }
  return absl::OkStatus();
}

absl::Status ValidateBucket(absl::string_view field, uint64_t bytes, uint64_t usual) {
  if (bytes % 4 == 0 && bytes <= kMaxBucketBytes) return absl::OkStatus();
  return Invalid(field, bytes,
                 absl::StrCat("it must be a multiple of 4, at most ", kMaxBucketBytes, " (0 takes ",
                              usual, ")"));
}

// Checks jobs whose dense gradients go from worker to worker.
absl::Status ValidateAllReduce(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  constexpr absl::string_view kInStep =
      "but update.dense is ALL_REDUCE, where all workers make each step together; leave it out, or "
      "train on parameter servers";
  if (update.staleness_bound() > 0) {
    return Invalid("update.staleness_bound", update.staleness_bound(), kInStep);
  }
  if (update.unlimited_staleness()) return Invalid("update.unlimited_staleness", "true", kInStep);
  if (update.move_hot_partitions()) {
    return Invalid(
        "update.move_hot_partitions", "true",
        "but update.dense is ALL_REDUCE; only jobs on parameter servers whose durability "
        "is EVERY_PUSH move partitions while they train; leave it out");
  }
  if (update.durability() == v1::UpdateSpec::EVERY_PUSH) {
    return Invalid("update.durability", "EVERY_PUSH",
                   IsHybrid(spec)
                       ? "but update.dense is ALL_REDUCE: after a loss a hybrid job goes "
                         "back to its last checkpoint; take CHECKPOINT"
                       : "but the job trains by all-reduce, where nothing is pushed; "
                         "take CHECKPOINT");
  }
  if (update.wire() == v1::UpdateSpec::F16) {
    return Invalid(
        "update.wire", "F16",
        "but update.dense is ALL_REDUCE, where sums of workers' gradients would leave its "
        "range; take BF16, or train on parameter servers");
  }
  MUSTER_RETURN_IF_ERROR(ValidateBucket("update.first_bucket_bytes", update.first_bucket_bytes(),
                                        kDefaultFirstBucketBytes));
  MUSTER_RETURN_IF_ERROR(
      ValidateBucket("update.bucket_bytes", update.bucket_bytes(), kDefaultBucketBytes));
  if (spec.servers() > 0 && !NeedsServers(spec)) {
    return Invalid("servers", spec.servers(),
                   "but the job trains by all-reduce and needs none; leave it out");
  }
  return absl::OkStatus();
}

// Refuses fields that mean nothing when gradients are pushed to servers.
absl::Status ValidateNoAllReduce(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  constexpr absl::string_view kOtherRoad =
      "but update.dense is PARAMETER_SERVER; it is for ALL_REDUCE only, leave it out";
  if (update.first_bucket_bytes() > 0) {
    return Invalid("update.first_bucket_bytes", update.first_bucket_bytes(), kOtherRoad);
  }
  if (update.bucket_bytes() > 0) {
    return Invalid("update.bucket_bytes", update.bucket_bytes(), kOtherRoad);
  }
  if (update.move_hot_partitions() && update.durability() != v1::UpdateSpec::EVERY_PUSH) {
    return Invalid("update.move_hot_partitions", "true",
                   "but update.durability is CHECKPOINT, where partitions move only with the whole "
                   "job, from a checkpoint; take EVERY_PUSH, or leave it out");
  }
  return absl::OkStatus();
}

// Checks how tables are divided among servers, or among the ranks of a shard group.
absl::Status ValidateDivision(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  if (update.partitions() > kMaxPartitions) {
    return Invalid("update.partitions", update.partitions(),
                   absl::StrCat("it must be at most ", kMaxPartitions));
  }
  if (update.block_bytes() % 4 != 0 || update.block_bytes() > kMaxBlockBytes) {
    return Invalid("update.block_bytes", update.block_bytes(),
                   absl::StrCat("it must be a multiple of 4, at most ", kMaxBlockBytes,
                                " (0 takes ", LayoutOptions({}).block_bytes, ")"));
  }
  const uint32_t partitions = LayoutOptions(update).partitions;
  if (spec.servers() > partitions) {
    return Invalid("servers", spec.servers(),
                   absl::StrCat("each server holds at least one of the job's ", partitions,
                                " partitions; take fewer servers or raise update.partitions"));
  }
  return absl::OkStatus();
}

absl::Status ValidateUpdate(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  MUSTER_RETURN_IF_ERROR(ValidateRoads(update));
  if (update.staleness_bound() < 0) {
    return Invalid("update.staleness_bound", update.staleness_bound(),
                   "0 is BSP, a positive bound SSP; for ASP set unlimited_staleness");
  }
  if (update.unlimited_staleness() && update.staleness_bound() > 0) {
    return Invalid("update.staleness_bound", update.staleness_bound(),
                   "but unlimited_staleness is set too; set one of the two");
  }
  if (!v1::UpdateSpec::Durability_IsValid(update.durability())) {
    return Invalid("update.durability", static_cast<int>(update.durability()),
                   "it must be CHECKPOINT or EVERY_PUSH");
  }
  if (!v1::UpdateSpec::WireType_IsValid(update.wire())) {
    return Invalid("update.wire", static_cast<int>(update.wire()), "it must be F32, BF16 or F16");
  }
  MUSTER_RETURN_IF_ERROR(TrainsByAllReduce(spec) ? ValidateAllReduce(spec)
                                                 : ValidateNoAllReduce(spec));
  MUSTER_RETURN_IF_ERROR(ValidateElastic(spec));
  if (update.deterministic() && !IsBsp(update)) {
    return Invalid("update.deterministic", "true",
                   absl::StrCat("but the update is ", PolicyName(spec),
                                ", where the order of pushes is left to chance; use BSP "
                                "(staleness_bound 0)"));
  }
  return ValidateDivision(spec);
}

absl::Status ValidateReplaceSlow(const v1::JobSpec& spec) {
  if (!spec.replace_slow() || !OnlyEvaluates(spec)) return absl::OkStatus();
  return Invalid("replace_slow", "true",
                 "but the job only evaluates, and slow workers are known by their steps; leave it "
                 "out");
}

absl::Status ValidateWorkers(const v1::JobSpec& spec) {
  if (spec.workers() <= kMaxWorkers) return absl::OkStatus();
  return Invalid("workers", spec.workers(), absl::StrCat("it must be at most ", kMaxWorkers));
}

absl::Status ValidateParallelism(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  MUSTER_RETURN_IF_ERROR(ValidateWorkers(spec));
  MUSTER_ASSIGN_OR_RETURN(const Mesh mesh,
                          Mesh::FromSpec(parallelism, static_cast<int>(spec.workers())));
  const uint32_t data = mesh.size(kDataAxes);
  if (parallelism.data() != 0 && parallelism.data() != data) {
    return Invalid("parallelism.data", parallelism.data(),
                   absl::StrCat("with ", spec.workers(), " workers it must be ", data,
                                " (left out, it is what the other axes leave)"));
  }
  return absl::OkStatus();
}

absl::Status ValidateThreads(const v1::JobSpec& spec) {
  if (spec.threads_per_worker() <= kMaxThreads) return absl::OkStatus();
  return Invalid("threads_per_worker", spec.threads_per_worker(),
                 absl::StrCat("it must be at most ", kMaxThreads,
                              " (0: the worker's processors divided by its slots)"));
}

// Checks what ends a job before its last step.
absl::Status ValidateEarlyStop(const v1::JobSpec& spec) {
  const v1::StopSpec& stop = spec.stop();
  if (stop.has_target() && !std::isfinite(stop.target())) {
    return Invalid("stop.target", stop.target(), "give a value that the metric can reach");
  }
  if (!(stop.hours() >= 0) || std::isinf(stop.hours())) {
    return Invalid("stop.hours", stop.hours(),
                   "give a positive number of hours, or 0 for no limit");
  }
  if (stop.patience() > kMostPatience) {
    return Invalid("stop.patience", stop.patience(),
                   absl::StrCat("it counts evaluations, and may be at most ", kMostPatience));
  }
  if (spec.evaluation().every_steps() > 0) return absl::OkStatus();
  constexpr absl::string_view kNever =
      "but evaluation.every_steps is 0, so there is no evaluation to stop at; set it";
  if (stop.hours() > 0) return Invalid("stop.hours", stop.hours(), kNever);
  if (stop.patience() > 0) return Invalid("stop.patience", stop.patience(), kNever);
  return absl::OkStatus();
}

absl::Status ValidatePlateauIsEvaluated(const v1::JobSpec& spec) {
  if (!spec.schedule().has_plateau()) return absl::OkStatus();
  if (spec.evaluation().every_steps() == 0) {
    return Invalid("schedule.plateau", "set",
                   "but evaluation.every_steps is 0, so nothing tells that the job has stopped "
                   "getting better; set it");
  }
  const uint32_t patience = spec.schedule().plateau().patience();
  if (patience <= kMostPatience) return absl::OkStatus();
  return Invalid("schedule.plateau.patience", patience,
                 absl::StrCat("it counts evaluations, and may be at most ", kMostPatience));
}

absl::Status ValidateStop(const v1::JobSpec& spec) {
  const v1::StopSpec& stop = spec.stop();
  if (!(stop.epochs() >= 0) || std::isinf(stop.epochs())) {
    return Invalid("stop.epochs", stop.epochs(), "give a positive number of passes over the data");
  }
  std::vector<std::string> set;
  if (stop.steps() > 0) set.push_back(absl::StrCat("stop.steps is ", stop.steps()));
  if (stop.epochs() > 0) set.push_back(absl::StrCat("stop.epochs is ", stop.epochs()));
  if (stop.tokens() > 0) set.push_back(absl::StrCat("stop.tokens is ", stop.tokens()));
  const bool trains = !set.empty();
  if (stop.evaluate_only()) set.push_back("stop.evaluate_only is set");
  if (set.empty()) {
    return absl::InvalidArgumentError(
        "stop says no end; set exactly one of stop.steps, stop.epochs, stop.tokens and "
        "stop.evaluate_only (which trains nothing)");
  }
  if (set.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(set, " and "), "; set exactly one of them"));
  }
  if (const uint64_t batch = LargestScaledBatch(spec); stop.steps() > kMostExamples / batch) {
    return Invalid(
        "stop.steps", stop.steps(),
        absl::StrCat("with batch_size ", batch, " it may be at most ", kMostExamples / batch));
  }
  if (stop.tokens() > 0 && !HasSequences(spec.data())) {
    return Invalid("stop.tokens", stop.tokens(),
                   "but only sequence data are counted in tokens; give stop.steps or stop.epochs");
  }
  if (stop.tokens() > kMostExamples) {
    return Invalid("stop.tokens", stop.tokens(), absl::StrCat("it may be at most ", kMostExamples));
  }
  if (trains && spec.data().holdout() == 1) {
    return Invalid("data.holdout", 1,
                   "that leaves nothing to train on; hold out less, or set stop.evaluate_only "
                   "alone");
  }
  if (stop.evaluate_only() && !Evaluates(spec)) {
    return Invalid("data.holdout", 0,
                   "stop.evaluate_only needs a share to evaluate on, or validation data");
  }
  return ValidateEarlyStop(spec);
}

}  // namespace

absl::Status ValidateJob(const v1::JobSpec& given) {
  v1::JobSpec spec = given;
  FillWorkers(spec);
  MUSTER_RETURN_IF_ERROR(ValidateNames(spec));
  if (RunsProgram(spec)) {
    MUSTER_RETURN_IF_ERROR(ValidateProgram(given));
    MUSTER_RETURN_IF_ERROR(ValidateVerification(spec));
    MUSTER_RETURN_IF_ERROR(ValidateDivision(spec));
    MUSTER_RETURN_IF_ERROR(ValidateWorkers(spec));
    return ValidateThreads(spec);
  }
  MUSTER_RETURN_IF_ERROR(ValidateModelAndData(spec));
  MUSTER_RETURN_IF_ERROR(ValidateData(spec));
  for (Granularity granularity : {Granularity::kElements, Granularity::kRow}) {
    MUSTER_RETURN_IF_ERROR(CreateOptimizer(spec.optimizer(), granularity).status());
  }
  MUSTER_RETURN_IF_ERROR(ValidateSchedule(spec.schedule()));
  MUSTER_RETURN_IF_ERROR(ValidatePlateauIsEvaluated(spec));
  MUSTER_RETURN_IF_ERROR(ValidateDivergence(spec));
  // The policy comes first, since clipping depends on it.
  MUSTER_RETURN_IF_ERROR(ValidateUpdate(spec));
  MUSTER_RETURN_IF_ERROR(ValidateExpertUpdates(spec));
  MUSTER_RETURN_IF_ERROR(ValidateParameterGroups(spec));
  MUSTER_RETURN_IF_ERROR(ValidateDevice(spec));
  MUSTER_RETURN_IF_ERROR(ValidateClipping(spec));
  MUSTER_RETURN_IF_ERROR(ValidateSparseTables(spec));
  MUSTER_RETURN_IF_ERROR(ValidateCheckpoints(spec));
  MUSTER_RETURN_IF_ERROR(ValidateParallelism(spec));
  MUSTER_RETURN_IF_ERROR(ValidatePipeline(spec));
  MUSTER_RETURN_IF_ERROR(ValidateTensor(spec));
  MUSTER_RETURN_IF_ERROR(ValidateContext(spec));
  MUSTER_RETURN_IF_ERROR(ValidateExpertRanks(spec));
  MUSTER_RETURN_IF_ERROR(ValidateZero(spec));
  MUSTER_RETURN_IF_ERROR(ValidateBatches(spec));
  MUSTER_RETURN_IF_ERROR(ValidateBalance(spec));
  MUSTER_RETURN_IF_ERROR(ValidateBackupWorkers(spec));
  MUSTER_RETURN_IF_ERROR(ValidateThreads(spec));
  MUSTER_RETURN_IF_ERROR(ValidateVerification(spec));
  MUSTER_RETURN_IF_ERROR(ValidateReplaceSlow(spec));
  return ValidateStop(spec);
}

void FillDefaults(v1::JobSpec& spec) {
  FillWorkers(spec);
  if (spec.checkpoint().keep() == 0) spec.mutable_checkpoint()->set_keep(kDefaultCheckpointsKept);
  if (RunsProgram(spec)) return FillProgramDefaults(spec);
  if (!OnlyEvaluates(spec) && !spec.checkpoint().has_keep_best()) {
    spec.mutable_checkpoint()->set_keep_best(true);
  }
  v1::UpdateSpec& update = *spec.mutable_update();
  if (!TrainsByAllReduce(spec)) {
    update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  } else {
    if (!IsHybrid(spec)) update.set_sparse(v1::UpdateSpec::ALL_REDUCE);
    if (update.first_bucket_bytes() == 0) update.set_first_bucket_bytes(kDefaultFirstBucketBytes);
    if (update.bucket_bytes() == 0) update.set_bucket_bytes(kDefaultBucketBytes);
  }
  if (update.wire() == v1::UpdateSpec::WIRE_TYPE_UNSPECIFIED) update.set_wire(v1::UpdateSpec::F32);
  if (update.durability() == v1::UpdateSpec::DURABILITY_UNSPECIFIED) {
    update.set_durability(v1::UpdateSpec::CHECKPOINT);
  }
  DenseLayout::Options layout = LayoutOptions(update);
  // The ranks of a shard group divide rows of sparse tables by partition.
  if (update.partitions() == 0)
    layout.partitions = std::max(layout.partitions, SizeAlong(kShardAxes, spec));
  update.set_partitions(layout.partitions);
  update.set_block_bytes(layout.block_bytes);
  // The number of threads that share a product can change its last bits, and a replacement may run
  // on another worker.
  if (spec.threads_per_worker() == 0 && update.deterministic()) spec.set_threads_per_worker(1);
  if (spec.micro_batches() == 0) spec.set_micro_batches(1);
  // The noise scale is known where the norm is.
  if (spec.has_adaptive_batch() && spec.clipping().by_global_norm() == 0) {
    spec.mutable_clipping()->set_measure_norm(true);
  }
  spec.mutable_parallelism()->set_data(SizeAlong(kDataAxes, spec));
  if (ZeroStage(spec) > 0) {
    spec.mutable_parallelism()->mutable_zero()->set_shard(SizeAlong(kDataShards, spec));
  }
}

std::string ZeroName(const v1::JobSpec& spec) {
  if (HoldsUnitsInFlight(spec)) return "zero stage 3";
  if (ZeroStage(spec) == 0) return "";
  const uint32_t shards = SizeAlong(kShardAxes, spec);
  return absl::StrCat("zero stage ", ZeroStage(spec),
                      SizeAlong(kCopyAxes, spec) == 1 ? " over " : " over groups of ", shards,
                      " ranks");
}

std::string PolicyName(const v1::JobSpec& spec) {
  if (RunsProgram(spec)) return "a program";
  std::string name = absl::StrCat("SSP with bound ", spec.update().staleness_bound());
  if (TrainsByAllReduce(spec)) {
    name = IsHybrid(spec) ? "all-reduce with sparse tables on servers" : "all-reduce";
  } else if (spec.update().unlimited_staleness()) {
    name = "ASP";
  } else if (spec.update().staleness_bound() == 0) {
    name = "BSP";
  }
  const std::string division = DivisionName(spec);
  return division.empty() ? name : absl::StrCat(name, ", ", division);
}

std::string DivisionName(const v1::JobSpec& spec) {
  std::vector<std::string> names;
  if (const std::string zero = ZeroName(spec); !zero.empty()) names.push_back(zero);
  if (SizeAlong(kContext, spec) > 1) {
    std::string name = absl::StrCat("context ", SizeAlong(kContext, spec));
    const auto exchange = spec.parallelism().context_exchange();
    if (exchange == v1::ParallelismSpec::GATHER) name += " gathered";
    if (exchange == v1::ParallelismSpec::HEADS) name += " by heads";
    names.push_back(std::move(name));
  }
  if (SizeAlong(Axis::kTensor, spec) > 1) {
    names.push_back(absl::StrCat("tensor ", SizeAlong(Axis::kTensor, spec),
                                 DividesTokens(spec) ? " with sequence" : ""));
  }
  if (const StageShape shape = ShapeOfStages(spec); shape.stages > 1) {
    names.push_back(absl::StrCat("pipeline ", shape.stages, " by ", Name(shape.order)));
  }
  return absl::StrJoin(names, ", ");
}

bool OnlyEvaluates(const v1::JobSpec& spec) { return spec.stop().evaluate_only(); }

bool Evaluates(const v1::JobSpec& spec) {
  return spec.data().holdout() > 0 || spec.has_validation();
}

}  // namespace muster
