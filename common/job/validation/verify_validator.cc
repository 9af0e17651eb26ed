#include "common/job/validation/verify_validator.h"

#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {

absl::Status ValidateVerification(const v1::JobSpec& spec) {
  const uint64_t every = spec.verify_every();
  if (every == 0) return absl::OkStatus();
  if (RunsProgram(spec)) {
    return Invalid(
        "verify_every", every,
        "but the job runs a program, whose steps Muster cannot make again; leave it out");
  }
  if (spec.stop().evaluate_only()) {
    return Invalid("verify_every", every, "but the job only evaluates; leave it out");
  }
  if (spec.compute().device() == v1::ComputeSpec::CUDA) {
    return Invalid("verify_every", every,
                   "but compute.device is CUDA, and only gradients in the memory of processors are "
                   "compared; leave it out");
  }
  if (SizeAlong(kDataAxes, spec) == 1) {
    return Invalid(
        "verify_every", every,
        "but the job has one data rank, and nobody else to make its steps again; give it "
        "more workers, or leave it out");
  }
  if (SizeAlong(kExpertAxes, spec) > 1) {
    return Invalid(
        "verify_every", every,
        "but parallelism.expert is more than 1, so a step of one data rank is computed by "
        "several; leave one of them out");
  }
  if (spec.update().staleness_bound() > 0 || spec.update().unlimited_staleness()) {
    return Invalid("verify_every", every,
                   "but workers may compute a step with different parameters; use BSP "
                   "(update.staleness_bound: 0) or leave it out");
  }
  if (HoldsUnitsInFlight(spec)) {
    return Invalid("verify_every", every,
                   "but under parallelism.zero.stage 3 on parameter servers gradients of each "
                   "micro-batch leave before the step can be compared; train by all-reduce "
                   "(update.dense: ALL_REDUCE), or without the stage");
  }
  if (spec.update().backup_workers() > 0) {
    return Invalid("verify_every", every,
                   "but update.backup_workers is set, so steps do not wait for all workers; leave "
                   "one of them out");
  }
  return absl::OkStatus();
}

}  // namespace muster
