#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_STORE_ROWS_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_STORE_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/benchmarks/parameter_server/sparse_requests.h"

namespace muster {

// Random rows of 256 bytes read by their known place from memory on pages of 2 MiB, on one thread:
// what no table can exceed. Rows per second.
double GatherSpeed(uint64_t rows, int64_t keys, absl::Duration duration);

// A partition's table of `rows` rows of 64 floats with SGD, on one thread. It is filled when it is
// made, all rows having been pushed once.
class BenchTable {
 public:
  struct Options {
    uint64_t rows = 0;
    // Bytes that rows in memory may use; 0: all are there.
    uint64_t cache_bytes = 0;
    // Where the others go.
    std::string folder;
    uint64_t block_cache_bytes = 0;
  };
  struct Result {
    double rows_per_second = 0;
    // Of these, read from the store.
    double read_per_second = 0;
    // The same by the time that the thread ran, whatever else the machine did.
    double read_per_cpu_second = 0;
    double written_per_second = 0;
  };
  enum class Operation {
    kPull,
    // Pulls rows, then pushes to them, as a step of training does.
    kTrain,
    kPush,
  };

  static absl::StatusOr<std::unique_ptr<BenchTable>> Create(const Options& options);
  virtual ~BenchTable() = default;

  virtual absl::StatusOr<Result> Run(Operation operation, KeyDistribution distribution,
                                     int64_t keys, absl::Duration duration) = 0;

  // Bytes of all rows, as keys, heads and floats; those that were handed to the store so far.
  virtual uint64_t row_bytes() const = 0;
  virtual uint64_t written_row_bytes() const = 0;
};

// RocksDB's own MultiGet of sorted keys, 1024 at a time, on the rows that such a table left in
// `folder`. With a cache of 0 bytes every block comes from the disk. REQUIRES: the table is gone.
struct ReadSpeed {
  double rows_per_second = 0;
  double rows_per_cpu_second = 0;
};
absl::StatusOr<ReadSpeed> RawMultiGetSpeed(const std::string& folder, uint64_t rows,
                                           uint64_t cache_bytes, KeyDistribution distribution,
                                           int64_t keys, absl::Duration duration);

// Bytes of all files in a folder and below.
uint64_t FolderBytes(const std::string& folder);
// Bytes that this process has handed to the operating system to write.
uint64_t BytesWritten();

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_STORE_ROWS_H_
