#ifndef MUSTER_SERVER_SHARD_STORAGE_STORE_KEYS_H_
#define MUSTER_SERVER_SHARD_STORAGE_STORE_KEYS_H_

// Keys of stored values. Their byte-wise order is the order of (job, table, partition, key):
//
//   value     = job id, NUL, 'v', table, partition, key
//   metadata  = job id, NUL, 'm', partition
//
// Integers are big-endian: 4 bytes for table and partition, 8 for a key. A job id holds no NUL
// byte, so all keys of a job, and no others, begin with its id and a NUL.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

std::string JobPrefix(absl::string_view job);
std::string MetaPrefix(absl::string_view job);
std::string MetaKey(absl::string_view job, uint32_t partition);
std::string PartitionPrefix(absl::string_view job, uint32_t table, uint32_t partition);
// Appends `key` to a partition's prefix, which makes it a value's key.
void AppendStoreKey(uint64_t key, std::string& prefix);

// Returns the first string in byte-wise order behind all that begin with `prefix`. REQUIRES: a byte
// of `prefix` is below 0xff.
std::string PrefixEnd(std::string prefix);

// Return the number at the end of a key. REQUIRES: the key has that many bytes.
uint32_t LastU32(absl::string_view key);
uint64_t LastU64(absl::string_view key);

// InvalidArgument if the id is empty or holds a NUL byte.
absl::Status CheckJobId(absl::string_view job);
// InvalidArgument if the keys are not strictly ascending.
absl::Status CheckAscending(absl::Span<const uint64_t> keys);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_STORE_KEYS_H_
