#include "common/job/validation/adapter_validator.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/adapter_targets.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// A larger adapter is no smaller than what it is beside.
constexpr uint32_t kMostRank = 1024;

absl::Status CheckAdapterTargets(const v1::JobSpec& spec) {
  const v1::TransformerSpec& transformer = spec.model().transformer();
  for (const std::string& name : spec.adapter().targets()) {
    const auto target = AdapterTargetOf(name);
    if (!target.has_value()) {
      return Invalid("adapter.targets", name,
                     absl::StrCat("it must be one of ", absl::StrJoin(kAdapterTargetNames, ", ")));
    }
    if (*target == AdapterTarget::kGate &&
        transformer.activation() != v1::TransformerSpec::SWIGLU) {
      return Invalid(
          "adapter.targets", name,
          "but model.transformer.activation is not SWIGLU, so there is no gate; leave it "
          "out");
    }
  }
  const std::array<bool, kAdapterTargets> targets = TargetsOf(spec.adapter());
  const bool by_rows = targets[static_cast<int>(AdapterTarget::kOutput)] ||
                       targets[static_cast<int>(AdapterTarget::kDown)];
  if (spec.adapter().dropout() > 0 && by_rows && SizeAlong(Axis::kTensor, spec) > 1) {
    return Invalid(
        "adapter.dropout", absl::StrCat(spec.adapter().dropout()),
        "but tensor ranks divide the inputs of output and down, of which each would drop "
        "others; leave out the dropout, these targets or parallelism.tensor");
  }
  return absl::OkStatus();
}

absl::Status CheckAdapter(const v1::JobSpec& spec) {
  const v1::AdapterSpec& adapter = spec.adapter();
  if (!spec.model().has_transformer()) {
    return Invalid("adapter", "set", "but only model.transformer has layers for it; leave it out");
  }
  if (adapter.rank() < 1 || adapter.rank() > kMostRank) {
    return Invalid("adapter.rank", absl::StrCat(adapter.rank()),
                   absl::StrCat("it must be from 1 to ", kMostRank));
  }
  if (!std::isfinite(adapter.alpha()) || adapter.alpha() < 0) {
    return Invalid("adapter.alpha", absl::StrCat(adapter.alpha()),
                   "it must be above 0, or 0 for the rank");
  }
  if (!(adapter.dropout() >= 0 && adapter.dropout() < 1)) {
    return Invalid("adapter.dropout", absl::StrCat(adapter.dropout()),
                   "it must be at least 0 and less than 1");
  }
  return CheckAdapterTargets(spec);
}

absl::Status CheckGroup(const std::string& field, const v1::ParameterGroup& group,
                        const v1::OptimizerSpec& optimizer) {
  if (group.names().empty()) {
    return Invalid(absl::StrCat(field, ".names"), "empty", "it must name the group's tensors");
  }
  if (!group.has_rate() && !group.has_weight_decay() && !group.frozen()) {
    return Invalid(field, "without rate, weight_decay and frozen",
                   "set one of them, or leave the group out");
  }
  if (group.frozen() && (group.has_rate() || group.has_weight_decay())) {
    return Invalid(absl::StrCat(field, ".frozen"), "true",
                   "but no step reads rate or weight_decay of frozen tensors; leave them out");
  }
  if (group.has_rate() && !(group.rate() >= 0 && std::isfinite(group.rate()))) {
    return Invalid(absl::StrCat(field, ".rate"), absl::StrCat(group.rate()),
                   "it must be a finite number of at least 0");
  }
  if (group.has_weight_decay() &&
      !(group.weight_decay() >= 0 && std::isfinite(group.weight_decay()))) {
    return Invalid(absl::StrCat(field, ".weight_decay"), absl::StrCat(group.weight_decay()),
                   "it must be a finite number of at least 0");
  }
  if (group.has_weight_decay() && optimizer.name() == "ftrl") {
    return Invalid(absl::StrCat(field, ".weight_decay"), absl::StrCat(group.weight_decay()),
                   "but ftrl has l1 and l2 in its place; leave it out");
  }
  return absl::OkStatus();
}

// Checks what jobs with frozen tensors may be combined with.
absl::Status CheckFrozen(const v1::JobSpec& spec, const std::string& field) {
  if (!spec.model().has_transformer()) {
    return Invalid(field, "set",
                   "but only transformers leave out the gradients of frozen tensors; leave it out, "
                   "or give the group a rate of 0");
  }
  if (spec.model().transformer().has_moe()) {
    return Invalid(
        field, "set",
        "but layers of experts (model.transformer.moe) are trained as a whole; leave one "
        "of them out");
  }
  const v1::UpdateSpec& update = spec.update();
  const bool half = update.wire() == v1::UpdateSpec::BF16 || update.wire() == v1::UpdateSpec::F16;
  if (half && !TrainsByAllReduce(spec)) {
    return Invalid("update.wire", v1::UpdateSpec::WireType_Name(update.wire()),
                   absl::StrCat("but with ", field,
                                " servers get gradients as f32, which are few; leave it out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateParameterGroups(const v1::JobSpec& spec) {
  const v1::OptimizerSpec& optimizer = spec.optimizer();
  if (!spec.has_adapter() && optimizer.groups().empty()) return absl::OkStatus();
  if (spec.compute().device() == v1::ComputeSpec::CUDA) {
    return Invalid(spec.has_adapter() ? "adapter" : "optimizer.groups", "set",
                   "but on devices (compute.device CUDA) all tensors are trained alike; leave one "
                   "of them out");
  }
  if (spec.has_adapter()) {
    MUSTER_RETURN_IF_ERROR(CheckAdapter(spec));
    MUSTER_RETURN_IF_ERROR(CheckFrozen(spec, "adapter"));
  }
  for (int i = 0; i < optimizer.groups_size(); ++i) {
    const std::string field = absl::StrCat("optimizer.groups[", i, "]");
    MUSTER_RETURN_IF_ERROR(CheckGroup(field, optimizer.groups(i), optimizer));
    if (!optimizer.groups(i).frozen()) continue;
    MUSTER_RETURN_IF_ERROR(CheckFrozen(spec, absl::StrCat(field, ".frozen")));
  }
  return absl::OkStatus();
}

}  // namespace muster
