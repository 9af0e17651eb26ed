#include "common/compute/context_ring.h"

namespace muster {

std::vector<ChunkPair> ChunkPairs(int rank, int source) {
  std::vector<ChunkPair> pairs;
  if (source <= rank) pairs.push_back({0, 0});
  // Chunks of the second half of a sequence are behind all of the first.
  pairs.push_back({1, 0});
  if (source >= rank) pairs.push_back({1, 1});
  return pairs;
}

}  // namespace muster
