#ifndef MUSTER_WORKER_COLLECTIVES_HOST_CALL_HEADER_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_CALL_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/schedule.h"

namespace muster {

// What stands in front of a call's bytes in every stream it uses: the call's fingerprint, which the
// reader compares with its own call before it touches the data. A collective call sends one to
// every other rank and waits for one from every other rank, whether or not they exchange data: a
// call that differs on any rank is therefore found by all others, and no rank ends a call that
// another has not entered.
//
// The bytes of one call in one stream, header and data, are filled up to a multiple of kHeaderBytes
// with zeros, so that elements keep their alignment in the stream.
struct CallHeader {
  // Marks the place where a call begins, and the version of this format.
  static constexpr uint64_t kMagic = 0x3130'6c6c'6143'754d;

  uint64_t magic = kMagic;
  uint8_t kind = 0;
  uint8_t dtype = 0;
  uint8_t reduction = 0;
  uint8_t algorithm = 0;
  int32_t root = 0;
  // Counts the group's collective calls; of a send or receive, the messages from that rank to that
  // rank. From 1.
  uint64_t sequence = 0;
  // Of each chunk, where all are equal, or else of all together.
  uint64_t count = 0;
  // Of the counts by rank where they differ; else 0.
  uint64_t counts_fingerprint = 0;
  // All-to-all: elements that the writer of this header sends to its reader, and expects from it.
  uint64_t sends = 0;
  uint64_t expects = 0;
  // Where the call works in symmetric memory: which buffer (from 1) in the upper 16 bits, the
  // offset in the lower 48; 0 where it does not.
  uint64_t place = 0;
};

constexpr size_t kHeaderBytes = 64;
static_assert(sizeof(CallHeader) == kHeaderBytes, "streams are made of units of this size");

// Zeros that follow this many bytes of a stream.
constexpr size_t PaddingAfter(size_t bytes) {
  return (kHeaderBytes - bytes % kHeaderBytes) % kHeaderBytes;
}

inline bool operator==(const CallHeader& a, const CallHeader& b) {
  return std::memcmp(&a, &b, sizeof(CallHeader)) == 0;
}

// What `call` tells every rank. All-to-all: `sends` and `expects` are still to be set.
CallHeader MakeHeader(const CollectiveCall& call, Algorithm algorithm, uint64_t sequence,
                      uint64_t place);

// Elements of `call` by the numbers it gives for each rank: the sum over `size` ranks.
size_t SumOfCounts(absl::Span<const size_t> counts, size_t count, int size);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_HEADER_H_
