#include "common/partition/pulled_types.h"

#include <cstddef>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace muster {

std::vector<DType> PulledTypes(absl::Span<const TensorSpec> tensors) {
  absl::flat_hash_map<absl::string_view, const TensorSpec*> by_name;
  for (const TensorSpec& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  std::map<std::tuple<uint32_t, bool, bool, float, float, absl::optional<float>>, DType> groups;
  const auto group = [&](const TensorSpec& tensor) {
    const TensorSpec& owner = tensor.tied_to.empty() ? tensor : *by_name.at(tensor.tied_to);
    return std::tuple(owner.unit, owner.frozen, owner.weight_decay, owner.sign_rate, owner.rate,
                      owner.own_weight_decay);
  };
  for (const TensorSpec& tensor : tensors) {
    const auto [it, first] = groups.emplace(group(tensor), tensor.compute);
    if (!first && it->second != tensor.compute) it->second = DType::kF32;
  }
  std::vector<DType> types;
  for (const TensorSpec& tensor : tensors) types.push_back(groups.at(group(tensor)));
  return types;
}

}  // namespace muster
