#ifndef MUSTER_SERVER_SHARD_STORAGE_MEMORY_STORE_FOR_TESTING_H_
#define MUSTER_SERVER_SHARD_STORAGE_MEMORY_STORE_FOR_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

// A ParameterStore in memory: the reference for the persistent one, and the store of servers that
// keep nothing. Visitors run on copies, so that they may call the store. Thread-safe.
class MemoryStore final : public ParameterStore {
 public:
  absl::Status Write(const StoreBatch& batch, Durability durability) override;
  absl::Status MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                        absl::Span<const uint64_t> keys, FoundVisitor visitor) const override;
  absl::Status Scan(const std::string& job, uint32_t table, uint32_t partition,
                    ScanVisitor visitor) const override;
  absl::StatusOr<std::unique_ptr<StoreSnapshot>> Snapshot(const std::string& job, uint32_t table,
                                                          uint32_t partition) const override;
  absl::StatusOr<std::optional<std::string>> GetMeta(const std::string& job,
                                                     uint32_t partition) const override;
  absl::StatusOr<std::vector<uint32_t>> Partitions(const std::string& job) const override;
  absl::StatusOr<std::vector<std::string>> Jobs() const override;
  absl::Status DropJob(const std::string& job) override;

 private:
  struct Job {
    // Keyed by (table, partition, key).
    std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::string> values;
    std::map<uint32_t, std::string> metadata;
  };

  mutable absl::Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_MEMORY_STORE_FOR_TESTING_H_
