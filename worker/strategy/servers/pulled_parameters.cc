#include "worker/strategy/servers/pulled_parameters.h"

#include <algorithm>
#include <utility>

#include "common/partition/shard_layout.h"
#include "common/tensor/half.h"
#include "common/tensor/wire_elements.h"

namespace muster {
PulledParameters::PulledParameters(const DenseLayout& layout, absl::Span<const TensorSpec> tensors,
                                   absl::Span<const DType> types, UnitPlaces::Holding holding,
                                   std::shared_ptr<RegisteredMemory> registered)
    : places_(ShardLayout(layout, 1), tensors, holding, RoomFor(layout, types)) {
  for (const DenseLayout::Block& block : layout.blocks()) {
    const DType type = types[block.pieces[0].tensor];
    if (stretches_.empty() || stretches_.back().part != block.part ||
        stretches_.back().type != type) {
      // A block of another type than its part's leaves room for f32 values before it.
      const uint64_t before = block.begin - layout.parts()[block.part].begin;
      stretches_.push_back(
          {.begin = block.begin,
           .part = block.part,
           .type = type,
           .offset = places_.part_offset(static_cast<int>(block.part)) + before * sizeof(float)});
    }
    stretches_.back().end = block.end;
  }
  memory_.emplace(places_.bytes(), std::move(registered));
  values_.resize(tensors.size());
  rounded_.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].elements() == 0) continue;
    const void* const address = AddressOf(layout.tensor_offset(static_cast<int>(i)));
    if (types[i] == DType::kF32) {
      values_[i] = {static_cast<const float*>(address), static_cast<size_t>(tensors[i].elements())};
    } else {
      rounded_[i] = address;
    }
  }
}

const PulledParameters::TypeStretch& PulledParameters::StretchAt(uint64_t element) const {
  return *std::upper_bound(
      stretches_.begin(), stretches_.end(), element,
      [](uint64_t wanted, const TypeStretch& stretch) { return wanted < stretch.end; });
}

std::byte* PulledParameters::AddressOf(uint64_t element) const {
  const TypeStretch& stretch = StretchAt(element);
  return memory_->data() + stretch.offset + (element - stretch.begin) * SizeOf(stretch.type);
}

absl::Span<std::byte> PulledParameters::PlaceOf(const DenseRun& run) {
  return {AddressOf(run.begin), run.elements() * SizeOf(TypeOf(run))};
}

void PulledParameters::Take(const DenseRun& run, DType wire, const Payload& payload) {
  const DType type = TypeOf(run);
  std::byte* const place = PlaceOf(run).data();
  if (type == wire) return payload.CopyTo(place);
  if (type == DType::kF32) {
    return ReadElements(wire, payload, {reinterpret_cast<float*>(place), run.elements()});
  }
  std::vector<float> values(run.elements());
  ReadElements(wire, payload, absl::MakeSpan(values));
  RoundToHalf(type, values, reinterpret_cast<uint16_t*>(place));
}

}  // namespace muster
