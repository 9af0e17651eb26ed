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

// One operation on its way through a partition, with what the check of it has found.
struct AdmittedCall {
  ExchangeCall call;
  // The refusal of the call, to be tried again after `retry_after_ms`, if not 0; OK: it is
  // admitted.
  absl::Status status;
  uint32_t retry_after_ms = 0;
  // True when the whole contribution is in already, and nothing is to be done.
  bool already_applied = false;
  // Blocks of a dense push that are not in yet.
  std::vector<uint32_t> new_blocks;
  // Contents of a sparse push or pull; the call's own payload is empty then.
  SparseChunk chunk;
  // Order of a cut, copied once, since a client may write to the payload of its own call.
  CutOrder cut;
  // Slots whose open clocks a close has closed in the ledger, in order, the caller's first.
  std::vector<uint32_t> closes;
  // Number of the operation's record in the log; 0 when it has none.
  uint64_t lsn = 0;

  // Returns the memory that the operation takes.
  size_t bytes() const { return kCallBytes + call.payload.size() + chunk.bytes; }
  bool cancelled() const { return call.cancelled != nullptr && call.cancelled->load(); }
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_ADMITTED_CALL_H_
