#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_TILES_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_TILES_H_

#include <cstdint>

#include "common/base/machine/simd_clones.h"

namespace muster {

// How attention is cut into tiles, and the scratch that takes.

// Queries of a tile: a multiple of the rows of a block of registers.
constexpr int64_t kQueryTile = 48;
// Keys of a panel.
constexpr int64_t kKeyPanel = 64;
// Keys between two corrections of the online softmax: a multiple of kKeyPanel.
constexpr int64_t kAttentionRun = 256;
// Queries of a unit of forward work: each packs the keys it sees for itself.
constexpr int64_t kQueriesOfUnit = 10 * kQueryTile;

// D rounded up to whole vectors.
MUSTER_ALWAYS_INLINE int64_t PaddedHead(int64_t D) { return (D + 15) / 16 * 16; }
MUSTER_ALWAYS_INLINE int64_t PaddedKeys(int64_t keys) {
  return (keys + kKeyPanel - 1) / kKeyPanel * kKeyPanel;
}

MUSTER_ALWAYS_INLINE int64_t AttentionScratch(int64_t keys, int64_t D) {
  return PaddedHead(D) * 2 * (PaddedKeys(keys) + kQueryTile) + kQueryTile * kAttentionRun;
}

MUSTER_ALWAYS_INLINE int64_t AttentionBackwardScratch(int64_t keys, int64_t D) {
  return PaddedHead(D) * (5 * PaddedKeys(keys) + 3 * kQueryTile) + 2 * kQueryTile * (kKeyPanel + 1);
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ATTENTION_TILES_H_
