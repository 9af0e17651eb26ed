#ifndef MUSTER_SERVER_SHARD_TABLES_PREVIOUS_ROWS_H_
#define MUSTER_SERVER_SHARD_TABLES_PREVIOUS_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tables/key_index.h"
#include "server/shard/tables/tiered_table.h"

namespace muster {

// The weights that a sparse table's rows had before the last clock's update: those rows alone that
// it changed. Not thread-safe.
class PreviousRows {
 public:
  // Forgets what was kept, then keeps the weights of these rows, while `completed` clocks are.
  // REQUIRES: distinct keys.
  void Keep(const TieredTable& table, const TieredTable::Fetched& rows, uint64_t completed);

  // As TieredTable::Pull, with the weights as they were.
  absl::Status Pull(TieredTable& table, absl::Span<const uint64_t> keys, uint64_t completed,
                    absl::Span<float> out) const;

 private:
  KeyIndex index_;
  std::vector<float> weights_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_PREVIOUS_ROWS_H_
