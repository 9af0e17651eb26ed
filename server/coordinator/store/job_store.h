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

// Tables of the store. The numbers are stored: add, never change.
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
  // Tables that a server is still to drop, by (server id, job id): the last generation to drop, as
  // decimal digits (empty, in records of earlier releases: any generation).
  kDrops = 6,
  // Servers that are being drained, or are drained: empty values by server id.
  kDrains = 7,
  // Job::data_preparation by job id.
  kDataPreparations = 8,
  // Origin of the log text at (job id, offset): slot and time of arrival, in milliseconds of Unix
  // time, as decimal digits with a blank between. Text of earlier releases has none.
  kLogOrigins = 9,
  // A job's history: v1::SeriesRecord by (job id, number of the series), v1::HistoryChangeRecord by
  // (job id, number of the change), and v1::HistoryRecord by job id.
  kSeries = 10,
  kHistoryChanges = 11,
  kHistories = 12,
};

// Returns a key of two parts, ordered by the first, then the second (numbers by value).
std::string StoreKey(absl::string_view id, uint64_t number);
std::string StoreKey(absl::string_view id, absl::string_view second);
// Returns the prefix of keys with this first part. REQUIRES, for all three: no zero byte in `id`.
std::string StoreKeyPrefix(absl::string_view id);
// Returns the number in a key, or both parts of a key. REQUIRES: StoreKey made the key.
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
    // The batch is on disk when Write returns.
    kSynced,
    // The batch survives a crash of the process, and of the machine some seconds later.
    kBuffered,
  };

  virtual ~JobStore() = default;

  // Writes all of the batch or nothing. UNAVAILABLE: the disk failed or is full.
  virtual absl::Status Write(const JobStoreBatch& batch, Durability durability) = 0;

  // Calls `visitor` for each record whose key begins with `prefix`, in order of key. Stops at the
  // first error of `visitor` and returns it. DATA_LOSS: a record cannot be read.
  virtual absl::Status Scan(
      StoreTable table, absl::string_view prefix,
      absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)> visitor)
      const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_STORE_JOB_STORE_H_
