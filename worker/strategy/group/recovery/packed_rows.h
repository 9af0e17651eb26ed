#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_PACKED_ROWS_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_PACKED_ROWS_H_

#include <cstddef>

#include "common/tables/sparse_table.h"

namespace muster {

// Rows of sparse tables as they travel between ranks of one job: key, steps and last use, then
// weights and optimizer state.

// Returns the bytes of a packed row of the table.
size_t PackedRowBytes(const SparseTable& table);

// Writes one of the table's rows to PackedRowBytes bytes.
void PackRow(const SparseTable& table, const SparseTable::Row& row, std::byte* to);

// Puts a packed row into the table, in place of the key's former row.
void LoadRow(const std::byte* from, SparseTable& table);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_PACKED_ROWS_H_
