#include "common/partition/model_units.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace muster {

int UnitCount(absl::Span<const TensorSpec> tensors) {
  int units = 0;
  for (const TensorSpec& tensor : tensors) {
    units = std::max(units, static_cast<int>(tensor.unit) + 1);
  }
  return units;
}

std::vector<std::vector<int>> TiedUnits(absl::Span<const TensorSpec> tensors) {
  absl::flat_hash_map<absl::string_view, int> units;
  for (const TensorSpec& tensor : tensors) units[tensor.name] = static_cast<int>(tensor.unit);
  std::vector<std::vector<int>> tied(UnitCount(tensors));
  for (const TensorSpec& tensor : tensors) {
    if (tensor.tied_to.empty()) continue;
    const int owner = units.at(tensor.tied_to);
    if (owner != static_cast<int>(tensor.unit)) tied[tensor.unit].push_back(owner);
  }
  for (std::vector<int>& owners : tied) {
    std::sort(owners.begin(), owners.end());
    owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  }
  return tied;
}

std::vector<int> ReadyUnits(absl::Span<const TensorSpec> tensors) {
  const std::vector<std::vector<int>> tied = TiedUnits(tensors);
  std::vector<int> ready(tied.size());
  std::iota(ready.begin(), ready.end(), 0);
  for (int unit = 0; unit < static_cast<int>(tied.size()); ++unit) {
    for (const int owner : tied[unit]) ready[owner] = std::min(ready[owner], unit);
  }
  return ready;
}

std::vector<std::vector<int>> CompleteUnits(absl::Span<const TensorSpec> tensors) {
  const std::vector<int> ready = ReadyUnits(tensors);
  std::vector<std::vector<int>> complete(ready.size());
  for (int unit = static_cast<int>(ready.size()) - 1; unit >= 0; --unit) {
    complete[ready[unit]].push_back(unit);
  }
  return complete;
}

}  // namespace muster
