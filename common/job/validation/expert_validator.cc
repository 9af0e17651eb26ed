#include "common/job/validation/expert_validator.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/job/validation/served_ranks_validator.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using v1::MoeSpec;

// Refuses a field of `moe`.
absl::Status RefusedExperts(absl::string_view field, const absl::AlphaNum& value,
                            absl::string_view remedy) {
  return Invalid(absl::StrCat("model.transformer.moe.", field), value, remedy);
}

absl::Status ExpertsWithin(absl::string_view field, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return RefusedExperts(field, value, absl::StrCat("it must be from ", least, " to ", most));
}

absl::Status NotNegativeOfExperts(absl::string_view field, float value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return RefusedExperts(field, value, "it must be 0 or a positive number");
}

absl::Status ValidateDenseBlocks(const v1::TransformerSpec& spec) {
  const auto& dense = spec.moe().dense_layers();
  for (int i = 0; i < dense.size(); ++i) {
    const std::string field = absl::StrCat("dense_layers[", i, "]");
    if (dense[i] >= spec.layers()) {
      return RefusedExperts(field, dense[i],
                            absl::StrCat("but blocks are counted from 0 to ", spec.layers() - 1));
    }
    if (i > 0 && dense[i] <= dense[i - 1]) {
      return RefusedExperts(
          field, dense[i],
          absl::StrCat("after ", dense[i - 1], "; give each block once, in order"));
    }
  }
  if (static_cast<uint32_t>(dense.size()) < spec.layers()) return absl::OkStatus();
  return RefusedExperts("dense_layers", absl::StrCat("all ", spec.layers(), " blocks"),
                        "so none is left for experts: leave out `moe`, or some of them");
}

absl::Status ValidateExpertGroups(const MoeSpec& moe) {
  if (moe.groups() == 0) {
    if (moe.top_groups() == 0) return absl::OkStatus();
    return RefusedExperts("top_groups", moe.top_groups(),
                          "but there are no `groups`; give their number");
  }
  MUSTER_RETURN_IF_ERROR(ExpertsWithin("groups", moe.groups(), 1, moe.experts()));
  if (moe.experts() % moe.groups() != 0) {
    return RefusedExperts("groups", moe.groups(),
                          absl::StrCat("it must divide the ", moe.experts(), " experts"));
  }
  MUSTER_RETURN_IF_ERROR(ExpertsWithin("top_groups", moe.top_groups(), 1, moe.groups()));
  const uint32_t candidates = moe.experts() / moe.groups() * moe.top_groups();
  if (moe.top_k() <= candidates) return absl::OkStatus();
  return RefusedExperts(
      "top_k", moe.top_k(),
      absl::StrCat("but the best ", moe.top_groups(), " of ", moe.groups(), " groups have ",
                   candidates, " experts; take more `top_groups`"));
}

absl::Status ValidateRouterLosses(const MoeSpec& moe) {
  MUSTER_RETURN_IF_ERROR(NotNegativeOfExperts("auxiliary_loss", moe.auxiliary_loss()));
  MUSTER_RETURN_IF_ERROR(NotNegativeOfExperts("z_loss", moe.z_loss()));
  MUSTER_RETURN_IF_ERROR(NotNegativeOfExperts("capacity_factor", moe.capacity_factor()));
  if (MoeSpec::Scope_IsValid(moe.auxiliary_scope())) return absl::OkStatus();
  return RefusedExperts("auxiliary_scope", static_cast<int>(moe.auxiliary_scope()),
                        "it must be SEQUENCE, MICRO_BATCH or GLOBAL_BATCH");
}

// Checks how servers update a job whose data ranks count choices together within a step.
absl::Status ValidateServedCounts(const v1::JobSpec& spec) {
  const MoeSpec& moe = spec.model().transformer().moe();
  const v1::UpdateSpec& update = spec.update();
  const auto refused = [&moe](absl::string_view why) {
    return moe.capacity_factor() > 0 ? RefusedExperts("capacity_factor", moe.capacity_factor(), why)
                                     : RefusedExperts("auxiliary_scope", "GLOBAL_BATCH", why);
  };
  if (update.unlimited_staleness() || update.staleness_bound() != 0) {
    return refused(
        "but workers that count choices together must read one version of the parameters: set "
        "update.staleness_bound 0 without update.unlimited_staleness");
  }
  if (update.wire() > v1::UpdateSpec::F32) {
    return refused(absl::StrCat("but update.dense is PARAMETER_SERVER and update.wire ",
                                v1::UpdateSpec::WireType_Name(update.wire()),
                                ", where what pushes round away is not kept: take update.wire F32, "
                                "or update.dense ALL_REDUCE"));
  }
  // Servers keep former values for these jobs (JobTables::keeps_previous).
  if (update.deterministic() || HoldsUnitsInFlight(spec) || SizeAlong(kShareAxes, spec) > 1) {
    return absl::OkStatus();
  }
  return refused(
      "but servers do not keep the parameters of a step that workers repeat together after a loss: "
      "set update.deterministic, or update.dense ALL_REDUCE");
}

// Checks that rounds of fewer workers have whole groups that share out experts.
absl::Status ValidateFewerExpertRanks(const v1::JobSpec& spec) {
  if (spec.min_workers() == 0 || spec.min_workers() == spec.workers()) return absl::OkStatus();
  if (SizeAlong(kShardAxes, spec) > 1) {
    return Invalid("parallelism.expert", spec.parallelism().expert(),
                   "but with min_workers and parallelism.zero the workers that are left would "
                   "divide experts and shards anew: leave one of the three out");
  }
  if (spec.compute().device() == v1::ComputeSpec::CUDA) {
    return Invalid("parallelism.expert", spec.parallelism().expert(),
                   "but with min_workers, and on GPUs rounds of fewer workers were never run with "
                   "experts shared out: leave one of them out, or take compute.device CPU");
  }
  const uint32_t together = SizeAlong(kLayerAxes | kExpertAxes, spec);
  if (spec.min_workers() % together == 0) return absl::OkStatus();
  return Invalid(
      "min_workers", spec.min_workers(),
      absl::StrCat("but ", together,
                   " workers have the experts of this job together (parallelism.expert), "
                   "none of which can go on alone: take a multiple of ",
                   together));
}

}  // namespace

absl::Status ValidateExperts(const v1::TransformerSpec& spec) {
  if (!spec.has_moe()) return absl::OkStatus();
  const MoeSpec& moe = spec.moe();
  MUSTER_RETURN_IF_ERROR(ExpertsWithin("experts", moe.experts(), 2, kMaxExperts));
  if (moe.top_k() == 0 || moe.top_k() > moe.experts()) {
    return RefusedExperts(
        "top_k", moe.top_k(),
        absl::StrCat("it must be from 1 to the number of experts, ", moe.experts()));
  }
  MUSTER_RETURN_IF_ERROR(ExpertsWithin("expert_width", moe.expert_width(), 0, kMaxFeedForward));
  MUSTER_RETURN_IF_ERROR(ExpertsWithin("shared_width", moe.shared_width(), 0, kMaxFeedForward));
  if (moe.shared_gate() && moe.shared_width() == 0) {
    return RefusedExperts("shared_gate", "true",
                          "but there is no shared expert; give its `shared_width`");
  }
  MUSTER_RETURN_IF_ERROR(ValidateDenseBlocks(spec));
  if (!MoeSpec::Scores_IsValid(moe.scores())) {
    return RefusedExperts("scores", static_cast<int>(moe.scores()),
                          "it must be SOFTMAX or SIGMOID");
  }
  MUSTER_RETURN_IF_ERROR(NotNegativeOfExperts("scaling", moe.scaling()));
  MUSTER_RETURN_IF_ERROR(ValidateExpertGroups(moe));
  MUSTER_RETURN_IF_ERROR(NotNegativeOfExperts("bias_rate", moe.bias_rate()));
  if (moe.bias_rate() > 0 && !moe.selection_bias()) {
    return RefusedExperts("bias_rate", moe.bias_rate(),
                          "but there are no biases; set `selection_bias`");
  }
  return ValidateRouterLosses(moe);
}

absl::Status ValidateExpertUpdates(const v1::JobSpec& spec) {
  const MoeSpec& moe = spec.model().transformer().moe();
  if (!TrainsByAllReduce(spec) && AllComputeTogether(spec)) {
    MUSTER_RETURN_IF_ERROR(ValidateServedCounts(spec));
  }
  if (!moe.selection_bias()) return absl::OkStatus();
  const v1::UpdateSpec& update = spec.update();
  // Biases follow the loads of a whole step.
  if (!TrainsByAllReduce(spec) && update.staleness_bound() != 0) {
    return RefusedExperts("selection_bias", "true",
                          "but parameters may be stale (update.staleness_bound); biases move by "
                          "the loads of all workers in a step: set it to 0, or take "
                          "`auxiliary_loss` instead");
  }
  if (TrainsByAllReduce(spec) && update.wire() > v1::UpdateSpec::F32) {
    return RefusedExperts(
        "selection_bias", "true",
        absl::StrCat("but gradients travel as ", v1::UpdateSpec::WireType_Name(update.wire()),
                     ", which rounds loads; leave update.wire out"));
  }
  return absl::OkStatus();
}

absl::Status ValidateExpertRanks(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  const uint32_t ranks = parallelism.expert();
  if (ranks <= 1) return absl::OkStatus();
  const auto refused = [ranks](const std::string& remedy) {
    return Invalid("parallelism.expert", ranks, remedy);
  };
  if (!spec.model().transformer().has_moe()) {
    return refused(
        "but the model has no experts that ranks could share out: leave it out, or give "
        "model.transformer.moe");
  }
  if (const uint32_t experts = spec.model().transformer().moe().experts(); experts % ranks != 0) {
    return refused(absl::StrCat("it must divide the ", experts, " experts"));
  }
  MUSTER_RETURN_IF_ERROR(ValidateServedRanks(spec, "parallelism.expert", ranks));
  MUSTER_RETURN_IF_ERROR(ValidateFewerExpertRanks(spec));
  const Mesh mesh = MeshOf(spec);
  if (mesh.size(kExpertAxes) == static_cast<int>(ranks)) return absl::OkStatus();
  return refused(absl::StrCat("and workers divide parameters among ", mesh.size(kShardAxes),
                              " (parallelism.zero); one of the two must divide the other"));
}

}  // namespace muster
