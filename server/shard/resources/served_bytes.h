#ifndef MUSTER_SERVER_SHARD_RESOURCES_SERVED_BYTES_H_
#define MUSTER_SERVER_SHARD_RESOURCES_SERVED_BYTES_H_

#include <atomic>
#include <cstdint>

namespace muster {

// Payload bytes that a server's partitions have taken and given since it started, jobs that are
// gone included. Thread-safe; each count by itself.
struct ServedBytes {
  std::atomic<uint64_t> pushed = 0;
  std::atomic<uint64_t> pulled = 0;
  // Bytes of dense blocks within `pulled`.
  std::atomic<uint64_t> pulled_dense = 0;
};

// Adds to one of the counts; does nothing where `served` is null.
inline void CountServed(ServedBytes* served, std::atomic<uint64_t> ServedBytes::*count,
                        uint64_t bytes) {
  if (served != nullptr) (served->*count).fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_SERVED_BYTES_H_
