#ifndef MUSTER_COMMON_PARTITION_VERIFIED_PLACES_H_
#define MUSTER_COMMON_PARTITION_VERIFIED_PLACES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/partition/tensor_spec.h"

namespace muster {

// Says whether the gradients of all units are in memory together, or those of one at a time.
enum class UnitsAtOnce { kAll, kOne };

// The places of the gradients of a share that another data rank has to send (JobSpec.verify_every).
struct VerifiedPlaces {
  // The first element of each tensor's place, a multiple of 16; tied tensors have their owner's.
  std::vector<uint64_t> begins;
  // Elements of all places.
  uint64_t elements = 0;
};

// Returns the places of gradients with so many `elements`, by tensor; tensors without any have no
// place of their own. With kOne the units use the same memory in turn, except for units that own a
// tensor to which another unit's is tied: those keep a place, since both units add to it. A pure
// function.
VerifiedPlaces PlacesOfVerified(absl::Span<const TensorSpec> tensors,
                                absl::Span<const uint64_t> elements, UnitsAtOnce units);

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_VERIFIED_PLACES_H_
