#ifndef MUSTER_WORKER_STRATEGY_SERVERS_ROW_GROUPS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_ROW_GROUPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/base/philox.h"
#include "common/tensor/dtype.h"

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

// How a pushed row's elements travel. Halves are rounded stochastically rather than with error
// feedback: a worker meets any number of keys, and what it owed one of them might never be called
// for, so there is no residual to keep, to bound or to lose, and the mean is right all the same.
// The random bits are a function of (random, draw, key, element), so a repeated push has the same
// bytes. What is past the largest f16 becomes that.
struct RowCoding {
  // kF32, kBf16 or kF16.
  DType type = DType::kF32;
  // Keyed by what the rows belong to; `draw` tells the pushes apart.
  Philox random = Philox(0);
  uint64_t draw = 0;
};

// Deals distinct keys to partitions, at most `max_rows` to a group; in order of partition, then
// chunk. A pure function of its arguments, so a repeated step makes the same messages.
std::vector<RowGroup> GroupRows(absl::Span<const uint64_t> keys, uint32_t partitions,
                                int64_t max_rows);

// Returns u64 keys[rows] of a group, as a sparse pull carries them.
Payload GatherKeys(const RowGroup& group, absl::Span<const uint64_t> keys);

// A micro-batch's rows, of which groups are pushed.
struct PushedRows {
  absl::Span<const uint64_t> keys;
  // [keys, dim]
  absl::Span<const float> rows;
  uint32_t dim = 0;
  // Keeps `rows` as they are until the last payload that refers to them is gone.
  std::shared_ptr<const void> owner;
};

// Returns u64 keys[rows], then rows[rows][dim], as a sparse push carries them. Long rows of f32
// stay where they are, a span of the payload each: the transport copies them to where they go. All
// else is written to an array of the pool.
Payload GatherRows(const RowGroup& group, const PushedRows& pushed, const RowCoding& coding,
                   BufferPool& pool);

// Copies rows[rows][dim] of elements of `type`, as a sparse pull is answered, to their places in
// `rows`, [keys, dim]. REQUIRES: payload.size() == SizeOf(type) * positions * dim.
void ScatterRows(const RowGroup& group, const Payload& payload, DType type, uint32_t dim,
                 absl::Span<float> rows);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_ROW_GROUPS_H_
