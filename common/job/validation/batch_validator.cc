#include "common/job/validation/batch_validator.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
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

// Checks that the noise scale is known, and what else grows with the batch.
absl::Status ValidateAdaptiveBatch(const v1::JobSpec& spec) {
  if (!spec.has_adaptive_batch()) return absl::OkStatus();
  const auto refuse = [](absl::string_view remedy) {
    return Invalid("adaptive_batch", "set", remedy);
  };
  if (const uint32_t most = spec.adaptive_batch().max_batch_size(); most <= spec.batch_size()) {
    return Invalid("adaptive_batch.max_batch_size", most,
                   absl::StrCat("it must be above batch_size, ", spec.batch_size()));
  }
  if (!spec.batch_changes().empty()) {
    return refuse("but batch_changes says what batches are; leave one of the two out");
  }
  if (spec.stop().steps() == 0) {
    return refuse(
        "but the job's number of steps would change with its batches; give stop.steps as its end");
  }
  if (!IsBsp(spec.update())) {
    return refuse("but staleness_bound is not 0, where no step has one batch; use BSP");
  }
  if (SizeAlong(kShareAxes, spec) > 1) {
    return refuse(
        "but the gradient noise scale is measured where each worker has all of the model: leave "
        "parallelism.tensor, pipeline, context and expert out");
  }
  if (spec.compute().device() == v1::ComputeSpec::CUDA) {
    return refuse("but compute.device is CUDA, where the gradient noise scale is not measured");
  }
  if (!spec.model().has_mlp() && !spec.model().has_transformer()) {
    return refuse(
        "but the gradient noise scale is measured of perceptrons and transformers alone, which "
        "have "
        "no sparse tables");
  }
  if (SizeAlong(kDataAxes, spec) * std::max(1u, spec.micro_batches()) == 1) {
    return refuse(
        "but a step is not divided, and the gradient noise scale compares a part with the whole; "
        "set micro_batches to 2 or more");
  }
  return absl::OkStatus();
}

// Checks that the batch can follow the number of workers.
absl::Status ValidateScaleBatch(const v1::JobSpec& spec) {
  if (!spec.scale_batch()) return absl::OkStatus();
  const auto refuse = [](absl::string_view remedy) {
    return Invalid("scale_batch", "true", remedy);
  };
  if (spec.min_workers() == 0) {
    return refuse(
        "but min_workers is not set, so that the number of workers never changes: set it, at most "
        "to workers, or leave scale_batch out");
  }
  if (spec.has_adaptive_batch()) {
    return refuse(
        "but adaptive_batch grows the batch with the noise scale; leave one of the two out");
  }
  if (!spec.batch_changes().empty()) {
    return refuse("but batch_changes says what batches are; leave one of the two out");
  }
  if (spec.stop().steps() == 0) {
    return refuse(
        "but the job's number of steps would change with its batches; give stop.steps as its end");
  }
  if (spec.parallelism().zero().stage() > 0 && !spec.model().has_mlp() &&
      !spec.model().has_transformer()) {
    return refuse(
        "but parallelism.zero divides sparse tables, whose memory is planned for batches of one "
        "size: leave one of the two out");
  }
  if (const uint64_t largest = LargestScaledBatch(spec);
      largest > std::numeric_limits<uint32_t>::max()) {
    return refuse(absl::StrCat("but with ", MostWorkers(spec), " workers a step would have ",
                               largest, " examples, more than ",
                               std::numeric_limits<uint32_t>::max(),
                               "; lower batch_size or max_workers"));
  }
  return absl::OkStatus();
}

absl::Status ValidateScaling(const v1::JobSpec& spec) {
  const std::string& scaling = spec.schedule().scaling();
  const bool changes = spec.has_adaptive_batch() || !spec.batch_changes().empty();
  if (!changes || scaling.empty() || scaling == "none" || IsBsp(spec.update())) {
    return absl::OkStatus();
  }
  return Invalid(
      "schedule.scaling", absl::StrCat("\"", scaling, "\""),
      "but batches change (batch_changes) while staleness_bound is not 0, where a push's "
      "rate is that of no one step: leave scaling out, or use BSP");
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
  MUSTER_RETURN_IF_ERROR(ValidateAdaptiveBatch(spec));
  MUSTER_RETURN_IF_ERROR(ValidateScaleBatch(spec));
  return ValidateScaling(spec);
}

}  // namespace muster
