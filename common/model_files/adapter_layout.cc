#include "common/model_files/adapter_layout.h"

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {

std::vector<AdapterPlace> AdapterPlaces(const v1::TransformerSpec& spec,
                                        const v1::AdapterSpec& adapter) {
  const int64_t C = spec.width();
  const int64_t F = spec.feed_forward();
  const int64_t A = int64_t{spec.heads()} * spec.head_width();
  const int64_t K = int64_t{spec.kv_heads()} * spec.head_width();
  const int64_t U = spec.activation() == v1::TransformerSpec::SWIGLU ? 2 * F : F;
  const AdapterPlace all[] = {
      {AdapterTarget::kQuery, "qkv.weight", A + 2 * K, 0, A, C},
      {AdapterTarget::kKey, "qkv.weight", A + 2 * K, A, K, C},
      {AdapterTarget::kValue, "qkv.weight", A + 2 * K, A + K, K, C},
      {AdapterTarget::kOutput, "proj.weight", C, 0, C, A},
      {AdapterTarget::kGate, "up.weight", U, 0, F, C},
      {AdapterTarget::kUp, "up.weight", U, U - F, F, C},
      {AdapterTarget::kDown, "down.weight", C, 0, C, F},
  };
  const std::array<bool, kAdapterTargets> targets = TargetsOf(adapter);
  std::vector<AdapterPlace> places;
  if (adapter.rank() == 0) return places;
  for (const AdapterPlace& place : all) {
    if (targets[static_cast<int>(place.target)]) places.push_back(place);
  }
  return places;
}

std::string AdapterTensorName(uint32_t block, AdapterTarget target, absl::string_view matrix) {
  return absl::StrCat("block", block, ".", kAdapterTargetNames[static_cast<int>(target)],
                      ".adapter.", matrix);
}

}  // namespace muster
