#ifndef MUSTER_SERVER_SHARD_STORAGE_ROCKSDB_STORE_H_
#define MUSTER_SERVER_SHARD_STORAGE_ROCKSDB_STORE_H_

#include <prometheus/metric_family.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/shard/storage/parameter_store.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace muster {

// A ParameterStore in one RocksDB per server, with its write-ahead log on. Keys are ordered byte by
// byte (server/shard/storage/store_keys.h), so that a job is one range of keys, and so is a
// partition of a table. Thread-safe.
//
// A file with format version and server id marks the data directory as Muster's. The database lies
// in its folder "store"; other folders are free for the server's logs and the like.
class RocksDbStore final : public ParameterStore {
 public:
  struct Options {
    // Data directory of the server; created when it is missing.
    std::string data_dir;
    // Id of the server that the directory must have, or gets when it is new. Empty: any id; a new
    // directory gets a random one.
    std::string server_id;
    // Memory for cached blocks, their indexes and filters.
    uint64_t block_cache_bytes = uint64_t{256} << 20;
    // Memory of one buffer of recent writes; at times there are two.
    uint64_t write_buffer_bytes = uint64_t{64} << 20;
  };

  // Opens the store. FailedPrecondition: the directory holds something that is not Muster's, a
  // newer format, or another server's data; it is left as it was. Unavailable: another process uses
  // it, or it cannot be read. DataLoss: it is damaged.
  static absl::StatusOr<std::unique_ptr<RocksDbStore>> Create(const Options& options);

  ~RocksDbStore() override;

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

  // Returns whether the last write succeeded. Thread-safe.
  bool healthy() const { return !failed_.load(std::memory_order_relaxed); }

  // Returns RocksDB's metrics (server/data_folder/database_metrics.h). Thread-safe.
  std::vector<prometheus::MetricFamily> Metrics() const;

  // Returns the server's id as recorded in the data directory.
  const std::string& server_id() const { return server_id_; }

 private:
  RocksDbStore(std::unique_ptr<rocksdb::DB> db, std::string server_id);

  // Takes writes again after the disk was full, if there is space now.
  absl::Status Resume();

  const std::unique_ptr<rocksdb::DB> db_;
  const std::string server_id_;
  // True if the last write failed.
  std::atomic<bool> failed_{false};
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_ROCKSDB_STORE_H_
