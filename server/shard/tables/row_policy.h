#ifndef MUSTER_SERVER_SHARD_TABLES_ROW_POLICY_H_
#define MUSTER_SERVER_SHARD_TABLES_ROW_POLICY_H_

#include <cstdint>

namespace muster {

// The rule for which keys of a sparse table have a row. Time is the partition's count of completed
// clocks, so that the answer depends only on what was pushed: it is the same wherever rows live, on
// every run under BSP, and when a log is replayed.
struct RowPolicy {
  // Number of clocks that must push a key before it has a row, which the last of them makes. Until
  // then the key reads as its initial value, and what is pushed to it is dropped. A clock counts if
  // it is later than all that have counted. 0 and 1: the first makes the row.
  uint32_t admit_after = 1;
  // A row, or the count of a key without a row, expires once so many clocks have not pushed it; the
  // key is then as new. 0: never.
  uint64_t expire_after = 0;
  // Rows with at least so many updates never expire; 0: there are none.
  uint32_t keep_from_updates = 0;

  bool counts() const { return admit_after > 1; }
  bool expires() const { return expire_after > 0; }

  // Returns whether a row or count has expired at `completed` clocks. `updates` is 0 for a count.
  bool Expired(uint64_t last_use, uint64_t updates, uint64_t completed) const {
    if (!expires() || completed <= last_use) return false;
    // Clock last_use itself is one of those completed.
    if (completed - last_use <= expire_after) return false;
    return keep_from_updates == 0 || updates < keep_from_updates;
  }
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_ROW_POLICY_H_
