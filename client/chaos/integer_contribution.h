#ifndef MUSTER_CLIENT_CHAOS_INTEGER_CONTRIBUTION_H_
#define MUSTER_CLIENT_CHAOS_INTEGER_CONTRIBUTION_H_

#include <cstdint>
#include <vector>

#include "common/base/fingerprint.h"
#include "common/base/payload.h"
#include "common/partition/dense_layout.h"
#include "common/partition/sparse_placement.h"

namespace muster {

// Number of floats of a row that integers are pushed to.
inline constexpr uint32_t kIntegerRowDim = 4;

// Returns what a slot pushes at a clock to an element, an integer in [-8, 8]: a pure function.
inline int IntegerAt(uint32_t slot, uint64_t clock, uint64_t element) {
  return static_cast<int>(MixBits(MixBits(element + 1) ^ (clock << 8) ^ slot) % 17) - 8;
}

// Returns true if a slot pushes to a row at a clock, which is so about every fourth time.
inline bool PushesRow(uint32_t slot, uint64_t clock, uint64_t key) {
  return MixBits((key << 20) + (clock << 4) + slot) % 4 == 0;
}

// Returns the number by which IntegerAt knows a row's float, far from the dense elements.
inline uint64_t RowElement(uint64_t key, uint32_t i) {
  return (uint64_t{1} << 40) + key * kIntegerRowDim + i;
}

// Returns the keys of a partition among 0 … rows - 1.
inline std::vector<uint64_t> KeysOf(uint32_t partition, uint32_t partitions, uint64_t rows) {
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < rows; ++key) {
    if (SparsePartition(key, partitions) == partition) keys.push_back(key);
  }
  return keys;
}

// Returns the payload of a sparse push: keys, then rows.
inline Payload RowsPayload(uint32_t slot, uint64_t clock, const std::vector<uint64_t>& keys) {
  std::vector<uint32_t> words(keys.size() * (2 + kIntegerRowDim));
  size_t at = 0;
  for (uint64_t key : keys) {
    words[at++] = static_cast<uint32_t>(key);
    words[at++] = static_cast<uint32_t>(key >> 32);
  }
  for (uint64_t key : keys) {
    for (uint32_t i = 0; i < kIntegerRowDim; ++i) {
      const float value = static_cast<float>(IntegerAt(slot, clock, RowElement(key, i)));
      static_assert(sizeof(value) == sizeof(uint32_t));
      __builtin_memcpy(&words[at++], &value, sizeof(value));
    }
  }
  return Payload::Of(std::move(words));
}

// Returns the payload of a dense push of all blocks of a partition.
inline Payload BlocksPayload(uint32_t slot, uint64_t clock, const DenseLayout& layout,
                             uint32_t partition) {
  std::vector<float> values;
  for (uint32_t id : layout.partition_blocks(partition)) {
    const DenseLayout::Block& block = layout.blocks()[id];
    for (uint64_t element = block.begin; element < block.end; ++element) {
      values.push_back(static_cast<float>(IntegerAt(slot, clock, element)));
    }
  }
  return Payload::Of(std::move(values));
}

}  // namespace muster

#endif  // MUSTER_CLIENT_CHAOS_INTEGER_CONTRIBUTION_H_
