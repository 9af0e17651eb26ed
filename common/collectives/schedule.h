#ifndef MUSTER_COMMON_COLLECTIVES_SCHEDULE_H_
#define MUSTER_COMMON_COLLECTIVES_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/collectives/collective.h"
#include "common/tensor/dtype.h"

namespace muster {

// The way in which a collective call moves elements. MakeSchedule turns a call and an algorithm
// into one rank's transfers. With P the bytes of the whole vector and W ranks, each rank sends
//
//   all-reduce      kRing, kDirect 2(W-1)/W·P      kExchange (W-1)·P
//                   kDoubling log2(W)·P            kHalving 2(W-1)/W·P
//   reduce-scatter  kRing, kDirect  (W-1)/W·P
//   all-gather      kRing P less slice r+1; kDirect W-1 times slice r, for rank r
//   broadcast       kRing at most P; kDirect (W-1)·P from the root
//   reduce          kDirect P; nothing from the root
//
// kRing: rank r sends only to r+1 and receives only from r-1; 2(W-1) steps for an all-reduce. A
//   partial sum travels: a slice is added in ring order, from the rank after its owner to its
//   owner. A broadcast is a chain that begins at the root.
// kDirect: every rank sends to every other. The owner of a slice receives it from all and adds in
//   rank order in one pass, then sends the result to all: 2 steps.
// kExchange: every rank sends its whole vector to all and adds in rank order itself: 1 step.
// kDoubling: recursive doubling. In step k each rank exchanges its sum with the rank 2^k away, so
//   that a sum covers twice as many ranks after each step: log2(W) steps.
// kHalving: Rabenseifner's recursive halving and doubling. As kDoubling, except that a rank sends
//   only the half of the vector in which the other rank will own a slice; then the slices are
//   collected in reverse order: 2·log2(W) steps. If W is no power of two, kDoubling and kHalving
//   first add each odd rank below 2(W-p) to the rank before it, p being the largest power of two
//   below W, and send the result back at the end: P more bytes and two more steps.
// kDissemination: a barrier. In step k, rank r sends to r+2^k and receives from r-2^k.
//
// kDirect and kExchange add each element in rank order 0..W-1 and so give the same bits for
// messages of any size, as `deterministic` asks. kDoubling and kHalving both add ranks in pairs,
// the lower ranks first: ((x0 + x1) + (x2 + x3)). In kDoubling every rank computes each sum itself,
// from the same operands in the same order, and so gets the same bits.
enum class Algorithm { kRing, kDirect, kExchange, kDissemination, kDoubling, kHalving };

const char* Name(Algorithm algorithm);

enum class Buffer : uint8_t {
  kInput,
  kOutput,
  // Schedule::scratch elements that the executor provides; undefined at first.
  kScratch,
};

struct Transfer {
  enum class Kind : uint8_t {
    // Sends from[i] to `peer`.
    kSend,
    // to[i] = what comes from `peer`.
    kReceive,
    // to[i] = (what comes from `peer`) ⊕ from[i]; operands are swapped if `own_first`.
    kReceiveReduce,
    // to[i] = x_0[i] ⊕ x_1[i] ⊕ … ⊕ x_{W-1}[i] in this order: x_p comes from rank p, and x_r of
    // this rank is from[i]. A receive from every peer; `peer` is -1.
    kReduceFromAll,
    // to[i] = from[i]; a no-op if both are the same memory (in place). `peer` is -1.
    kCopy,
    // A copy that must be complete before any other transfer begins. First in the list.
    kStage,
  };

  Kind kind = Kind::kSend;
  // True if this kReceiveReduce or kReduceFromAll completes the reduction; kAvg then divides by W.
  bool completes = false;
  // kReceiveReduce: true if from[i] is the first operand.
  bool own_first = false;
  Buffer from = Buffer::kInput;
  Buffer to = Buffer::kOutput;
  int peer = -1;
  // Number of elements, possibly 0: the list of transfers does not depend on counts, except that a
  // ring's reduce-scatter has one round for each fragment of the largest slice.
  size_t count = 0;
  // First element in `from` and in `to`.
  size_t from_begin = 0;
  size_t to_begin = 0;
  // Range of earlier transfers that this one must not overtake: it moves its element i once each of
  // after_begin..after_end-1 has moved its own element i + after_offset, or all its elements.
  int after_begin = 0;
  int after_end = 0;
  size_t after_offset = 0;
};

// The transfers of one rank. All transfers run at once, bound only by `after` and by this:
// transfers to one peer are sent one after the other in the list's order, and so are those received
// from one peer (kReduceFromAll counts as one from each). Sends and receives between two ranks
// therefore pair up. No order is needed between different peers, nor between sending to a peer and
// receiving from it; pipes that hold one element suffice.
//
// The next transfer may overwrite an element that a transfer has moved. An executor must therefore
// copy what it sends, or know that the receiver is done with it.
struct Schedule {
  std::vector<Transfer> transfers;
  // Number of elements of kScratch.
  size_t scratch = 0;
};

struct ScheduleRequest {
  Collective kind = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDirect;
  int rank = 0;
  int size = 1;
  // Fields of CollectiveCall.
  size_t count = 0;
  absl::Span<const size_t> counts;
  absl::Span<const size_t> send_counts;
  int root = 0;
  // True if `in` and `out` are the same memory. Only an all-to-all reads this, because it may need
  // scratch; every other schedule serves both cases.
  bool in_place = false;
  // Fragment that kRing's reduce-scatter moves at a time, in elements; its scratch holds W-2.
  size_t fragment = 16384;
};

// Returns this rank's schedule. Buffers are those of CollectiveCall for this rank; `in` is never
// written unless it is `out`. A barrier moves single elements of scratch, of any type and value. A
// group of one only copies. REQUIRES: the algorithm exists for the collective (table above;
// all-to-all, reduce, send and receive have only kDirect, a barrier has kDirect and
// kDissemination); counts as in CollectiveCall; for send and receive, root != rank.
Schedule MakeSchedule(const ScheduleRequest& request);

struct AlgorithmRequest {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kF32;
  // Bytes of the whole vector: of count elements, or of the sum of counts.
  uint64_t bytes = 0;
  int size = 1;
  bool same_machine = false;
  bool deterministic = false;
};

// Returns the algorithm for a call, from what all ranks know, hence the same on all. f16 and bf16
// are reduced only by kDirect and kExchange: a travelling partial sum is rounded at each step.
Algorithm ChooseAlgorithm(const AlgorithmRequest& request);

// Returns true if an all-reduce is so short that it goes to all at once, on any memory.
bool IsShort(const AlgorithmRequest& request);

// Elements [begin, begin + count) of a vector.
struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// Returns the slice of `count` elements that rank `rank` of `size` owns in an all-reduce. Slices
// are even; the first count % size ranks own one element more.
Slice OwnSlice(size_t count, int rank, int size);

// Returns the number of elements that the rank sends: the sum over its kSend.
uint64_t SentElements(const Schedule& schedule);

// Returns the number of elements that the rank, one of `size`, receives.
uint64_t ReceivedElements(const Schedule& schedule, int size);

}  // namespace muster

#endif  // MUSTER_COMMON_COLLECTIVES_SCHEDULE_H_
