#include "server/shard/storage/memory_store_for_testing.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "common/base/status_macros.h"
#include "server/shard/storage/store_keys.h"

namespace muster {
namespace {

constexpr uint64_t kLastKey = std::numeric_limits<uint64_t>::max();

class CopiedValues final : public StoreSnapshot {
 public:
  explicit CopiedValues(std::map<uint64_t, std::string> values) : values_(std::move(values)) {}

  absl::Status Scan(uint64_t first_key, Visitor visitor) const override {
    for (auto value = values_.lower_bound(first_key); value != values_.end(); ++value) {
      MUSTER_RETURN_IF_ERROR(visitor(value->first, AsBytes(value->second)));
    }
    return absl::OkStatus();
  }

 private:
  const std::map<uint64_t, std::string> values_;
};

}  // namespace

absl::Status MemoryStore::Write(const StoreBatch& batch, Durability durability) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(batch.job()));
  if (batch.changes().empty()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  Job& job = jobs_[batch.job()];
  for (const StoreBatch::Change& change : batch.changes()) {
    const auto [kind, table, partition, key, value] = change;
    switch (kind) {
      case StoreBatch::Kind::kPut:
        job.values[{table, partition, key}] = std::string(AsText(value));
        break;
      case StoreBatch::Kind::kDelete:
        job.values.erase({table, partition, key});
        break;
      case StoreBatch::Kind::kDeletePartition:
        job.values.erase(job.values.lower_bound({table, partition, 0}),
                         job.values.upper_bound({table, partition, kLastKey}));
        break;
      case StoreBatch::Kind::kPutMeta:
        job.metadata[partition] = std::string(AsText(value));
        break;
    }
  }
  if (job.values.empty() && job.metadata.empty()) jobs_.erase(batch.job());
  return absl::OkStatus();
}

absl::Status MemoryStore::MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                                   absl::Span<const uint64_t> keys, FoundVisitor visitor) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  MUSTER_RETURN_IF_ERROR(CheckAscending(keys));
  std::vector<std::pair<size_t, std::string>> found;
  {
    absl::MutexLock lock(&mutex_);
    const auto at = jobs_.find(job);
    if (at == jobs_.end()) return absl::OkStatus();
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto value = at->second.values.find({table, partition, keys[i]});
      if (value != at->second.values.end()) found.emplace_back(i, value->second);
    }
  }
  for (const auto& [index, value] : found) visitor(index, AsBytes(value));
  return absl::OkStatus();
}

absl::Status MemoryStore::Scan(const std::string& job, uint32_t table, uint32_t partition,
                               ScanVisitor visitor) const {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StoreSnapshot> values,
                          Snapshot(job, table, partition));
  return values->Scan(0, visitor);
}

absl::StatusOr<std::unique_ptr<StoreSnapshot>> MemoryStore::Snapshot(const std::string& job,
                                                                     uint32_t table,
                                                                     uint32_t partition) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  std::map<uint64_t, std::string> found;
  absl::MutexLock lock(&mutex_);
  if (const auto at = jobs_.find(job); at != jobs_.end()) {
    const auto& values = at->second.values;
    const auto end = values.upper_bound({table, partition, kLastKey});
    for (auto value = values.lower_bound({table, partition, 0}); value != end; ++value) {
      found.emplace_hint(found.end(), std::get<2>(value->first), value->second);
    }
  }
  return std::make_unique<CopiedValues>(std::move(found));
}

absl::StatusOr<std::optional<std::string>> MemoryStore::GetMeta(const std::string& job,
                                                                uint32_t partition) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  absl::MutexLock lock(&mutex_);
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return std::nullopt;
  const auto value = at->second.metadata.find(partition);
  if (value == at->second.metadata.end()) return std::nullopt;
  return value->second;
}

absl::StatusOr<std::vector<uint32_t>> MemoryStore::Partitions(const std::string& job) const {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  std::vector<uint32_t> partitions;
  absl::MutexLock lock(&mutex_);
  if (const auto at = jobs_.find(job); at != jobs_.end()) {
    for (const auto& [partition, value] : at->second.metadata) partitions.push_back(partition);
  }
  return partitions;
}

absl::StatusOr<std::vector<std::string>> MemoryStore::Jobs() const {
  std::vector<std::string> jobs;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, job] : jobs_) jobs.push_back(id);
  return jobs;
}

absl::Status MemoryStore::DropJob(const std::string& job) {
  MUSTER_RETURN_IF_ERROR(CheckJobId(job));
  absl::MutexLock lock(&mutex_);
  jobs_.erase(job);
  return absl::OkStatus();
}

}  // namespace muster
