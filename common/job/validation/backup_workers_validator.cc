#include "common/job/validation/backup_workers_validator.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {

absl::Status ValidateBackupWorkers(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  const uint32_t backups = update.backup_workers();
  if (backups == 0) return absl::OkStatus();
  const auto refuse = [backups](absl::string_view remedy) {
    return Invalid("update.backup_workers", backups, remedy);
  };
  if (TrainsByAllReduce(spec)) {
    return refuse(
        "but update.dense is ALL_REDUCE, where a sum needs all ranks; train on parameter servers, "
        "or leave it out");
  }
  if (!IsBsp(update)) {
    return refuse(
        "but the update is not BSP, and other policies do not wait for slow workers anyway; use "
        "staleness_bound 0, or leave it out");
  }
  if (backups >= spec.workers()) {
    return refuse(absl::StrCat("a step needs at least one worker: it must be less than workers, ",
                               spec.workers()));
  }
  if (update.deterministic()) {
    return refuse(
        "but update.deterministic is true, and which workers are slowest is left to chance; leave "
        "one of the two out");
  }
  if (spec.stop().epochs() > 0 || spec.stop().tokens() > 0) {
    return refuse(
        "but the job's end counts examples (stop.epochs, stop.tokens), of which some are dropped; "
        "give stop.steps as its end");
  }
  if (spec.has_adaptive_batch()) {
    return refuse(
        "but adaptive_batch measures the gradient noise scale over whole batches; leave one of the "
        "two out");
  }
  if (spec.verify_every() > 0) {
    return refuse(
        "but verify_every compares the gradients of all workers; leave one of the two out");
  }
  if (spec.min_workers() > 0) {
    return refuse("but min_workers lets workers come and go; leave one of the two out");
  }
  if (RanksTogether(spec) > 1 || SizeAlong(kDataAxes, spec) != spec.workers()) {
    return refuse(
        "but several workers compute a data rank together: leave parallelism.tensor, pipeline, "
        "context and expert out");
  }
  if (HoldsUnitsInFlight(spec)) {
    return refuse(
        "but under parallelism.zero.stage 3 gradients leave before a step is computed; leave zero "
        "out");
  }
  if (spec.compute().type() == v1::ComputeSpec::F16) {
    return refuse(
        "but compute.type is F16, whose loss scale all workers of a step have to agree on; "
        "take BF16");
  }
  return absl::OkStatus();
}

}  // namespace muster
