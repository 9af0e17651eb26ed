#ifndef MUSTER_COMMON_COMPUTE_EXPERT_EXTENTS_H_
#define MUSTER_COMMON_COMPUTE_EXPERT_EXTENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace muster {

// The extents of a transformer's feed-forward layers that are made of experts; none: E is 0.
// Letters as in common/kernels/moe/expert_arrays.h.
struct ExpertExtents {
  uint64_t E = 0;
  uint64_t k = 0;
  // The feed-forward width of one expert, and the columns of its first matrix.
  uint64_t F = 0;
  uint64_t U = 0;
  // The same of the shared expert; 0: there is none.
  uint64_t shared_F = 0;
  uint64_t shared_U = 0;
  bool shared_gate = false;
  // True if choices are counted, and if so, together for all sequences of a micro-batch.
  bool counts = false;
  bool counts_together = false;
  // True if the counts are those of all data ranks.
  bool counts_of_all_ranks = false;
  // True if an expert takes a limited number of choices, so that some may be dropped.
  bool drops = false;
  // Blocks, counted from 0, that have a dense feed-forward layer. In order.
  std::vector<uint32_t> dense_layers;

  bool IsExpertBlock(uint64_t layer) const {
    return E > 0 && !std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
  }
  // Returns the number of runs of tokens over which choices are counted.
  uint64_t Runs(uint64_t sequences) const {
    if (!counts) return 0;
    return counts_together ? 1 : sequences;
  }
  // Returns how many numbers say a block's loads: the tokens of each expert and, where choices may
  // be dropped, how many were.
  uint64_t loads_of_block() const { return E + (drops ? 1 : 0); }
  // Returns the parts of a data rank's tokens, in order, whose choices are counted each for itself,
  // so that every rank knows how many come before its own. Context ranks have two chunks of each
  // sequence, and `row_ranks` ranks have rows of each chunk or, without context ranks, of all. 0:
  // none is dropped.
  uint64_t Parts(uint64_t sequences, uint64_t context_ranks, uint64_t row_ranks) const {
    if (!drops) return 0;
    return (context_ranks == 1 ? 1 : sequences * 2 * context_ranks) * row_ranks;
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_EXPERT_EXTENTS_H_
