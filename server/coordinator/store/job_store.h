#ifndef MUSTER_SERVER_COORDINATOR_STORE_JOB_STORE_H_
#define MUSTER_SERVER_COORDINATOR_STORE_JOB_STORE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// What the coordinator keeps, each in a table of its own. The numbers are stored: add, never
// change.
enum class StoreTable : char {
  // v1::StoreRecord under the empty key.
  kStore = 1,
  // v1::JobRecord by job id.
  kJobs = 2,
  // v1::JobEvent by (job id, number).
  kEvents = 3,
  // Log text by (job id, offset).
  kLogs = 4,
  // v1::DaemonRecord by daemon id.
  kDaemons = 5,
  // Tables that a server is still to drop: the last generation to go, as decimal digits (empty, of
  // earlier releases: any), by (server id, job id).
  kDrops = 6,
  // Servers that are being drained, or are: empty values by server id.
  kDrains = 7,
  // How the data of a job's weights are prepared, by job id: see Job::data_preparation.
  kDataPreparations = 8,
  // Where the log text at (job id, offset) comes from: its slot and when it came, in milliseconds
  // of Unix time, as decimal digits with a blank between. Text of earlier releases has none.
  kLogOrigins = 9,
};

// Keys of two parts, ordered by the first and then the second (numbers by value).
std::string StoreKey(absl::string_view id, uint64_t number);
std::string StoreKey(absl::string_view id, absl::string_view second);
// Prefix of all keys with this first part. REQUIRES for all three: the id holds no zero byte.
std::string StoreKeyPrefix(absl::string_view id);
// The second parts. REQUIRES: a key that StoreKey made.
uint64_t StoreKeyNumber(absl::string_view key);
std::pair<std::string, std::string> SplitStoreKey(absl::string_view key);

// Changes that become visible and durable together, in order.
class JobStoreBatch {
 public:
  struct Change {
    enum class Kind { kPut, kDelete, kDeletePrefix };
    Kind kind;
    StoreTable table;
    std::string key;
    std::string value;
  };

  void Put(StoreTable table, std::string key, std::string value) {
    changes_.push_back({Change::Kind::kPut, table, std::move(key), std::move(value)});
  }
  void Delete(StoreTable table, std::string key) {
    changes_.push_back({Change::Kind::kDelete, table, std::move(key), {}});
  }
  void DeletePrefix(StoreTable table, std::string prefix) {
    changes_.push_back({Change::Kind::kDeletePrefix, table, std::move(prefix), {}});
  }

  bool empty() const { return changes_.empty(); }
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::vector<Change> changes_;
};

// Ordered tables of small records: the coordinator's memory. Thread-safe; calls block on the disk.
class JobStore {
 public:
  enum class Durability {
    // On disk when Write returns.
    kSynced,
    // Survives a crash of the process, and of the machine some seconds later. For log text and
    // progress.
    kBuffered,
  };

  virtual ~JobStore() = default;

  // All of the batch or nothing. UNAVAILABLE: the disk failed or is full; nothing was written.
  virtual absl::Status Write(const JobStoreBatch& batch, Durability durability) = 0;

  // Calls `visitor` for each record whose key begins with `prefix`, in order of key, until it
  // returns an error, which is returned. DATA_LOSS: a record cannot be read.
  virtual absl::Status Scan(
      StoreTable table, absl::string_view prefix,
      absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)> visitor)
      const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_STORE_JOB_STORE_H_
