#include "common/job/batch_validator.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int kMostChanges = 1000;

absl::Status CheckBatch(const v1::JobSpec& spec, const std::string& field, uint32_t batch_size) {
  const uint32_t data_ranks = SizeAlong(kDataAxes, spec);
  if (batch_size < data_ranks) {
    return Invalid(
        field, batch_size,
        absl::StrCat(
            "a step has at least one example for each of its data ranks, which are ", data_ranks,
            spec.parallelism().data() != 0 ? " (parallelism.data)"
                                           : absl::StrCat(" (workers ", spec.workers(), ")")));
  }
  if (const uint32_t share = batch_size / data_ranks; spec.micro_batches() > share) {
    return Invalid("micro_batches", spec.micro_batches(),
                   absl::StrCat("a data rank's share of a step is ", share, " of its ", batch_size,
                                " examples, and a micro-batch at least one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateBatches(const v1::JobSpec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckBatch(spec, "batch_size", spec.batch_size()));
  if (spec.batch_changes_size() > kMostChanges) {
    return Invalid("batch_changes", absl::StrCat("a list of ", spec.batch_changes_size()),
                   absl::StrCat("there may be at most ", kMostChanges));
  }
  uint64_t before = 0;
  for (int i = 0; i < spec.batch_changes_size(); ++i) {
    const v1::BatchChange& change = spec.batch_changes(i);
    const std::string field = absl::StrCat("batch_changes[", i, "]");
    if (change.step() <= before) {
      return Invalid(absl::StrCat(field, ".step"), change.step(),
                     absl::StrCat("steps have to be in order, each above the one before, which is ",
                                  before, i == 0 ? " (where batch_size begins)" : ""));
    }
    before = change.step();
    MUSTER_RETURN_IF_ERROR(
        CheckBatch(spec, absl::StrCat(field, ".batch_size"), change.batch_size()));
  }
  const std::string& scaling = spec.schedule().scaling();
  if (spec.batch_changes_size() > 0 && !scaling.empty() && scaling != "none") {
    return Invalid(
        "schedule.scaling", absl::StrCat("\"", scaling, "\""),
        "but batches change (batch_changes), which it does not follow: leave it out, and "
        "give the schedule's points the rates (piecewise_constant)");
  }
  return absl::OkStatus();
}

}  // namespace muster
