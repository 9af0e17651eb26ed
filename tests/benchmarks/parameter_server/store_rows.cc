#include "tests/benchmarks/parameter_server/store_rows.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/fingerprint.h"
#include "common/base/huge_memory.h"
#include "common/base/machine/prefetch.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/storage/rocksdb_store.h"
#include "server/shard/tables/tiered_table.h"

namespace muster {
namespace {

constexpr char kRowsJob[] = "bench";
constexpr size_t kRowFloats = kSparseDim;
constexpr size_t kFillKeys = 100000;
constexpr size_t kKeysPerRead = 1024;
// Requests of a run are drawn before it.
constexpr int kRequests = 64;
// Key, head and floats, as they are stored.
constexpr uint64_t kStoredBytes = 8 + 24 + kRowFloats * sizeof(float);

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Keys as users' are: any of 64 bits.
uint64_t KeyOf(uint64_t number) { return MixBits(number + 1); }

std::vector<std::vector<uint64_t>> Requests(KeyDistribution distribution, uint64_t rows,
                                            int64_t keys) {
  std::vector<std::vector<uint64_t>> requests;
  for (int i = 0; i < kRequests; ++i) {
    requests.push_back(DrawRequest(distribution, rows, keys, i));
    for (uint64_t& key : requests.back()) key = KeyOf(key);
  }
  return requests;
}

// A store that counts the rows that are read from it and written to it.
class CountingStore final : public ParameterStore {
 public:
  explicit CountingStore(std::unique_ptr<ParameterStore> store) : store_(std::move(store)) {}

  uint64_t rows_read() const { return rows_read_; }
  uint64_t rows_written() const { return rows_written_; }

  absl::Status Write(const StoreBatch& batch, Durability durability) override {
    for (const StoreBatch::Change& change : batch.changes()) {
      rows_written_ += change.kind == StoreBatch::Kind::kPut ? 1 : 0;
    }
    return store_->Write(batch, durability);
  }
  absl::Status MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                        absl::Span<const uint64_t> keys, FoundVisitor visitor) const override {
    return store_->MultiGet(job, table, partition, keys, [&](size_t index, Value value) {
      ++rows_read_;
      visitor(index, value);
    });
  }
  absl::Status Scan(const std::string& job, uint32_t table, uint32_t partition,
                    ScanVisitor visitor) const override {
    return store_->Scan(job, table, partition, visitor);
  }
  absl::StatusOr<std::unique_ptr<StoreSnapshot>> Snapshot(const std::string& job, uint32_t table,
                                                          uint32_t partition) const override {
    return store_->Snapshot(job, table, partition);
  }
  absl::StatusOr<std::optional<std::string>> GetMeta(const std::string& job,
                                                     uint32_t partition) const override {
    return store_->GetMeta(job, partition);
  }
  absl::StatusOr<std::vector<uint32_t>> Partitions(const std::string& job) const override {
    return store_->Partitions(job);
  }
  absl::StatusOr<std::vector<std::string>> Jobs() const override { return store_->Jobs(); }
  absl::Status DropJob(const std::string& job) override { return store_->DropJob(job); }

 private:
  const std::unique_ptr<ParameterStore> store_;
  mutable uint64_t rows_read_ = 0;
  uint64_t rows_written_ = 0;
};

class TieredBenchTable final : public BenchTable {
 public:
  absl::Status Open(const Options& options) {
    options_ = options;
    v1::OptimizerSpec optimizer;
    optimizer.set_name("sgd");
    optimizer.set_learning_rate(0.1);
    MUSTER_ASSIGN_OR_RETURN(optimizer_, CreateOptimizer(optimizer, Granularity::kRow));
    TieredTable::Options tier;
    tier.job = kRowsJob;
    if (options.cache_bytes > 0) {
      MUSTER_ASSIGN_OR_RETURN(
          std::unique_ptr<ParameterStore> store,
          RocksDbStore::Create(
              {.data_dir = options.folder, .block_cache_bytes = options.block_cache_bytes}));
      store_ = std::make_unique<CountingStore>(std::move(store));
      tier.store = store_.get();
      tier.evicts = true;
    }
    table_ = std::make_unique<TieredTable>(spec_, /*seed=*/1, *optimizer_, std::move(tier));
    gradients_.assign(kFillKeys * kRowFloats, 0.01f);
    std::vector<uint64_t> keys;
    for (uint64_t begin = 0; begin < options.rows; begin += kFillKeys) {
      keys.clear();
      const uint64_t end = std::min<uint64_t>(begin + kFillKeys, options.rows);
      for (uint64_t number = begin; number < end; ++number) keys.push_back(KeyOf(number));
      MUSTER_RETURN_IF_ERROR(Push(keys));
      MUSTER_RETURN_IF_ERROR(Trim());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Result> Run(Operation operation, KeyDistribution distribution, int64_t keys,
                             absl::Duration duration) override {
    // What pulls evict need not be written; here it is as if they had gone on for long.
    if (operation == Operation::kPull && options_.cache_bytes > 0) {
      MUSTER_RETURN_IF_ERROR(table_->StoreChanged());
    }
    const auto requests = Requests(distribution, options_.rows, keys);
    size_t most = 0;
    for (const auto& request : requests) most = std::max(most, request.size());
    std::vector<float> out(most * kRowFloats);
    gradients_.resize(std::max(gradients_.size(), most * kRowFloats), 0.01f);
    uint64_t rows = 0;
    size_t next = 0;
    uint64_t read = 0, written = 0;
    absl::Time start;
    double cpu_start = 0;
    // The first quarter warms up.
    const absl::Time begin = absl::Now();
    for (bool warm = false;;) {
      const absl::Time now = absl::Now();
      if (!warm && now - begin > duration / 4) {
        warm = true;
        start = now;
        cpu_start = ThreadSeconds();
        rows = 0;
        read = rows_read();
        written = rows_written();
      }
      if (warm && now - start > duration) {
        const double seconds = absl::ToDoubleSeconds(now - start);
        return Result{.rows_per_second = rows / seconds,
                      .read_per_second = (rows_read() - read) / seconds,
                      .read_per_cpu_second = (rows_read() - read) / (ThreadSeconds() - cpu_start),
                      .written_per_second = (rows_written() - written) / seconds};
      }
      const std::vector<uint64_t>& request = requests[next++ % requests.size()];
      if (operation != Operation::kPush) {
        MUSTER_RETURN_IF_ERROR(table_->Pull(
            request, /*completed=*/0, absl::MakeSpan(out).first(request.size() * kRowFloats)));
        MUSTER_RETURN_IF_ERROR(Trim());
      }
      if (operation != Operation::kPull) {
        MUSTER_RETURN_IF_ERROR(Push(request));
        MUSTER_RETURN_IF_ERROR(Trim());
      }
      rows += request.size();
    }
  }

  uint64_t rows_read() const { return store_ == nullptr ? 0 : store_->rows_read(); }
  uint64_t rows_written() const { return store_ == nullptr ? 0 : store_->rows_written(); }
  uint64_t row_bytes() const override { return table_->rows() * kStoredBytes; }
  uint64_t written_row_bytes() const override { return rows_written() * kStoredBytes; }

 private:
  absl::Status Push(absl::Span<const uint64_t> keys) {
    MUSTER_ASSIGN_OR_RETURN(const TieredTable::Fetched fetched, table_->Fetch(keys));
    table_->Update(fetched, absl::MakeConstSpan(gradients_).first(keys.size() * kRowFloats),
                   {.learning_rate = 0.1f}, SparseTable::Steps::kPerRow, /*clock=*/0,
                   /*completed=*/0, /*lsn=*/0);
    return absl::OkStatus();
  }

  // As PartitionTables::TrimCache.
  absl::Status Trim() {
    const uint64_t used = table_->used_bytes();
    if (options_.cache_bytes == 0 || used <= options_.cache_bytes) return absl::OkStatus();
    return table_->Evict(used - (options_.cache_bytes - options_.cache_bytes / 16),
                         std::numeric_limits<uint64_t>::max(), /*completed=*/0);
  }

  Options options_;
  const SparseTableSpec spec_{
      .name = "t",
      .dim = kSparseDim,
      .initializer = {.kind = Initializer::Kind::kUniform, .scale = 0.01f, .value = 0},
      .weight_decay = false};
  std::unique_ptr<const Optimizer> optimizer_;
  // Null: all rows stay in memory.
  std::unique_ptr<CountingStore> store_;
  std::unique_ptr<TieredTable> table_;
  std::vector<float> gradients_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BenchTable>> BenchTable::Create(const Options& options) {
  auto table = std::make_unique<TieredBenchTable>();
  MUSTER_RETURN_IF_ERROR(table->Open(options));
  return std::unique_ptr<BenchTable>(std::move(table));
}

double GatherSpeed(uint64_t rows, int64_t keys, absl::Duration duration) {
  constexpr size_t kAhead = 16;
  constexpr size_t kBytes = kRowFloats * sizeof(float);
  const HugeMemory memory(rows * kBytes);
  char* const data = static_cast<char*>(memory.data());
  std::memset(data, 1, rows * kBytes);
  std::vector<char> out(keys * kBytes);
  std::vector<std::vector<uint64_t>> places;
  for (int i = 0; i < kRequests; ++i) {
    places.push_back(DrawRequest(KeyDistribution::kUniform, rows, keys, i));
  }
  uint64_t gathered = 0;
  const absl::Time start = absl::Now();
  absl::Duration elapsed;
  for (size_t next = 0; (elapsed = absl::Now() - start) < duration; ++next) {
    const std::vector<uint64_t>& request = places[next % places.size()];
    char* to = out.data();
    for (size_t i = 0; i < request.size(); ++i, to += kBytes) {
      if (i + kAhead < request.size()) {
        const char* ahead = data + request[i + kAhead] * kBytes;
        for (size_t line = 0; line < kBytes; line += 64) Prefetch(ahead + line);
      }
      std::memcpy(to, data + request[i] * kBytes, kBytes);
    }
    gathered += request.size();
  }
  return gathered / absl::ToDoubleSeconds(elapsed);
}

absl::StatusOr<ReadSpeed> RawMultiGetSpeed(const std::string& folder, uint64_t rows,
                                           uint64_t cache_bytes, KeyDistribution distribution,
                                           int64_t keys, absl::Duration duration) {
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = cache_bytes == 0;
  if (cache_bytes > 0) table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, /*use_block_based_builder=*/false));
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.use_direct_reads = cache_bytes == 0;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(options, absl::StrCat(folder, "/store"), &opened);
  if (!status.ok()) return absl::UnavailableError(status.ToString());
  const std::unique_ptr<rocksdb::DB> db(opened);
  // All keys there are, in order.
  std::vector<std::string> stored;
  {
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions()));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      if (at->value().size() > 24) stored.push_back(at->key().ToString());
    }
  }
  if (stored.empty()) return absl::InternalError("no rows were stored");
  std::vector<std::vector<rocksdb::Slice>> requests;
  for (int i = 0; i < kRequests; ++i) {
    std::vector<uint64_t> places = DrawRequest(distribution, stored.size(), keys, i);
    std::sort(places.begin(), places.end());
    requests.emplace_back();
    for (uint64_t place : places) requests.back().emplace_back(stored[place]);
  }
  std::vector<rocksdb::PinnableSlice> values(kKeysPerRead);
  std::vector<rocksdb::Status> statuses(kKeysPerRead);
  uint64_t read = 0;
  bool warm = false;
  absl::Time start;
  double cpu_start = 0;
  const absl::Time begin = absl::Now();
  for (size_t next = 0;; ++next) {
    const absl::Time now = absl::Now();
    if (!warm && now - begin > duration / 4) {
      warm = true;
      start = now;
      cpu_start = ThreadSeconds();
      read = 0;
    }
    if (warm && now - start > duration) {
      return ReadSpeed{.rows_per_second = read / absl::ToDoubleSeconds(now - start),
                       .rows_per_cpu_second = read / (ThreadSeconds() - cpu_start)};
    }
    const std::vector<rocksdb::Slice>& request = requests[next % requests.size()];
    for (size_t first = 0; first < request.size(); first += kKeysPerRead) {
      const size_t count = std::min(kKeysPerRead, request.size() - first);
      db->MultiGet(rocksdb::ReadOptions(), db->DefaultColumnFamily(), count, &request[first],
                   values.data(), statuses.data(), /*sorted_input=*/true);
      for (size_t i = 0; i < count; ++i) {
        if (!statuses[i].ok()) return absl::DataLossError(statuses[i].ToString());
        values[i].Reset();
      }
      read += count;
    }
  }
}

uint64_t FolderBytes(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

uint64_t BytesWritten() {
  std::ifstream file("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "wchar:") return value;
  }
  return 0;
}

}  // namespace muster
