#ifndef MUSTER_WORKER_STRATEGY_ROW_KEYS_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_ROW_KEYS_FOR_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tables/sparse_table.h"
#include "worker/strategy/shard_state.h"

namespace muster {

// Returns the keys of a shard's table that were ever pushed, in ascending order.
inline std::vector<uint64_t> KeysOf(const ShardState& shard, size_t table) {
  std::vector<uint64_t> keys;
  for (const SparseTable::Row* row : shard.rows()[table].Sorted()) keys.push_back(row->key);
  return keys;
}

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_ROW_KEYS_FOR_TESTING_H_
