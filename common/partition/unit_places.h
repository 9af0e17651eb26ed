#ifndef MUSTER_COMMON_PARTITION_UNIT_PLACES_H_
#define MUSTER_COMMON_PARTITION_UNIT_PLACES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/tensor/dtype.h"

namespace muster {

// The places of gathered parts in one piece of memory. A part's place has room for the slices of
// all ranks. With kWhole, every part has a place of its own. With kInFlight, units take turns in
// two shared places, each as large as its largest unit, so that the next unit can be fetched while
// one is in use, in both directions. A unit that owns a tensor to which another unit is tied keeps
// a place of its own, since both units use it at once. So do further units, if there is memory to
// keep some: in order, each whose parts still fit. Places never move.
//
// A pure function of its arguments. Immutable, so thread-safe.
class UnitPlaces {
 public:
  enum class Holding { kWhole, kInFlight };
  enum class Content {
    // Weights, in the type with which workers compute.
    kWeights,
    // Gradients, in f32.
    kGradients,
  };

  // `kept_bytes` is the memory for units that are kept besides those in flight; it counts with
  // kInFlight alone.
  UnitPlaces(const ShardLayout& shards, absl::Span<const TensorSpec> tensors, Holding holding,
             Content content, uint64_t kept_bytes = 0);

  uint64_t bytes() const { return bytes_; }
  // Returns the first byte of a part's place, a multiple of 64.
  uint64_t part_offset(int part) const { return part_offsets_[part]; }
  // Returns the unit's shared place, 0 or 1; -1 if the unit has a place of its own or no parts.
  int shared_place(int unit) const;
  // Returns the units that own the tensors to which the unit's are tied, in ascending order.
  absl::Span<const int> tied_units(int unit) const;

 private:
  std::vector<uint64_t> part_offsets_;
  // Both by unit.
  std::vector<int> shared_places_;
  std::vector<std::vector<int>> tied_units_;
  uint64_t bytes_ = 0;
};

// Returns the room that parameters need which are held in `types` (by tensor, PulledTypes):
// kWeights where each part is held in the type that workers compute with, otherwise kGradients,
// which is room for f32.
UnitPlaces::Content RoomFor(const DenseLayout& layout, absl::Span<const DType> types);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_UNIT_PLACES_H_
