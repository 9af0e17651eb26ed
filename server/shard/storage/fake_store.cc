#include "server/shard/storage/fake_store.h"

#include <random>
#include <utility>

#include "common/base/status_macros.h"

namespace muster {

absl::Status FakeStore::Check(Operation operation) const {
  return fault_ == nullptr ? absl::OkStatus() : fault_(operation);
}

absl::Status FakeStore::Apply(const Written& written) {
  if (written.drops_job) return store_->DropJob(written.job);
  StoreBatch batch(written.job);
  for (size_t i = 0; i < written.changes.size(); ++i) {
    const StoreBatch::Change& change = written.changes[i];
    const std::string& text = written.values[i];
    const Value value(reinterpret_cast<const std::byte*>(text.data()), text.size());
    switch (change.kind) {
      case StoreBatch::Kind::kPut:
        batch.Put(change.table, change.partition, change.key, value);
        break;
      case StoreBatch::Kind::kDelete:
        batch.Delete(change.table, change.partition, change.key);
        break;
      case StoreBatch::Kind::kDeletePartition:
        batch.DeletePartition(change.table, change.partition);
        break;
      case StoreBatch::Kind::kPutMeta:
        batch.PutMeta(change.partition, value);
        break;
    }
  }
  return store_->Write(batch, written.durability);
}

absl::Status FakeStore::Write(const StoreBatch& batch, Durability durability) {
  MUSTER_RETURN_IF_ERROR(Check(Operation::kWrite));
  Written written;
  written.job = batch.job();
  written.durability = durability;
  for (const StoreBatch::Change& change : batch.changes()) {
    written.changes.push_back(change);
    written.values.emplace_back(reinterpret_cast<const char*>(change.value.data()),
                                change.value.size());
    puts_ += change.kind == StoreBatch::Kind::kPut;
  }
  MUSTER_RETURN_IF_ERROR(Apply(written));
  written_.push_back(std::move(written));
  return absl::OkStatus();
}

void FakeStore::Crash(Loss loss, uint64_t seed) {
  std::mt19937_64 random(seed);
  size_t synced = 0;
  for (size_t i = 0; i < written_.size(); ++i) {
    if (written_[i].durability == Durability::kSync) synced = i + 1;
  }
  const size_t kept = loss == Loss::kProcess || synced == written_.size()
                          ? written_.size()
                          : synced + random() % (written_.size() - synced + 1);
  store_ = std::make_unique<MemoryStore>();
  std::vector<Written> survived;
  for (size_t i = 0; i < kept; ++i) {
    if (written_[i].durability == Durability::kScratch && random() % 2 == 0) continue;
    if (Apply(written_[i]).ok()) survived.push_back(std::move(written_[i]));
  }
  written_ = std::move(survived);
}

absl::Status FakeStore::MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                                 absl::Span<const uint64_t> keys, FoundVisitor visitor) const {
  MUSTER_RETURN_IF_ERROR(Check(Operation::kMultiGet));
  ++multi_gets_;
  return store_->MultiGet(job, table, partition, keys, visitor);
}

absl::Status FakeStore::Scan(const std::string& job, uint32_t table, uint32_t partition,
                             ScanVisitor visitor) const {
  MUSTER_RETURN_IF_ERROR(Check(Operation::kScan));
  return store_->Scan(job, table, partition, visitor);
}

absl::StatusOr<std::unique_ptr<StoreSnapshot>> FakeStore::Snapshot(const std::string& job,
                                                                   uint32_t table,
                                                                   uint32_t partition) const {
  MUSTER_RETURN_IF_ERROR(Check(Operation::kScan));
  return store_->Snapshot(job, table, partition);
}

absl::StatusOr<std::optional<std::string>> FakeStore::GetMeta(const std::string& job,
                                                              uint32_t partition) const {
  return store_->GetMeta(job, partition);
}

absl::StatusOr<std::vector<uint32_t>> FakeStore::Partitions(const std::string& job) const {
  return store_->Partitions(job);
}

absl::StatusOr<std::vector<std::string>> FakeStore::Jobs() const { return store_->Jobs(); }

absl::Status FakeStore::DropJob(const std::string& job) {
  Written written;
  written.job = job;
  written.drops_job = true;
  MUSTER_RETURN_IF_ERROR(Apply(written));
  written_.push_back(std::move(written));
  return absl::OkStatus();
}

}  // namespace muster
