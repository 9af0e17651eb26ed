#ifndef MUSTER_COMMON_JOB_ADAPTER_TARGETS_H_
#define MUSTER_COMMON_JOB_ADAPTER_TARGETS_H_

#include <array>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace muster {

namespace v1 {
class AdapterSpec;
}  // namespace v1

// The layers of a block that may have adapters: products of attention, and of feed-forward. A fused
// matrix has several of them, one after another.
enum class AdapterTarget { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };

inline constexpr int kAdapterTargets = 7;
inline constexpr std::array<absl::string_view, kAdapterTargets> kAdapterTargetNames = {
    "query", "key", "value", "output", "gate", "up", "down"};

// Returns the target of this name; none: there is no such target.
absl::optional<AdapterTarget> AdapterTargetOf(absl::string_view name);

// Says, by target, which a specification names; without a name query and value.
std::array<bool, kAdapterTargets> TargetsOf(const v1::AdapterSpec& spec);

// Returns the factor of what adapters add.
float AdapterScale(const v1::AdapterSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_ADAPTER_TARGETS_H_
