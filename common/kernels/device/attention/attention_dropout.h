#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_ATTENTION_DROPOUT_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_ATTENTION_DROPOUT_H_

#include <cstddef>
#include <cstdint>

#include "common/kernels/device/attention/resolved_attention_shape.h"
#include "common/kernels/device/dropout_factors.h"
#include "common/kernels/device/simt/simt.h"
#include "common/kernels/transformer/op_arrays.h"

namespace muster {

// Which probabilities of a tile of queries and keys are kept (AttentionDropout says which): a bit
// each, drawn by the block together into shared memory, eight keys by one thread at a time. So
// nothing is drawn twice, whichever way round a kernel's fragments lie. Without kDrops: nothing.
template <bool kDrops, int kQueries, int kKeys>
struct KeptTile {
  static constexpr int kRowBytes = kKeys / 8;
  static constexpr size_t kBytes = kDrops ? size_t{kQueries} * kRowBytes : 0;

  uint8_t* bits;

  MUSTER_DEVICE static KeptTile At(char* shared) { return {reinterpret_cast<uint8_t*>(shared)}; }

  // Of queries from q0 on of head h of sequence b and keys from k0 on, a multiple of 8. By all
  // kThreads; seen by others after SyncBlock.
  template <int kThreads>
  MUSTER_DEVICE void Draw(const OpDropout& dropout, const ResolvedAttentionShape& place, int b,
                          int h, int64_t q0, int64_t k0) const {
    if constexpr (kDrops) {
      const int64_t heads = dropout.heads > 0 ? dropout.heads : place.H;
      const uint64_t head = (dropout.clock->first_example + b) * heads + dropout.first_head + h;
      const uint64_t row = head * place.T + place.first_query + q0;
      const int64_t key = place.first_key + k0;
      const int within = static_cast<int>(key % 8);
      for (int i = ThreadIndex(); i < kQueries * kRowBytes; i += kThreads) {
        const uint64_t eight = key / 8 + i % kRowBytes;
        const uint32_t low = KeptOf8(dropout, row + i / kRowBytes, eight);
        const uint32_t high = within != 0 ? KeptOf8(dropout, row + i / kRowBytes, eight + 1) : 0u;
        bits[i] = static_cast<uint8_t>((high << 8 | low) >> within);
      }
    }
  }

  // What the probability of the tile's query q and key k is multiplied by.
  MUSTER_DEVICE float Factor(const OpDropout& dropout, int q, int k) const {
    if constexpr (!kDrops) return 1;
    return bits[q * kRowBytes + k / 8] >> k % 8 & 1 ? dropout.scale : 0.0f;
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_ATTENTION_DROPOUT_H_
