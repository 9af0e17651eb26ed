#include "server/coordinator/store/rocksdb_job_store.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "server/data_folder/data_folder.h"
#include "server/data_folder/database_metrics.h"
#include "server/data_folder/open_database.h"

namespace muster {
namespace {

// Table number 0 holds the record that says what the database is.
constexpr absl::string_view kMarkerKey("\0muster-coordinator", 19);
constexpr int kFormatVersion = 1;

rocksdb::Slice Slice(absl::string_view text) { return {text.data(), text.size()}; }
absl::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view what,
                         absl::string_view directory) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(what, " in ", directory, ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  return absl::UnavailableError(message);
}

std::string Key(StoreTable table, absl::string_view key) {
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&table), 1), key);
}

// Returns the least key above all that begin with `prefix`; no table has number 255.
std::string AfterPrefix(std::string prefix) {
  while (static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  ++prefix.back();
  return prefix;
}

absl::Status CheckMarker(const std::string& marker, const std::string& directory) {
  int version = 0;
  if (!absl::SimpleAtoi(marker, &version) || version < 1) {
    return absl::DataLossError(
        absl::StrCat("the format of the coordinator's data in ", directory, " is unreadable"));
  }
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the coordinator's data in ", directory, " has format version ", version,
        ", written by a later release of Muster; this one reads formats up to ", kFormatVersion));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RocksDbJobStore>> RocksDbJobStore::Open(const std::string& data_dir,
                                                                       FolderEntries& entries) {
  MUSTER_RETURN_IF_ERROR(
      ClaimDataFolder(data_dir, DataOwner::kCoordinator, /*server_id=*/"", entries).status());
  // A folder of its own, so that nothing else is mistaken for the database's files.
  MUSTER_ASSIGN_OR_RETURN(const std::string directory,
                          MakeDataSubfolder(data_dir, "jobs", entries));
  rocksdb::Options options;
  options.create_if_missing = true;
  // A coordinator's records are few and small.
  options.write_buffer_size = 8 << 20;
  options.max_total_wal_size = 32 << 20;
  options.max_open_files = 128;
  options.keep_log_file_num = 3;
  options.info_log_level = rocksdb::WARN_LEVEL;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> db,
                          OpenDatabase(options, directory, "the coordinator's data"));

  std::string marker;
  const rocksdb::Status read = db->Get(rocksdb::ReadOptions(), Slice(kMarkerKey), &marker);
  if (read.IsNotFound()) {
    // A first start that was cut short leaves no key; any other program's database has some.
    std::unique_ptr<rocksdb::Iterator> any(db->NewIterator(rocksdb::ReadOptions()));
    any->SeekToFirst();
    if (any->Valid()) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory,
                       " holds a database that is not a coordinator's; name another "
                       "data directory"));
    }
    rocksdb::WriteOptions synced;
    synced.sync = true;
    MUSTER_RETURN_IF_ERROR(
        FromRocksDb(db->Put(synced, Slice(kMarkerKey), absl::StrCat(kFormatVersion)),
                    "cannot write the coordinator's data", directory));
  } else {
    MUSTER_RETURN_IF_ERROR(FromRocksDb(read, "cannot read the coordinator's data", directory));
    MUSTER_RETURN_IF_ERROR(CheckMarker(marker, directory));
  }
  return std::unique_ptr<RocksDbJobStore>(new RocksDbJobStore(directory, std::move(db)));
}

RocksDbJobStore::RocksDbJobStore(std::string directory, std::unique_ptr<rocksdb::DB> db)
    : directory_(std::move(directory)), db_(std::move(db)) {}

RocksDbJobStore::~RocksDbJobStore() = default;

absl::Status RocksDbJobStore::Write(const JobStoreBatch& batch, Durability durability) {
  rocksdb::WriteBatch writes;
  for (const JobStoreBatch::Change& change : batch.changes()) {
    const std::string key = Key(change.table, change.key);
    switch (change.kind) {
      case JobStoreBatch::Change::Kind::kPut:
        writes.Put(key, change.value);
        break;
      case JobStoreBatch::Change::Kind::kDelete:
        writes.Delete(key);
        break;
      case JobStoreBatch::Change::Kind::kDeletePrefix:
        writes.DeleteRange(key, AfterPrefix(key));
        break;
    }
  }
  rocksdb::WriteOptions options;
  options.sync = durability == Durability::kSynced;
  return FromRocksDb(db_->Write(options, &writes), "cannot write the coordinator's data",
                     directory_);
}

absl::Status RocksDbJobStore::Scan(
    StoreTable table, absl::string_view prefix,
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor) const {
  const std::string begin = Key(table, prefix);
  const std::string end = AfterPrefix(begin);
  const rocksdb::Slice bound = Slice(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
  for (it->Seek(begin); it->Valid(); it->Next()) {
    MUSTER_RETURN_IF_ERROR(visitor(View(it->key()).substr(1), View(it->value())));
  }
  return FromRocksDb(it->status(), "cannot read the coordinator's data", directory_);
}

std::vector<prometheus::MetricFamily> RocksDbJobStore::Metrics() const {
  return DatabaseMetrics(*db_);
}

}  // namespace muster
