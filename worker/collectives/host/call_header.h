#ifndef MUSTER_WORKER_COLLECTIVES_HOST_CALL_HEADER_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_CALL_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "common/collectives/schedule.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// The fingerprint of a call, which precedes the call's bytes in every stream. The reader compares
// the header with its own call before it touches the data. In a collective call, every rank sends a
// header to every other rank and waits for theirs, whether or not they exchange data: all ranks
// therefore notice a call that differs, and no rank ends a call that another has not entered.
//
// A call's header and data in one stream are padded with zeros to a multiple of kHeaderBytes, so
// that elements stay aligned in the stream.
struct CallHeader {
  // Marks the place where a call begins, and the version of this format.
  static constexpr uint64_t kMagic = 0x3130'6c6c'6143'754d;

  uint64_t magic = kMagic;
  uint8_t kind = 0;
  uint8_t dtype = 0;
  uint8_t reduction = 0;
  uint8_t algorithm = 0;
  // Root of a broadcast or reduce; tag of a send.
  int32_t root = 0;
  // Number, from 1, of the group's collective call, or of the message from one rank to another.
  uint64_t sequence = 0;
  // Elements of each slice if all are equal, else of all slices together.
  uint64_t count = 0;
  // Fingerprint of the counts by rank if they differ, else 0.
  uint64_t counts_fingerprint = 0;
  // All-to-all: elements that the writer of this header sends to its reader, and expects from it.
  uint64_t sends = 0;
  uint64_t expects = 0;
  // Buffer number (from 1) in the upper 16 bits, offset in the lower 48; 0 outside symmetric
  // memory.
  uint64_t place = 0;
};

constexpr size_t kHeaderBytes = 64;
static_assert(sizeof(CallHeader) == kHeaderBytes, "streams are made of units of this size");

// Returns the number of zeros that follow `bytes` bytes of a stream.
constexpr size_t PaddingAfter(size_t bytes) {
  return (kHeaderBytes - bytes % kHeaderBytes) % kHeaderBytes;
}

inline bool operator==(const CallHeader& a, const CallHeader& b) {
  return std::memcmp(&a, &b, sizeof(CallHeader)) == 0;
}

// Returns the header of `call`, in which an all-to-all's `sends` and `expects` are still to be set.
CallHeader MakeHeader(const CollectiveCall& call, Algorithm algorithm, uint64_t sequence,
                      uint64_t place);

// Returns the sum of `counts`, or of `size` times `count` if `counts` is empty.
size_t SumOfCounts(absl::Span<const size_t> counts, size_t count, int size);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_HEADER_H_
