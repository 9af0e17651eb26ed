#ifndef MUSTER_SERVER_SHARD_RESOURCES_SERVED_BYTES_H_
#define MUSTER_SERVER_SHARD_RESOURCES_SERVED_BYTES_H_

#include <atomic>
#include <cstdint>

namespace muster {

// Payload that the partitions of a server have taken and given since it started, those of jobs that
// are gone included. Thread-safe; each count by itself.
struct ServedBytes {
  std::atomic<uint64_t> pushed = 0;
  std::atomic<uint64_t> pulled = 0;
  // The part of `pulled` that is blocks of dense tables.
  std::atomic<uint64_t> pulled_dense = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_RESOURCES_SERVED_BYTES_H_
