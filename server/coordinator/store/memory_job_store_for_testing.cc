#include "server/coordinator/store/memory_job_store_for_testing.h"

#include <vector>

#include "absl/strings/match.h"
#include "common/base/status_macros.h"

namespace muster {

absl::Status MemoryJobStore::Write(const JobStoreBatch& batch, Durability durability) {
  absl::MutexLock lock(&mutex_);
  for (const JobStoreBatch::Change& change : batch.changes()) {
    const std::pair<StoreTable, std::string> key(change.table, change.key);
    switch (change.kind) {
      case JobStoreBatch::Change::Kind::kPut:
        records_[key] = change.value;
        break;
      case JobStoreBatch::Change::Kind::kDelete:
        records_.erase(key);
        break;
      case JobStoreBatch::Change::Kind::kDeletePrefix:
        for (auto it = records_.lower_bound(key); it != records_.end() &&
                                                  it->first.first == change.table &&
                                                  absl::StartsWith(it->first.second, change.key);) {
          it = records_.erase(it);
        }
        break;
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryJobStore::Scan(
    StoreTable table, absl::string_view prefix,
    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor) const {
  std::vector<std::pair<std::string, std::string>> found;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = records_.lower_bound({table, std::string(prefix)});
         it != records_.end() && it->first.first == table &&
         absl::StartsWith(it->first.second, prefix);
         ++it) {
      found.emplace_back(it->first.second, it->second);
    }
  }
  for (const auto& [key, value] : found) MUSTER_RETURN_IF_ERROR(visitor(key, value));
  return absl::OkStatus();
}

}  // namespace muster
