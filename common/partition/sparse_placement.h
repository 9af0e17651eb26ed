#ifndef MUSTER_COMMON_PARTITION_SPARSE_PLACEMENT_H_
#define MUSTER_COMMON_PARTITION_SPARSE_PLACEMENT_H_

#include <cstdint>

#include "common/base/fingerprint.h"

namespace muster {

// Returns the partition of a sparse table's key: its mixed bits scaled to the number of partitions
// (never a bare modulo, whose patterns follow those of the keys).
inline uint32_t SparsePartition(uint64_t key, uint32_t partitions) {
  return static_cast<uint32_t>((static_cast<unsigned __int128>(MixBits(key)) * partitions) >> 64);
}

// Returns the shard that owns a sparse table's key: shard s has partitions p with p mod S = s, so
// no shard has rows of a partition that another has. REQUIRES: shards >= 1.
inline uint32_t SparseShard(uint64_t key, uint32_t partitions, uint32_t shards) {
  return SparsePartition(key, partitions) % shards;
}

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_SPARSE_PLACEMENT_H_
