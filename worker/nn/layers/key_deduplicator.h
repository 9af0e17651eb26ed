#ifndef MUSTER_WORKER_NN_LAYERS_KEY_DEDUPLICATOR_H_
#define MUSTER_WORKER_NN_LAYERS_KEY_DEDUPLICATOR_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace muster {

// Numbers the distinct keys of a batch in order of first use, by open addressing in a table that
// stays allocated from batch to batch. Not thread-safe; each micro-batch has its own.
class KeyDeduplicator {
 public:
  // Replaces `keys` by the distinct ones of `uses` and sets inverse[i] so that keys[inverse[i]] ==
  // uses[i]. REQUIRES: fewer than 2^30 uses.
  void Build(absl::Span<const uint64_t> uses, std::vector<uint64_t>& keys,
             std::vector<int32_t>& inverse);

 private:
  // Positions in `keys`, or -1; a power of two, at least twice as many as uses.
  std::vector<int32_t> slots_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_LAYERS_KEY_DEDUPLICATOR_H_
