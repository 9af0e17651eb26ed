#ifndef MUSTER_SERVER_SHARD_STORAGE_FAKE_STORE_H_
#define MUSTER_SERVER_SHARD_STORAGE_FAKE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shard/storage/memory_store_for_testing.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

// A store in memory that fails when told to and loses in a crash what it may. For one thread.
class FakeStore final : public ParameterStore {
 public:
  enum class Operation { kWrite, kMultiGet, kScan };
  enum class Loss {
    // The process was killed: any scratch changes may be lost.
    kProcess,
    // The machine crashed: the last of the buffered changes since the last sync may be lost, too.
    kMachine,
  };

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

  // Sets what is called before each operation, and can make it fail without effect.
  void set_fault(std::function<absl::Status(Operation)> fault) { fault_ = std::move(fault); }

  void Crash(Loss loss, uint64_t seed);

  // Returns the number of values put, and of calls of MultiGet.
  int puts() const { return puts_; }
  int multi_gets() const { return multi_gets_; }

 private:
  // A batch with copies of its values, or a drop of its job.
  struct Written {
    std::string job;
    std::vector<StoreBatch::Change> changes;
    std::vector<std::string> values;
    Durability durability = Durability::kSync;
    bool drops_job = false;
  };

  absl::Status Check(Operation operation) const;
  absl::Status Apply(const Written& written);

  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>();
  // All writes in order, except those that a crash lost.
  std::vector<Written> written_;
  std::function<absl::Status(Operation)> fault_;
  int puts_ = 0;
  mutable int multi_gets_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_FAKE_STORE_H_
