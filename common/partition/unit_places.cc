#include "common/partition/unit_places.h"

#include <algorithm>
#include <cstddef>

#include "common/base/round_up.h"
#include "common/partition/model_units.h"
#include "common/tensor/dtype.h"

namespace muster {
namespace {

constexpr uint64_t kAlignBytes = 64;

}  // namespace

UnitPlaces::UnitPlaces(const ShardLayout& shards, absl::Span<const TensorSpec> tensors,
                       Holding holding, Content content, uint64_t kept_bytes)
    : part_offsets_(shards.parts().size()), tied_units_(TiedUnits(tensors)) {
  shared_places_.assign(tied_units_.size(), -1);
  std::vector<bool> stays(tied_units_.size(), holding == Holding::kWhole);
  for (const std::vector<int>& owners : tied_units_) {
    for (int owner : owners) stays[owner] = true;
  }

  // Lays the unit's parts out from `begin` on, and returns their end.
  const auto lay = [&](int unit, uint64_t begin) {
    for (int index : shards.unit_parts(unit)) {
      const ShardLayout::Part& part = shards.parts()[index];
      part_offsets_[index] = begin;
      const uint64_t element = content == Content::kWeights ? SizeOf(part.compute) : sizeof(float);
      begin = RoundUp(begin + part.slice * part.slices * element, kAlignBytes);
    }
    return begin;
  };
  uint64_t shared_bytes[2] = {};
  uint64_t left = kept_bytes;
  int turn = 0;
  for (int unit = 0; unit < static_cast<int>(tied_units_.size()); ++unit) {
    if (shards.unit_parts(unit).empty()) continue;
    if (stays[unit]) {
      bytes_ = lay(unit, bytes_);
      continue;
    }
    const uint64_t bytes = lay(unit, 0);
    if (bytes <= left) {
      left -= bytes;
      bytes_ = lay(unit, bytes_);
      continue;
    }
    shared_bytes[turn] = std::max(shared_bytes[turn], bytes);
    shared_places_[unit] = turn;
    turn = 1 - turn;
  }
  for (size_t i = 0; i < part_offsets_.size(); ++i) {
    const int place = shared_places_[shards.parts()[i].unit];
    if (place >= 0) part_offsets_[i] += bytes_ + (place == 1 ? shared_bytes[0] : 0);
  }
  bytes_ += shared_bytes[0] + shared_bytes[1];
}

int UnitPlaces::shared_place(int unit) const {
  return static_cast<size_t>(unit) < shared_places_.size() ? shared_places_[unit] : -1;
}

absl::Span<const int> UnitPlaces::tied_units(int unit) const {
  if (static_cast<size_t>(unit) >= tied_units_.size()) return {};
  return tied_units_[unit];
}

UnitPlaces::Content RoomFor(const DenseLayout& layout, absl::Span<const DType> types) {
  for (const DenseLayout::Block& block : layout.blocks()) {
    if (types[block.pieces[0].tensor] != layout.parts()[block.part].compute) {
      return UnitPlaces::Content::kGradients;
    }
  }
  return UnitPlaces::Content::kWeights;
}

}  // namespace muster
