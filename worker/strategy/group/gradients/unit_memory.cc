#include "worker/strategy/group/gradients/unit_memory.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/dtype.h"

namespace muster {

absl::StatusOr<std::unique_ptr<UnitMemory>> UnitMemory::Create(Communicator& shard_group,
                                                               const ShardedTensors& sharded,
                                                               UnitPlaces::Content content,
                                                               const UnitPlaces& places) {
  if (const int shards = sharded.shards.holders().shards; shard_group.size() != shards) {
    return absl::FailedPreconditionError(
        absl::StrCat("a group of ", shard_group.size(), " ranks holds parameters that are divided ",
                     "into ", shards, " shards; there must be one for each rank"));
  }
  std::unique_ptr<UnitMemory> memory(new UnitMemory(places));
  memory->tensors_.resize(sharded.tensors.size());
  if (memory->places_.bytes() == 0) return memory;
  MUSTER_ASSIGN_OR_RETURN(memory->memory_, shard_group.Allocate(memory->places_.bytes()));
  memory->bytes_ = memory->memory_->bytes();
  for (size_t i = 0; i < sharded.tensors.size(); ++i) {
    if (sharded.tensors[i].elements() == 0) continue;
    const uint64_t begin = sharded.layout.tensor_offset(static_cast<int>(i));
    if (begin >= sharded.layout.elements()) continue;
    const int index = sharded.shards.PartOf(begin);
    const ShardLayout::Part& part = sharded.shards.parts()[index];
    const size_t element =
        content == UnitPlaces::Content::kWeights ? SizeOf(part.compute) : sizeof(float);
    memory->tensors_[i] = memory->part(index) + (begin - part.begin) * element;
  }
  return memory;
}

}  // namespace muster
