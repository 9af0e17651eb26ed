#ifndef MUSTER_WORKER_COLLECTIVES_SCHEDULE_H_
#define MUSTER_WORKER_COLLECTIVES_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// Who sends which elements to whom in a collective call, as data: pure functions of the call, run
// by executors. With P the bytes of the whole vector and W ranks, each rank sends
//
//   all-reduce      kRing, kDirect 2(W-1)/W·P      kExchange (W-1)·P
//                   kDoubling log2(W)·P            kHalving 2(W-1)/W·P
//   reduce-scatter  kRing, kDirect  (W-1)/W·P
//   all-gather      kRing, kDirect  (W-1)/W·P (unequal counts: see MakeSchedule)
//   broadcast       kRing at most P; kDirect (W-1)·P from the root
//   reduce          kDirect P; nothing from the root
//
// kRing: rank r sends to r+1 and receives from r-1 alone; 2(W-1) steps for an all-reduce. A
//   partial sum travels, so that a chunk is added in the order of the ring, from the rank after its
//   owner to its owner. As a broadcast: a chain that begins at the root.
// kDirect: every rank talks to every other. The owner of a slice receives it from all and adds in
//   rank order in one pass, then sends the result to all: 2 steps.
// kExchange: every rank sends its whole vector to all and adds in rank order itself: 1 step.
// kDoubling: in step k ranks exchange their sums with the rank 2^k away, so that each sum comes to
//   hold twice as many ranks: log2(W) steps (recursive doubling).
// kHalving: the same, but of the vector only the half is sent that the other rank will own a part
//   of; then the parts are collected in reverse order: 2·log2(W) steps (Rabenseifner's recursive
//   halving and doubling). Where W is no power of two, kDoubling and kHalving first add each odd
//   rank below 2(W-p) to the one before it, p being the largest power of two, and send that rank
//   the result at last: P more to send, and two steps.
// kDissemination: for a barrier: in step k to r+2^k and from r-2^k.
//
// kDirect and kExchange add in rank order 0..W-1, each element by itself: they give the same bits
// for messages of any size, which is what `deterministic` asks for. kDoubling and kHalving add the
// same ranks in pairs, the lower ones first: ((x0 + x1) + (x2 + x3)). In kDoubling every rank makes
// each sum for itself, of the same operands in the same order: the same bits.
enum class Algorithm { kRing, kDirect, kExchange, kDissemination, kDoubling, kHalving };

const char* Name(Algorithm algorithm);

enum class Buffer : uint8_t {
  kInput,
  kOutput,
  // Schedule::scratch elements that the executor provides; contents undefined at first.
  kScratch,
};

struct Transfer {
  enum class Kind : uint8_t {
    // Sends from[i] to `peer`.
    kSend,
    // to[i] = what comes from `peer`.
    kReceive,
    // to[i] = (what comes from `peer`) ⊕ from[i], in this order of operands, or the other one where
    // `own_first`.
    kReceiveReduce,
    // to[i] = x_0[i] ⊕ x_1[i] ⊕ … ⊕ x_{W-1}[i] in this order, where x_p comes from rank p and x_r
    // of this rank is from[i]. A receive from every peer; `peer` is -1.
    kReduceFromAll,
    // to[i] = from[i]. Nothing to do where both are the same memory, as they may be in a call in
    // place. `peer` is -1.
    kCopy,
    // A copy that must be complete before any other transfer begins. First in the list.
    kStage,
  };

  Kind kind = Kind::kSend;
  // kReceiveReduce, kReduceFromAll: the reduction is complete here, and kAvg divides by W.
  bool completes = false;
  // kReceiveReduce.
  bool own_first = false;
  Buffer from = Buffer::kInput;
  Buffer to = Buffer::kOutput;
  int peer = -1;
  // Elements; 0 is possible: which transfers there are does not depend on counts, except that a
  // ring's reduce-scatter has a round for each block of the largest chunk.
  size_t count = 0;
  // Where the elements begin in `from` and `to`.
  size_t from_begin = 0;
  size_t to_begin = 0;
  // Indices in the list of earlier transfers that this one must not overtake: it moves its element
  // i once each of after_begin..after_end-1 has moved its own element i + after_offset, or all it
  // has.
  int after_begin = 0;
  int after_end = 0;
  size_t after_offset = 0;
};

// What one rank does. All transfers run at once, bound only by `after` and by this: those to one
// peer are sent one after the other in the list's order, and so are those received from one peer
// (kReduceFromAll counts for each of them). Sends and receives between two ranks then pair up. No
// order between different peers, nor between sending to a peer and receiving from it, is needed;
// pipes that hold one element suffice.
//
// An element that a transfer moves has left its buffer: the memory may be written by the next one.
// What is received must therefore be copied when it is sent (or its owner be known to be done).
struct Schedule {
  std::vector<Transfer> transfers;
  // Elements of kScratch.
  size_t scratch = 0;
};

struct ScheduleRequest {
  Collective kind = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDirect;
  int rank = 0;
  int size = 1;
  // As in CollectiveCall.
  size_t count = 0;
  absl::Span<const size_t> counts;
  absl::Span<const size_t> send_counts;
  int root = 0;
  // Whether `in` and `out` are the same memory. Only an all-to-all asks (it may need scratch);
  // every other schedule serves both.
  bool in_place = false;
  // Elements that kRing's reduce-scatter moves at a time; its scratch is W-2 of them.
  size_t fragment = 16384;
};

// This rank's part. Buffers are those of CollectiveCall for this rank; `in` is read, never written,
// where it is not `out`. A barrier moves single elements of scratch, of any type and value. A group
// of one has nothing but a copy.
// REQUIRES: the algorithm exists for the collective (tables above; all-to-all, reduce, send and
// receive have kDirect alone, a barrier has kDirect and kDissemination); counts as in
// CollectiveCall; for send and receive, root != rank.
Schedule MakeSchedule(const ScheduleRequest& request);

struct AlgorithmRequest {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kF32;
  // Of the whole vector: count, or the sum of counts.
  uint64_t bytes = 0;
  int size = 1;
  bool same_machine = false;
  bool deterministic = false;
};

// The algorithm for a call; a function of what all ranks know, hence the same on all. f16 and bf16
// are reduced by kDirect and kExchange alone: a travelling partial sum would be rounded at each
// step.
Algorithm ChooseAlgorithm(const AlgorithmRequest& request);

// Whether an all-reduce is so short that it goes to all at once whatever memory it works on.
bool IsShort(const AlgorithmRequest& request);

struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// The part of `count` elements that rank `rank` of `size` owns in an all-reduce: even, the first
// count % size ranks have one more.
Slice OwnSlice(size_t count, int rank, int size);

// Elements that the rank sends: the sum over its kSend.
uint64_t SentElements(const Schedule& schedule);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_SCHEDULE_H_
