#include "worker/collectives/host/call_header.h"

#include <algorithm>

#include "common/base/fingerprint.h"

namespace muster {
namespace {

bool Reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

bool HasRoot(Collective kind) {
  return kind == Collective::kBroadcast || kind == Collective::kReduce;
}

bool AllEqual(absl::Span<const size_t> counts) {
  return std::all_of(counts.begin(), counts.end(), [&](size_t c) { return c == counts[0]; });
}

}  // namespace

CallHeader MakeHeader(const CollectiveCall& call, Algorithm algorithm, uint64_t sequence,
                      uint64_t place) {
  CallHeader header;
  header.kind = static_cast<uint8_t>(call.kind);
  header.sequence = sequence;
  if (call.kind == Collective::kBarrier) return header;
  header.dtype = static_cast<uint8_t>(call.dtype);
  if (Reduces(call.kind)) header.reduction = static_cast<uint8_t>(call.reduction);
  header.algorithm = static_cast<uint8_t>(algorithm);
  if (HasRoot(call.kind)) header.root = call.root;
  if (call.kind == Collective::kSend) header.root = call.tag;
  header.place = place;
  // Ranks of an all-to-all have different counts, which are compared pair by pair.
  if (call.kind == Collective::kAllToAll) return header;
  header.count = call.count;
  if (call.counts.empty()) return header;
  if (AllEqual(call.counts)) {
    header.count = call.counts[0];
    return header;
  }
  header.count = SumOfCounts(call.counts, 0, static_cast<int>(call.counts.size()));
  header.counts_fingerprint =
      Fingerprint({reinterpret_cast<const char*>(call.counts.data()), call.counts.size() * 8}) | 1;
  return header;
}

size_t SumOfCounts(absl::Span<const size_t> counts, size_t count, int size) {
  if (counts.empty()) return count * size;
  size_t sum = 0;
  for (const size_t c : counts) sum += c;
  return sum;
}

}  // namespace muster
