#ifndef MUSTER_WORKER_STRATEGY_ROW_GROUPS_H_
#define MUSTER_WORKER_STRATEGY_ROW_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/payload.h"

namespace muster {

// What one message about rows of a sparse table covers: some of a micro-batch's keys, all of one
// partition.
struct RowGroup {
  uint32_t partition = 0;
  // Counts the groups of this partition, from 0.
  uint32_t chunk = 0;
  // Positions among the micro-batch's keys, ascending.
  std::vector<int32_t> positions;
};

// Deals distinct keys to partitions, at most `max_rows` to a group; in order of partition, then
// chunk. A pure function of its arguments, so a repeated step makes the same messages.
std::vector<RowGroup> GroupRows(absl::Span<const uint64_t> keys, uint32_t partitions,
                                int64_t max_rows);

// u64 keys[rows] of a group, as a sparse pull carries them.
Payload GatherKeys(const RowGroup& group, absl::Span<const uint64_t> keys);

// u64 keys[rows], then f32 rows[rows][dim], as a sparse push carries them. `rows` is [keys, dim].
Payload GatherRows(const RowGroup& group, absl::Span<const uint64_t> keys,
                   absl::Span<const float> rows, uint32_t dim);

// Copies f32 rows[rows][dim], as a sparse pull is answered, to their places in `rows`, [keys, dim].
// REQUIRES: payload.size() == 4 * positions * dim.
void ScatterRows(const RowGroup& group, const Payload& payload, uint32_t dim,
                 absl::Span<float> rows);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_ROW_GROUPS_H_
