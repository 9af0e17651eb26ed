#ifndef MUSTER_SERVER_SHARD_TABLES_ROW_POLICY_H_
#define MUSTER_SERVER_SHARD_TABLES_ROW_POLICY_H_

#include <cstdint>

namespace muster {

// Which keys of a sparse table have a row. Time is the partition's count of completed clocks, so
// that the answer follows from what was pushed alone: it is the same wherever rows live, on every
// run under BSP, and when a log is replayed.
struct RowPolicy {
  // A key has a row from the clock on that is the so manyth to push it. Until then it reads as its
  // initial value, and what is pushed to it is dropped. A clock counts if it is later than all that
  // have counted. 0 and 1: from the first.
  uint32_t admit_after = 1;
  // A row, or the count of a key that has none, is gone once so many clocks have not pushed it; the
  // key is then as new. 0: never.
  uint64_t expire_after = 0;
  // Rows with at least so many updates stay for good; 0: none do.
  uint32_t keep_from_updates = 0;

  bool counts() const { return admit_after > 1; }
  bool expires() const { return expire_after > 0; }

  // Whether a row or count is gone once `completed` clocks are. `updates` is 0 for a count.
  bool Expired(uint64_t last_use, uint64_t updates, uint64_t completed) const {
    if (!expires() || completed <= last_use) return false;
    // Clock last_use itself is one of those completed.
    if (completed - last_use <= expire_after) return false;
    return keep_from_updates == 0 || updates < keep_from_updates;
  }
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_ROW_POLICY_H_
