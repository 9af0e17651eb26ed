#ifndef MUSTER_SERVER_SHARD_STORAGE_PARAMETER_STORE_H_
#define MUSTER_SERVER_SHARD_STORAGE_PARAMETER_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

// Changes to one job's state that become visible, and durable, together. They are applied in the
// order of the calls. Values are borrowed: they must live until ParameterStore::Write returns.
class StoreBatch {
 public:
  enum class Kind { kPut, kDelete, kDeletePartition, kPutMeta };

  struct Change {
    Kind kind = Kind::kPut;
    uint32_t table = 0;
    uint32_t partition = 0;
    uint64_t key = 0;
    absl::Span<const std::byte> value;
  };

  explicit StoreBatch(std::string job) : job_(std::move(job)) {}

  // Sets the value of a row or block.
  void Put(uint32_t table, uint32_t partition, uint64_t key, absl::Span<const std::byte> value) {
    changes_.push_back({Kind::kPut, table, partition, key, value});
  }
  void Delete(uint32_t table, uint32_t partition, uint64_t key) {
    changes_.push_back({Kind::kDelete, table, partition, key, {}});
  }
  // Deletes all values of one partition of one table.
  void DeletePartition(uint32_t table, uint32_t partition) {
    changes_.push_back({Kind::kDeletePartition, table, partition, 0, {}});
  }
  // Sets the metadata of a partition, whose meaning is the caller's.
  void PutMeta(uint32_t partition, absl::Span<const std::byte> value) {
    changes_.push_back({Kind::kPutMeta, 0, partition, 0, value});
  }

  const std::string& job() const { return job_; }
  absl::Span<const Change> changes() const { return changes_; }

 private:
  std::string job_;
  std::vector<Change> changes_;
};

// The values of one partition of a table at the time the snapshot was taken. Thread-safe; must be
// gone before its store is.
class StoreSnapshot {
 public:
  // Takes a value, which is valid during the call only. An error ends the scan, which returns it.
  using Visitor = absl::FunctionRef<absl::Status(uint64_t key, absl::Span<const std::byte> value)>;

  virtual ~StoreSnapshot() = default;

  // Calls `visitor` for every value whose key is at least `first_key`, in ascending order of key.
  // Blocks on the disk; errors as ParameterStore's.
  virtual absl::Status Scan(uint64_t first_key, Visitor visitor) const = 0;
};

// The local, persistent home of the partitions on one server: values by (job, table, partition,
// key), and metadata per partition. One stored value is one row or block with weights, optimizer
// state, number of updates and last use. What the bytes mean is the caller's business.
//
// Thread-safe. All calls may block on the disk; never call with a lock held. Errors of every call:
// InvalidArgument for a job id that is empty or holds a NUL byte, ResourceExhausted when the disk
// is full, DataLoss when stored data is damaged, Unavailable for other errors of the disk.
class ParameterStore {
 public:
  enum class Durability {
    // May be lost with the process, each change by itself. Costs least.
    kScratch,
    // Survives the process; on disk some time later.
    kBuffered,
    // Survives the machine: on disk when the call returns, with all buffered changes before it.
    kSync,
  };

  using Value = absl::Span<const std::byte>;
  // Takes the value of key `index` of those asked for. The value is valid during the call only.
  using FoundVisitor = absl::FunctionRef<void(size_t index, Value value)>;
  using ScanVisitor = StoreSnapshot::Visitor;

  virtual ~ParameterStore() = default;

  // Applies the whole batch or, when it fails, nothing. After ResourceExhausted, later calls
  // succeed once there is space.
  virtual absl::Status Write(const StoreBatch& batch, Durability durability) = 0;

  // Calls `visitor` for each of the keys that has a value, in order, without a copy. All are of one
  // state of the store. InvalidArgument: keys not strictly ascending; nothing was visited.
  virtual absl::Status MultiGet(const std::string& job, uint32_t table, uint32_t partition,
                                absl::Span<const uint64_t> keys, FoundVisitor visitor) const = 0;

  // Calls `visitor` for every value of a partition of a table, in ascending order of key, as of one
  // moment during the call.
  virtual absl::Status Scan(const std::string& job, uint32_t table, uint32_t partition,
                            ScanVisitor visitor) const = 0;

  // Returns the values of a partition of a table as of now. Cheap in a persistent store; while the
  // snapshot lives, what is overwritten is not freed.
  virtual absl::StatusOr<std::unique_ptr<StoreSnapshot>> Snapshot(const std::string& job,
                                                                  uint32_t table,
                                                                  uint32_t partition) const = 0;

  // Returns a partition's metadata, or nothing when it has none.
  virtual absl::StatusOr<std::optional<std::string>> GetMeta(const std::string& job,
                                                             uint32_t partition) const = 0;

  // Returns the partitions of a job that have metadata, ascending.
  virtual absl::StatusOr<std::vector<uint32_t>> Partitions(const std::string& job) const = 0;

  // Returns the jobs that have anything stored, in order of their bytes.
  virtual absl::StatusOr<std::vector<std::string>> Jobs() const = 0;

  // Deletes everything of a job, durably. OK when there is nothing.
  virtual absl::Status DropJob(const std::string& job) = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_PARAMETER_STORE_H_
