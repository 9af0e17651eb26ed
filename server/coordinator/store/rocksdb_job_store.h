#ifndef MUSTER_SERVER_COORDINATOR_STORE_ROCKSDB_JOB_STORE_H_
#define MUSTER_SERVER_COORDINATOR_STORE_ROCKSDB_JOB_STORE_H_

#include <prometheus/metric_family.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/folder_entries.h"
#include "server/coordinator/store/job_store.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace muster {

// A JobStore in RocksDB, in the folder "jobs" of the coordinator's data folder. A key is one byte
// of table number, then the table's key, under the byte-wise comparator. A record of its own says
// that the database is a coordinator's, and of which format.
class RocksDbJobStore final : public JobStore {
 public:
  // Opens the store in the data folder, or makes one if the folder is empty or absent.
  // FAILED_PRECONDITION: it holds something else, which is left as it is, or a newer format (names
  // both versions). UNAVAILABLE: another process has it open, or the disk fails. DATA_LOSS: it is
  // damaged; names the file as far as it is known.
  static absl::StatusOr<std::unique_ptr<RocksDbJobStore>> Open(
      const std::string& data_dir, FolderEntries& entries = FolderEntries::Posix());

  ~RocksDbJobStore() override;

  absl::Status Write(const JobStoreBatch& batch, Durability durability) override;
  absl::Status Scan(
      StoreTable table, absl::string_view prefix,
      absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor) const override;

  // Returns RocksDB's metrics (server/data_folder/database_metrics.h).
  std::vector<prometheus::MetricFamily> Metrics() const;

 private:
  RocksDbJobStore(std::string directory, std::unique_ptr<rocksdb::DB> db);

  const std::string directory_;
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_STORE_ROCKSDB_JOB_STORE_H_
