#ifndef MUSTER_SERVER_SHARD_STORAGE_ROCKSDB_STORE_H_
#define MUSTER_SERVER_SHARD_STORAGE_ROCKSDB_STORE_H_

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

// A ParameterStore in one RocksDB per server, with its write-ahead log on. Keys are big-endian
// under the byte-wise comparator: job id, a NUL byte, then the kind, table, partition and key; a
// job is one range of keys, and so is a partition of a table. Thread-safe.
//
// The data directory is marked as Muster's by a file with the format version and the server's id;
// the database lies in its folder "store". Other folders in it are free for the server's other
// state (its logs).
class RocksDbStore final : public ParameterStore {
 public:
  struct Options {
    // The server's data directory; created when it is missing.
    std::string data_dir;
    // Identity the directory must have, or gets when it is new. Empty: that of the directory; a new
    // one gets a random identity.
    std::string server_id;
    // Memory for cached blocks, their indexes and filters.
    uint64_t block_cache_bytes = uint64_t{256} << 20;
    // Memory of one buffer of recent writes; two exist at times.
    uint64_t write_buffer_bytes = uint64_t{64} << 20;
  };

  // FailedPrecondition: the directory holds something that is not Muster's, a newer format, or
  // another server's data; it is left as it was. Unavailable: it is in use by another process, or
  // cannot be read. DataLoss: it is damaged.
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

  // Whether the last write succeeded. Thread-safe.
  bool healthy() const { return !failed_.load(std::memory_order_relaxed); }

  // Identity recorded in the data directory.
  const std::string& server_id() const { return server_id_; }

 private:
  RocksDbStore(std::unique_ptr<rocksdb::DB> db, std::string server_id);

  // Takes writes again after the disk was full, if it is no longer.
  absl::Status Resume();

  const std::unique_ptr<rocksdb::DB> db_;
  const std::string server_id_;
  // Whether a write failed since the last one that did not.
  std::atomic<bool> failed_{false};
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_ROCKSDB_STORE_H_
