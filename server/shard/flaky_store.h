#ifndef MUSTER_SERVER_SHARD_FLAKY_STORE_H_
#define MUSTER_SERVER_SHARD_FLAKY_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/shard/storage/memory_store_for_testing.h"

namespace muster {

// A store for tests whose disk can break.
class FlakyStore final : public ParameterStore {
 public:
  // Moment of the break: before the next synced write, or right after it. Writes, and reads of
  // metadata, fail until Mend.
  enum class When { kBefore, kAfter };
  void BreakAtSync(When when) { break_ = when; }
  // Sets a function that is called after every read of a partition's metadata.
  void SetAtRead(std::function<void()> act) { at_read_ = std::move(act); }
  // Sets a function that is called once, before the next DropJob.
  void SetAtDrop(std::function<void()> act) { at_drop_ = std::move(act); }
  void Mend() {
    break_.reset();
    broken_ = false;
  }

  absl::Status Write(const StoreBatch& batch, Durability durability) override {
    const bool breaks = durability == Durability::kSync && break_.has_value();
    if (broken_ || (breaks && *break_ == When::kBefore)) {
      broken_ = true;
      return absl::UnavailableError("the disk is broken");
    }
    if (breaks) broken_ = true;
    return store_.Write(batch, durability);
  }
  absl::Status MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                        absl::Span<const uint64_t> keys, FoundVisitor visitor) const override {
    return store_.MultiGet(job, table, partition, keys, visitor);
  }
  absl::Status Scan(const std::string& job, uint32_t table, uint32_t partition,
                    ScanVisitor visitor) const override {
    return store_.Scan(job, table, partition, visitor);
  }
  absl::StatusOr<std::unique_ptr<StoreSnapshot>> Snapshot(const std::string& job, uint32_t table,
                                                          uint32_t partition) const override {
    return store_.Snapshot(job, table, partition);
  }
  absl::StatusOr<std::optional<std::string>> GetMeta(const std::string& job,
                                                     uint32_t partition) const override {
    if (broken_) return absl::UnavailableError("the disk is broken");
    auto found = store_.GetMeta(job, partition);
    if (at_read_) at_read_();
    return found;
  }
  absl::StatusOr<std::vector<uint32_t>> Partitions(const std::string& job) const override {
    return store_.Partitions(job);
  }
  absl::StatusOr<std::vector<std::string>> Jobs() const override { return store_.Jobs(); }
  absl::Status DropJob(const std::string& job) override {
    if (const auto act = std::exchange(at_drop_, nullptr)) act();
    return store_.DropJob(job);
  }

 private:
  MemoryStore store_;
  std::optional<When> break_;
  std::function<void()> at_read_;
  std::function<void()> at_drop_;
  bool broken_ = false;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_FLAKY_STORE_H_
