#ifndef MUSTER_WORKER_COLLECTIVES_COLLECTIVE_CALL_H_
#define MUSTER_WORKER_COLLECTIVES_COLLECTIVE_CALL_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/collectives/collective.h"
#include "common/tensor/dtype.h"

namespace muster {

// The way elements are combined. kAvg divides the sum by the number of ranks, once, at the end;
// integers round towards zero. f16 and bf16 are added in f32 and rounded once. kMin and kMax pass
// NaNs on. Those of bits are for integers in host memory.
enum class Reduction { kSum, kAvg, kMin, kMax, kProd, kBitAnd, kBitOr, kBitXor };

// Returns true for kBitAnd, kBitOr and kBitXor.
constexpr bool IsBitwise(Reduction reduction) { return reduction >= Reduction::kBitAnd; }

// Root of a receive from whichever rank sends first. For host memory.
constexpr int kAnyRank = -1;

// One collective call, as one rank makes it. Sizes are in elements; W is the group's size, r the
// rank. `in` and `out` need no alignment, and are the same memory ("in place") or do not overlap.
//
//   kAllReduce      in[count], out[count]
//   kReduceScatter  in[sum of counts], out[counts[r]]; in place: out == in + where slice r begins
//   kAllGather      in[counts[r]], out[sum of counts]; in place: in == out + where slice r begins
//   kBroadcast      in[count] on the root, out[count] on all
//   kReduce         in[count], out[count] on the root (elsewhere ignored)
//   kAllToAll       in[sum of send_counts], out[sum of counts]: slice i goes to rank i, and slice i
//                   of `out` comes from rank i; send_counts[i] here equals counts[r] of rank i
//   kSend           in[count] to rank `root`
//   kReceive        out[count] from rank `root`: its next message with this `tag`. Messages that
//   come
//                   before a receive asks for their tag are kept in memory.
//   kBarrier        nothing; returns once every rank has entered
//
// Counts have one element per rank; if they are empty, every count is `count`. They are only read
// during Run or Start.
struct CollectiveCall {
  Collective kind = Collective::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  absl::Span<const size_t> counts;
  absl::Span<const size_t> send_counts;
  int root = 0;
  // The tag of a send or receive; 0 on device memory.
  int tag = 0;
  // Where a receive in host memory writes the rank that has sent; null: nowhere.
  int* source = nullptr;
  // True for one fixed order of addition, by rank, whatever the size of the message.
  bool deterministic = false;
  // Time limit from when this rank begins to carry the call out; a rank late by then is stuck.
  absl::Duration timeout = absl::Minutes(1);
  // Name in errors and the flight recorder, such as "bucket 3". Ranks do not compare it.
  absl::string_view label;
  // The cudaStream_t that orders a call on device memory: work queued before the call has written
  // `in`, and work queued after Start has returned reads `out`. If null, the caller synchronises
  // before the call and waits for the handle after it. Null for host memory.
  void* stream = nullptr;
};

// Payload bytes, without headers.
struct CollectiveTraffic {
  uint64_t sent = 0;
  uint64_t received = 0;
};

// Returns a name such as "sum".
const char* Name(Reduction reduction);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_COLLECTIVE_CALL_H_
