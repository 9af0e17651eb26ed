#include "common/job/validation/elastic_validator.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint32_t kMostElasticWorkers = 4096;

// Checks how many workers a job may grow to.
absl::Status ValidateMaxWorkers(const v1::JobSpec& spec) {
  constexpr absl::string_view kField = "max_workers";
  const uint32_t most = spec.max_workers();
  if (most == 0) return absl::OkStatus();
  if (spec.min_workers() == 0) {
    return Invalid(kField, most,
                   "but min_workers is not set: a job that takes free workers must be able to give "
                   "them back; set it, at most to workers");
  }
  if (most < spec.workers()) {
    return Invalid(kField, most,
                   absl::StrCat("it must be at least workers, which is ", spec.workers()));
  }
  if (most > kMostElasticWorkers) {
    return Invalid(kField, most, absl::StrCat("it must be at most ", kMostElasticWorkers));
  }
  if (most == spec.workers()) return absl::OkStatus();
  if (spec.parallelism().expert() > 1) {
    return Invalid(kField, most,
                   "but workers share out experts (parallelism.expert), which more workers would "
                   "divide in another way: leave one of the two out");
  }
  const uint32_t together = SizeAlong(kModelAxes, spec);
  if (most % together != 0) {
    return Invalid(
        kField, most,
        absl::StrCat("but a data rank of this job is ", together,
                     " workers, none of which can take part alone: take a multiple of ", together));
  }
  if (spec.parallelism().zero().stage() > 0 && SizeAlong(kShardAxes, spec) == 1) {
    return Invalid(kField, most,
                   "but parallelism.zero divides nothing among this job's workers: start with at "
                   "least two data ranks, or leave parallelism.zero out");
  }
  if (const uint32_t share = spec.batch_size() / (most / together);
      !spec.scale_batch() && share < std::max(1u, spec.micro_batches())) {
    return Invalid(
        kField, most,
        absl::StrCat("with so many workers a data rank's share of a step is ", share, " of its ",
                     spec.batch_size(), " examples, and each micro-batch has at least one"));
  }
  return absl::OkStatus();
}

// Checks jobs whose members change while servers keep the tables (MembersChangeOnServers).
absl::Status ValidateMembersOnServers(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  const auto refuse = [&](absl::string_view why) {
    return Invalid("min_workers", spec.min_workers(), why);
  };
  if (!IsBsp(update)) {
    return refuse(
        "but update lets workers on servers be at different steps, of which others cannot go on "
        "together: take staleness_bound 0, or leave min_workers out");
  }
  if (TrainsInRounds(spec) || spec.parallelism().expert() > 1) {
    return refuse(
        "but on servers workers come and go alone, and those of this job compute together "
        "(parallelism): leave one of the two out, or train by all-reduce");
  }
  if (HoldsUnitsInFlight(spec)) {
    return refuse(
        "but parallelism.zero is set on servers, which then take parts of each push: leave one of "
        "the two out");
  }
  if (update.wire() == v1::UpdateSpec::BF16 || update.wire() == v1::UpdateSpec::F16) {
    return refuse(
        "but update.wire has 16 bits, and each worker on servers keeps what its pushes have "
        "rounded "
        "away: take F32, or leave min_workers out");
  }
  if (spec.compute().type() == v1::ComputeSpec::F16) {
    return refuse(
        "but compute.type is F16, whose loss scale workers on servers do not hand on: take BF16, "
        "or "
        "leave min_workers out");
  }
  if (spec.scale_batch()) {
    return refuse(
        "but scale_batch is true, and on servers a step has the same examples whoever trains: "
        "leave "
        "one of the two out, or train by all-reduce");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateElastic(const v1::JobSpec& spec) {
  if (spec.min_workers() > spec.workers()) {
    return Invalid("min_workers", spec.min_workers(),
                   absl::StrCat("it must be at most workers, which is ", spec.workers()));
  }
  MUSTER_RETURN_IF_ERROR(ValidateMaxWorkers(spec));
  if (spec.min_workers() == 0) return absl::OkStatus();
  if (IsHybrid(spec)) {
    return Invalid(
        "min_workers", spec.min_workers(),
        "but the sparse tables are on servers (hybrid): after a loss such a job goes back "
        "to its last checkpoint with all its workers; leave it out, or take "
        "update.sparse ALL_REDUCE");
  }
  return TrainsByAllReduce(spec) ? absl::OkStatus() : ValidateMembersOnServers(spec);
}

}  // namespace muster
