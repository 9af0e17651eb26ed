#include "server/shard/storage/rocksdb_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/data_folder/data_folder.h"
#include "server/data_folder/database_metrics.h"
#include "server/data_folder/open_database.h"
#include "server/shard/storage/store_keys.h"

namespace muster {
namespace {

// Keys of one MultiGet of RocksDB: enough to batch its reads, few enough for its working memory.
constexpr size_t kKeysPerRead = 1024;

absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat("cannot ", what, ": ", status.ToString());
  if (status.IsNoSpace() || status.IsMemoryLimit()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "; free space in the server's data directory"));
  }
  if (status.IsCorruption()) {
    return absl::DataLossError(
        absl::StrCat(message, "; restore the server's jobs from their checkpoints"));
  }
  return absl::UnavailableError(message);
}

ParameterStore::Value Bytes(const rocksdb::Slice& slice) {
  return {reinterpret_cast<const std::byte*>(slice.data()), slice.size()};
}

rocksdb::Slice ToSlice(ParameterStore::Value value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

rocksdb::Options DatabaseOptions(const RocksDbStore::Options& options) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  // Indexes and filters count against the cache's size, so that memory is bounded by it.
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, /*use_block_based_builder=*/false));
  table.block_size = 16 << 10;

  rocksdb::Options database;
  database.create_if_missing = true;
  database.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  database.write_buffer_size = options.write_buffer_bytes;
  database.max_write_buffer_number = 2;
  // Weights are noise to a compressor.
  database.compression = rocksdb::kNoCompression;
  database.level_compaction_dynamic_level_bytes = true;
  database.bytes_per_sync = 1 << 20;
  database.max_background_jobs = 2;
  database.keep_log_file_num = 4;
  database.max_log_file_size = 4 << 20;
  return database;
}

// The error of a write, which RocksDB repeats as the background error that it caused.
absl::Status WriteError(const rocksdb::Status& status, absl::string_view what) {
  if (absl::StrContains(status.ToString(), "No space left")) {
    return FromRocksDb(rocksdb::Status::NoSpace(status.ToString()), what);
  }
  return FromRocksDb(status, what);
}

// Options and bounds that keep an iterator within one range of keys.
struct Range {
  Range(std::string begin_key, std::string end_key)
      : begin(std::move(begin_key)), end(std::move(end_key)), end_slice(end) {
    options.iterate_upper_bound = &end_slice;
  }

  const std::string begin;
  const std::string end;
  const rocksdb::Slice end_slice;
  rocksdb::ReadOptions options;
};

class RocksDbSnapshot final : public StoreSnapshot {
 public:
  RocksDbSnapshot(rocksdb::DB& db, std::string prefix, std::string what)
      : db_(db), snapshot_(db.GetSnapshot()), prefix_(std::move(prefix)), what_(std::move(what)) {}
  ~RocksDbSnapshot() override { db_.ReleaseSnapshot(snapshot_); }

  absl::Status Scan(uint64_t first_key, Visitor visitor) const override {
    std::string first = prefix_;
    AppendStoreKey(first_key, first);
    Range range(std::move(first), PrefixEnd(prefix_));
    range.options.snapshot = snapshot_;
    // One pass over much data: read ahead, and leave the cache to what is read again.
    range.options.readahead_size = 1 << 20;
    range.options.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> at(db_.NewIterator(range.options));
    for (at->Seek(range.begin); at->Valid(); at->Next()) {
      const rocksdb::Slice key = at->key();
      MUSTER_RETURN_IF_ERROR(visitor(LastU64({key.data(), key.size()}), Bytes(at->value())));
    }
    return FromRocksDb(at->status(), what_);
  }

 private:
  rocksdb::DB& db_;
  const rocksdb::Snapshot* const snapshot_;
  const std::string prefix_;
  // Name of the read in errors.
  const std::string what_;
};

}  // namespace

RocksDbStore::RocksDbStore(std::unique_ptr<rocksdb::DB> db, std::string server_id)
    : db_(std::move(db)), server_id_(std::move(server_id)) {}

RocksDbStore::~RocksDbStore() = default;

absl::StatusOr<std::unique_ptr<RocksDbStore>> RocksDbStore::Create(const Options& options) {
  MUSTER_ASSIGN_OR_RETURN(std::string server_id,
                          ClaimDataFolder(options.data_dir, DataOwner::kServer, options.server_id));
  MUSTER_ASSIGN_OR_RETURN(const std::string path, MakeDataSubfolder(options.data_dir, "store"));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<rocksdb::DB> db,
                          OpenDatabase(DatabaseOptions(options), path, "the parameter store"));
  return std::unique_ptr<RocksDbStore>(new RocksDbStore(std::move(db), std::move(server_id)));
}

absl::Status RocksDbStore::Resume() {
  // Nothing to do where RocksDB has come back by itself.
  return WriteError(db_->Resume(), "write to the parameter store again");
}

absl::Status RocksDbStore::Write(const StoreBatch& batch, Durability durability) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(batch.job()));
  rocksdb::WriteBatch changes;
  // The key in hand; most follow one of the same partition of the same table.
  std::string key;
  const StoreBatch::Change* last = nullptr;
  const auto value_key = [&](const StoreBatch::Change& change) {
    if (last == nullptr || last->table != change.table || last->partition != change.partition) {
      key = PartitionPrefix(batch.job(), change.table, change.partition);
    } else {
      key.resize(key.size() - sizeof(uint64_t));
    }
    last = &change;
    AppendStoreKey(change.key, key);
    return rocksdb::Slice(key);
  };
  for (const StoreBatch::Change& change : batch.changes()) {
    rocksdb::Status status;
    switch (change.kind) {
      case StoreBatch::Kind::kPut:
        status = changes.Put(value_key(change), ToSlice(change.value));
        break;
      case StoreBatch::Kind::kDelete:
        status = changes.Delete(value_key(change));
        break;
      case StoreBatch::Kind::kDeletePartition: {
        const std::string prefix = PartitionPrefix(batch.job(), change.table, change.partition);
        status = changes.DeleteRange(prefix, PrefixEnd(prefix));
        break;
      }
      case StoreBatch::Kind::kPutMeta:
        status = changes.Put(MetaKey(batch.job(), change.partition), ToSlice(change.value));
        break;
    }
    MUSTER_RETURN_IF_ERROR(FromRocksDb(status, "collect changes to the parameter store"));
  }
  if (failed_.load(std::memory_order_relaxed)) MUSTER_RETURN_IF_ERROR(Resume());
  rocksdb::WriteOptions write;
  write.sync = durability == Durability::kSync;
  write.disableWAL = durability == Durability::kScratch;
  // Batches of rows come in order of key.
  write.memtable_insert_hint_per_batch = true;
  const rocksdb::Status status = db_->Write(write, &changes);
  failed_.store(!status.ok(), std::memory_order_relaxed);
  return WriteError(
      status, absl::StrCat("write ", batch.changes().size(), " changes of job ", batch.job()));
}

absl::Status RocksDbStore::MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                                    absl::Span<const uint64_t> keys, FoundVisitor visitor) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  MUSTER_RETURN_IF_ERROR(CheckAscending(keys));
  const std::string prefix = PartitionPrefix(job, table, partition);
  const size_t key_bytes = prefix.size() + sizeof(uint64_t);
  const size_t most = std::min(keys.size(), kKeysPerRead);
  std::string encoded;
  std::vector<rocksdb::Slice> slices(most);
  std::vector<rocksdb::PinnableSlice> values(most);
  std::vector<rocksdb::Status> statuses(most);
  const auto release = [this](const rocksdb::Snapshot* s) { db_->ReleaseSnapshot(s); };
  const std::unique_ptr<const rocksdb::Snapshot, decltype(release)> snapshot(db_->GetSnapshot(),
                                                                             release);
  rocksdb::ReadOptions read;
  read.snapshot = snapshot.get();
  for (size_t first = 0; first < keys.size(); first += most) {
    const size_t count = std::min(most, keys.size() - first);
    encoded.clear();
    for (size_t i = 0; i < count; ++i) {
      encoded += prefix;
      AppendStoreKey(keys[first + i], encoded);
    }
    for (size_t i = 0; i < count; ++i) {
      slices[i] = rocksdb::Slice(encoded.data() + i * key_bytes, key_bytes);
    }
    db_->MultiGet(read, db_->DefaultColumnFamily(), count, slices.data(), values.data(),
                  statuses.data(), /*sorted_input=*/true);
    for (size_t i = 0; i < count; ++i) {
      if (statuses[i].IsNotFound()) continue;
      MUSTER_RETURN_IF_ERROR(
          FromRocksDb(statuses[i], absl::StrCat("read key ", keys[first + i], " of table ", table,
                                                ", partition ", partition, ", job ", job)));
      visitor(first + i, Bytes(values[i]));
      values[i].Reset();
    }
  }
  return absl::OkStatus();
}

absl::Status RocksDbStore::Scan(const std::string& job, uint32_t table, uint32_t partition,
                                ScanVisitor visitor) const {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StoreSnapshot> values,
                          Snapshot(job, table, partition));
  return values->Scan(0, visitor);
}

absl::StatusOr<std::unique_ptr<StoreSnapshot>> RocksDbStore::Snapshot(const std::string& job,
                                                                      uint32_t table,
                                                                      uint32_t partition) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  return std::make_unique<RocksDbSnapshot>(
      *db_, PartitionPrefix(job, table, partition),
      absl::StrCat("read table ", table, ", partition ", partition, " of job ", job));
}

absl::StatusOr<std::optional<std::string>> RocksDbStore::GetMeta(const std::string& job,
                                                                 uint32_t partition) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), MetaKey(job, partition), &value);
  if (status.IsNotFound()) return std::nullopt;
  MUSTER_RETURN_IF_ERROR(FromRocksDb(
      status, absl::StrCat("read the metadata of partition ", partition, " of job ", job)));
  return value;
}

absl::StatusOr<std::vector<uint32_t>> RocksDbStore::Partitions(const std::string& job) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  const Range range(MetaPrefix(job), PrefixEnd(MetaPrefix(job)));
  std::vector<uint32_t> partitions;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(range.options));
  for (at->Seek(range.begin); at->Valid(); at->Next()) {
    const rocksdb::Slice key = at->key();
    partitions.push_back(LastU32({key.data(), key.size()}));
  }
  MUSTER_RETURN_IF_ERROR(
      FromRocksDb(at->status(), absl::StrCat("list the partitions of job ", job)));
  return partitions;
}

absl::StatusOr<std::vector<std::string>> RocksDbStore::Jobs() const {
  std::vector<std::string> jobs;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(rocksdb::ReadOptions()));
  for (at->SeekToFirst(); at->Valid(); at->Seek(PrefixEnd(JobPrefix(jobs.back())))) {
    const rocksdb::Slice key = at->key();
    const absl::string_view text(key.data(), key.size());
    jobs.emplace_back(text.substr(0, text.find('\0')));
  }
  MUSTER_RETURN_IF_ERROR(FromRocksDb(at->status(), "list the jobs of the parameter store"));
  return jobs;
}

absl::Status RocksDbStore::DropJob(const std::string& job) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  const std::string begin = JobPrefix(job);
  const std::string end = PrefixEnd(begin);
  rocksdb::WriteOptions write;
  write.sync = true;
  MUSTER_RETURN_IF_ERROR(
      FromRocksDb(db_->DeleteRange(write, db_->DefaultColumnFamily(), begin, end),
                  absl::StrCat("drop job ", job)));
  // Gives the space of whole files back now; the rest goes with later compactions.
  const rocksdb::Slice begin_slice(begin);
  const rocksdb::Slice end_slice(end);
  return FromRocksDb(rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(),
                                                 &begin_slice, &end_slice, /*include_end=*/false),
                     absl::StrCat("free the files of job ", job));
}

std::vector<prometheus::MetricFamily> RocksDbStore::Metrics() const {
  return DatabaseMetrics(*db_);
}

}  // namespace muster
