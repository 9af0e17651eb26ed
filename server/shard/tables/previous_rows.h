#ifndef MUSTER_SERVER_SHARD_TABLES_PREVIOUS_ROWS_H_
#define MUSTER_SERVER_SHARD_TABLES_PREVIOUS_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tables/key_index.h"
#include "server/shard/tables/tiered_table.h"

namespace muster {

// Weights of a sparse table's rows before the last clock's update changed them. Not thread-safe.
class PreviousRows {
 public:
  // Keeps the weights of these rows at `completed` clocks, and no others. REQUIRES: distinct keys.
  void Keep(const TieredTable& table, const TieredTable::Fetched& rows, uint64_t completed);

  // Writes weights as TieredTable::Pull does, with the kept ones in place of the present ones.
  absl::Status Pull(TieredTable& table, absl::Span<const uint64_t> keys, uint64_t completed,
                    absl::Span<float> out) const;

 private:
  KeyIndex index_;
  std::vector<float> weights_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_PREVIOUS_ROWS_H_
