#include "client/prove/proof_jobs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"

namespace muster {
namespace {

// Sums in another order may differ by so much.
constexpr double kF32Tolerance = 1e-5;
constexpr double kHalfTolerance = 3e-2;

bool HasHalves(const v1::JobSpec& spec) {
  return spec.compute().type() == v1::ComputeSpec::BF16 ||
         spec.compute().type() == v1::ComputeSpec::F16 ||
         spec.update().wire() == v1::UpdateSpec::BF16 ||
         spec.update().wire() == v1::UpdateSpec::F16;
}

// Leaves one step of plain SGD.
void LeaveOneStep(ProofClipping clipping, v1::JobSpec& spec) {
  v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
  const auto groups = optimizer.groups();
  optimizer.Clear();
  optimizer.set_name("sgd");
  // What is frozen stays so.
  for (v1::ParameterGroup group : groups) {
    group.clear_weight_decay();
    if (!group.frozen()) group.set_rate(1);
    *optimizer.add_groups() = std::move(group);
  }
  optimizer.set_learning_rate(kProofRate);
  spec.clear_schedule();
  spec.clear_batch_changes();
  spec.clear_balance();
  // The step has the shares of the job's first one.
  while (!spec.share_changes().empty() && spec.share_changes().rbegin()->step() > 0) {
    spec.mutable_share_changes()->RemoveLast();
  }
  if (clipping == ProofClipping::kNone) spec.clear_clipping();
  spec.mutable_clipping()->set_measure_norm(true);
  spec.mutable_stop()->Clear();
  spec.mutable_stop()->set_steps(1);
  spec.clear_evaluation();
  spec.clear_validation();
  spec.mutable_data()->set_holdout(0);
  spec.mutable_data()->set_shuffle_holdout(false);
  spec.mutable_checkpoint()->Clear();
  spec.mutable_checkpoint()->set_keep_best(false);
  spec.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
  spec.mutable_update()->clear_move_hot_partitions();
  // The step is that of all examples, made once.
  spec.mutable_update()->clear_backup_workers();
  spec.clear_verify_every();
  spec.clear_labels();
  spec.clear_description();
}

// Changes what a single step cannot show, or what would make it another one, and notes it.
void ChangeWhatIsNotProved(ProofJobs& proof) {
  v1::JobSpec& spec = proof.mesh;
  if (spec.update().staleness_bound() > 0 || spec.update().unlimited_staleness()) {
    spec.mutable_update()->set_staleness_bound(0);
    spec.mutable_update()->set_unlimited_staleness(false);
    proof.notes.push_back("staleness is left out: only a step of BSP is one process's");
  }
  if (spec.has_sparse_tables()) {
    spec.clear_sparse_tables();
    proof.notes.push_back(
        "sparse_tables is left out: it says which rows are kept, not what a step is");
  }
  if (spec.parallelism().zero().offload() != v1::ZeroSpec::OFFLOAD_UNSPECIFIED) {
    spec.mutable_parallelism()->mutable_zero()->clear_offload();
    proof.notes.push_back("zero.offload is left out: the step's SGD has no state");
  }
  if (spec.compute().device() == v1::ComputeSpec::CUDA) {
    spec.mutable_compute()->clear_device();
    proof.notes.push_back("both compute on processors: the step's SGD is not on GPUs");
  }
  if (ChoicesCountedOf(spec) == ChoicesCounted::kTogether && spec.micro_batches() > 1) {
    spec.set_micro_batches(1);
    proof.notes.push_back(
        "micro_batches is 1: choices of experts are counted over the parts that all data ranks "
        "compute at a time, which with several are other parts of the batch for each number of "
        "data ranks");
  }
  std::error_code error;
  const std::string& from =
      spec.resume_from().empty() ? spec.initial_weights() : spec.resume_from();
  if (!from.empty() &&
      (!spec.resume_from().empty() || !std::filesystem::is_directory(from, error))) {
    proof.notes.push_back(absl::StrCat("the weights are initial ones, not those of ", from));
    spec.clear_initial_weights();
    spec.clear_averaged_weights();
  }
  spec.clear_resume_from();
  spec.clear_min_workers();
  spec.clear_max_workers();
  spec.clear_scale_batch();
}

// Returns the job as one process computes it, with all examples of the batch.
v1::JobSpec InOneProcess(const v1::JobSpec& mesh) {
  v1::JobSpec one = mesh;
  one.clear_parallelism();
  one.set_workers(1);
  one.clear_servers();
  one.clear_share_changes();
  v1::UpdateSpec& update = *one.mutable_update();
  update.set_dense(v1::UpdateSpec::ALL_REDUCE);
  update.set_sparse(v1::UpdateSpec::ALL_REDUCE);
  update.set_wire(v1::UpdateSpec::F32);
  // As many examples at a time as a data rank has. Where choices are counted over all data ranks,
  // those of all.
  const uint32_t ranks = ChoicesCountedOf(mesh) == ChoicesCounted::kTogether
                             ? 1
                             : std::max(1u, mesh.parallelism().data());
  one.set_micro_batches(std::min(std::max(1u, mesh.micro_batches()) * ranks, mesh.batch_size()));
  return one;
}

}  // namespace

absl::StatusOr<ProofJobs> MakeProofJobs(const v1::JobSpec& spec, ProofClipping clipping) {
  if (spec.model().has_program()) {
    return absl::InvalidArgumentError(
        "the job runs a program, whose step is its own; prove takes Muster's models");
  }
  if (spec.stop().evaluate_only()) {
    return absl::InvalidArgumentError("the job makes no step; set stop.steps to prove one");
  }
  ProofJobs proof;
  proof.mesh = spec;
  proof.tolerance = HasHalves(spec) ? kHalfTolerance : kF32Tolerance;
  ChangeWhatIsNotProved(proof);
  LeaveOneStep(clipping, proof.mesh);
  proof.one = InOneProcess(proof.mesh);
  FillDefaults(proof.mesh);
  FillDefaults(proof.one);
  proof.mesh.set_name("prove: on its mesh");
  proof.one.set_name("prove: by one process");
  for (const v1::JobSpec* job : {&proof.mesh, &proof.one}) {
    const absl::Status valid = ValidateJob(*job);
    if (valid.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(job == &proof.one ? "one process cannot make this job's step: "
                                       : "the step of SGD that a proof makes is refused: ",
                     valid.message()));
  }
  return proof;
}

}  // namespace muster
