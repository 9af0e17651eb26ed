#ifndef MUSTER_WORKER_COLLECTIVES_COLLECTIVE_CALL_H_
#define MUSTER_WORKER_COLLECTIVES_COLLECTIVE_CALL_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace muster {

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSend,
  kReceive,
  kBarrier,
};

// kAvg divides the sum by the number of ranks: once, at the end; integers towards zero. f16 and
// bf16 are added in f32 and rounded once; kMin and kMax of a NaN are NaN.
enum class Reduction { kSum, kAvg, kMin, kMax, kProd };

// One collective call, as one rank makes it. Sizes are in elements; W is the group's size, r the
// rank. `in` and `out` need no alignment, and are the same memory ("in place") or do not overlap.
//
//   kAllReduce      in[count], out[count]
//   kReduceScatter  in[sum of counts], out[counts[r]]; in place: out == in + where chunk r begins
//   kAllGather      in[counts[r]], out[sum of counts]; in place: in == out + where chunk r begins
//   kBroadcast      in[count] on the root, out[count] on all
//   kReduce         in[count], out[count] on the root (elsewhere ignored)
//   kAllToAll       in[sum of send_counts], out[sum of counts]: chunk i goes to rank i, and chunk i
//                   of `out` comes from rank i; send_counts[i] here equals counts[r] of rank i
//   kSend           in[count] to rank `root`
//   kReceive        out[count] from rank `root`
//   kBarrier        nothing; returns once every rank has entered
//
// Where a call takes counts, they are W long; without them (`counts` empty) every one is `count`.
// They are only read during Run or Start.
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
  // One fixed order of addition, by rank, whatever the size of the message.
  bool deterministic = false;
  // From when this rank begins to carry the call out; a rank that is late counts as stuck then.
  absl::Duration timeout = absl::Minutes(1);
  // What the caller calls it, such as "bucket 3": for errors and the flight recorder. Not compared.
  absl::string_view label;
  // On device memory: the cudaStream_t that the call is ordered after (what was queued on it has
  // written `in`) and before (what is queued on it once Start has returned reads `out`). Null: the
  // caller orders them itself, by synchronising before and by the handle after. Host memory: null.
  void* stream = nullptr;
};

// Payload bytes, headers left out.
struct CollectiveTraffic {
  uint64_t sent = 0;
  uint64_t received = 0;
};

// Such as "all_reduce" and "sum".
const char* Name(Collective kind);
const char* Name(Reduction reduction);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_COLLECTIVE_CALL_H_
