#include "common/job/adapter_targets.h"

#include <algorithm>
#include <string>

#include "proto/job.pb.h"

namespace muster {

absl::optional<AdapterTarget> AdapterTargetOf(absl::string_view name) {
  const auto at = std::find(kAdapterTargetNames.begin(), kAdapterTargetNames.end(), name);
  if (at == kAdapterTargetNames.end()) return absl::nullopt;
  return static_cast<AdapterTarget>(at - kAdapterTargetNames.begin());
}

std::array<bool, kAdapterTargets> TargetsOf(const v1::AdapterSpec& spec) {
  std::array<bool, kAdapterTargets> targets = {};
  const auto add = [&targets](AdapterTarget target) { targets[static_cast<int>(target)] = true; };
  for (const std::string& name : spec.targets()) {
    if (const auto target = AdapterTargetOf(name); target.has_value()) add(*target);
  }
  if (spec.targets().empty()) {
    add(AdapterTarget::kQuery);
    add(AdapterTarget::kValue);
  }
  return targets;
}

float AdapterScale(const v1::AdapterSpec& spec) {
  const auto rank = static_cast<float>(std::max(1u, spec.rank()));
  return spec.alpha() == 0 ? 1 : spec.alpha() / rank;
}

}  // namespace muster
