#ifndef MUSTER_SERVER_SHARD_TABLES_STORED_RECORD_H_
#define MUSTER_SERVER_SHARD_TABLES_STORED_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace muster {

// The stored value of a block or row: weights and optimizer state together with what they include,
// so that all are of one moment. Little-endian: u64 lsn, u64 steps, u64 last_use, f32 values[].
struct StoredRecord {
  uint64_t lsn = 0;
  uint64_t steps = 0;
  // Clock of a row's last update; 0 for a block.
  uint64_t last_use = 0;
};

std::vector<std::byte> EncodeRecord(const StoredRecord& record, absl::Span<const float> weights,
                                    absl::Span<const float> state);

// DATA_LOSS: the bytes have another length than a record of these weights and state.
absl::Status DecodeRecord(absl::Span<const std::byte> bytes, StoredRecord& record,
                          absl::Span<float> weights, absl::Span<float> state);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_STORED_RECORD_H_
