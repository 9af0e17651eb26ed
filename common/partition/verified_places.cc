#include "common/partition/verified_places.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/base/round_up.h"
#include "common/partition/model_units.h"

namespace muster {
namespace {

// Arrays begin where vector instructions like to read.
constexpr uint64_t kPlaceElements = 16;

}  // namespace

VerifiedPlaces PlacesOfVerified(absl::Span<const TensorSpec> tensors,
                                absl::Span<const uint64_t> elements, UnitsAtOnce units) {
  absl::flat_hash_map<absl::string_view, size_t> by_name;
  for (size_t i = 0; i < tensors.size(); ++i) by_name[tensors[i].name] = i;
  std::vector<std::vector<int>> tied = TiedUnits(tensors);
  std::vector<bool> stays(tied.size(), units == UnitsAtOnce::kAll);
  for (const std::vector<int>& owners : tied) {
    for (const int owner : owners) stays[owner] = true;
  }
  // Another stage of a pipeline may have the owner.
  const auto owner_of = [&](size_t i) {
    const auto found = by_name.find(tensors[i].tied_to);
    return found != by_name.end() && elements[found->second] > 0 ? found->second : i;
  };
  VerifiedPlaces places;
  places.begins.resize(tensors.size());
  uint64_t shared = 0;
  for (const bool stay : {true, false}) {
    uint64_t begin = places.elements;
    auto unit = tensors.empty() ? 0 : tensors[0].unit;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (stays[tensors[i].unit] != stay || owner_of(i) != i) continue;
      if (!stay && tensors[i].unit != unit) begin = places.elements;
      unit = tensors[i].unit;
      places.begins[i] = begin;
      begin += RoundUp<uint64_t>(elements[i], kPlaceElements);
      if (!stay) shared = std::max(shared, begin - places.elements);
    }
    if (stay) places.elements = begin;
  }
  places.elements += shared;
  for (size_t i = 0; i < tensors.size(); ++i) places.begins[i] = places.begins[owner_of(i)];
  return places;
}

}  // namespace muster
