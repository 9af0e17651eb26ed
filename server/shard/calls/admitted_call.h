#ifndef MUSTER_SERVER_SHARD_CALLS_ADMITTED_CALL_H_
#define MUSTER_SERVER_SHARD_CALLS_ADMITTED_CALL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/partition/cut_order.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/calls/sparse_chunk.h"

namespace muster {

// One operation on its way through a partition: what was found about it when it was checked.
struct AdmittedCall {
  ExchangeCall call;
  // Not OK: it is refused, nothing else counts; to be tried again after this time, if not 0.
  absl::Status status;
  uint32_t retry_after_ms = 0;
  // All of the contribution is in; nothing is to be done.
  bool already_applied = false;
  // Of a dense push: blocks that are not in yet.
  std::vector<uint32_t> new_blocks;
  // Of a sparse push or pull; the call's own payload is empty then.
  SparseChunk chunk;
  // Of a cut: its order, copied once, since a client may write to the payload of its own call.
  CutOrder cut;
  // Of its record in the log; 0 when it has none.
  uint64_t lsn = 0;

  // What it takes of memory.
  size_t bytes() const { return kCallBytes + call.payload.size() + chunk.bytes; }
  bool cancelled() const { return call.cancelled != nullptr && call.cancelled->load(); }
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_ADMITTED_CALL_H_
