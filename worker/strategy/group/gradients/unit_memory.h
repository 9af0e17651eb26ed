#ifndef MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_UNIT_MEMORY_H_
#define MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_UNIT_MEMORY_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/partition/tensor_spec.h"
#include "common/partition/unit_places.h"
#include "worker/collectives/communicator.h"

namespace muster {

// A model's dense tensors, and how a shard group divides them, or those that are trained: the
// others are then beyond the layout's end. All three outlive the objects that use them.
struct ShardedTensors {
  const DenseLayout& layout;
  const ShardLayout& shards;
  absl::Span<const TensorSpec> tensors;
};

// The memory of gathered parts (UnitPlaces). It is allocated from the shard group's communicator,
// so that calls move parts in place. Zero at first; addresses never change.
class UnitMemory {
 public:
  // Allocates the memory; a collective call. `places` are those of the sharded tensors.
  // FailedPrecondition: the group's size is not the number of shards. Otherwise errors are the
  // communicator's.
  static absl::StatusOr<std::unique_ptr<UnitMemory>> Create(Communicator& shard_group,
                                                            const ShardedTensors& sharded,
                                                            UnitPlaces::Content content,
                                                            const UnitPlaces& places);

  const UnitPlaces& places() const { return places_; }
  absl::Span<std::byte> bytes() const { return bytes_; }
  // Returns the first byte of a part's place.
  std::byte* part(int index) const { return bytes_.data() + places_.part_offset(index); }
  // Returns the first byte of a tensor, which for a tied tensor is its owner's; null for a tensor
  // without elements, or beyond the layout's end.
  std::byte* tensor(int index) const { return tensors_[index]; }

 private:
  explicit UnitMemory(const UnitPlaces& places) : places_(places) {}

  const UnitPlaces places_;
  std::unique_ptr<CollectiveBuffer> memory_;
  absl::Span<std::byte> bytes_;
  std::vector<std::byte*> tensors_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_GRADIENTS_UNIT_MEMORY_H_
