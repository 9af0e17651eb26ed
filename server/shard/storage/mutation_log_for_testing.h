#ifndef MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_FOR_TESTING_H_
#define MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_FOR_TESTING_H_

#include <cstdint>

namespace muster {

// For tests of logs in the directory /log.
inline constexpr char kFirstSegment[] = "/log/00000000000000000001.log";
inline constexpr uint64_t kSegmentBytes = 4096;

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_MUTATION_LOG_FOR_TESTING_H_
