#ifndef MUSTER_COMMON_COMPUTE_CONTEXT_RING_H_
#define MUSTER_COMMON_COMPUTE_CONTEXT_RING_H_

#include <cstdint>
#include <vector>

namespace muster {

// How context ranks share out a sequence of T tokens, so that each has as much to do although
// queries see earlier keys alone: it is cut into 2 c chunks, and rank r of c has chunk r and chunk
// 2 c - 1 - r, one behind the other (zig-zag; the order of Llama 3's and Megatron's context
// parallelism). These functions are pure: every rank computes what the others do.

// Returns where the rank's first or second (`half` 0 or 1) chunk of so many tokens begins in the
// whole sequence.
inline int64_t FirstOfChunk(int ranks, int rank, int half, int64_t chunk) {
  return (half == 0 ? rank : 2 * ranks - 1 - rank) * chunk;
}

// Returns the rank whose keys and values a rank has at one of the c turns of a ring, in which they
// go from each rank to the next. At turn 0 these are its own.
inline int SourceOfTurn(int ranks, int rank, int turn) { return (rank + ranks - turn) % ranks; }

// A chunk of a rank's queries and a chunk of some rank's keys of which the queries see some.
struct ChunkPair {
  int query_half = 0;
  int key_half = 0;

  friend bool operator==(const ChunkPair&, const ChunkPair&) = default;
};

// Returns the pairs of the rank's queries with the keys of rank `source`, by queries: three of a
// rank's own, two of any other. So all ranks have as much to do at each turn, and over a ring's
// turns each query meets each key that it sees once. Where documents share a sequence, pairs may
// turn out to have nothing in common.
std::vector<ChunkPair> ChunkPairs(int rank, int source);

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_CONTEXT_RING_H_
