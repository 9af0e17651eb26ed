#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_STORE_LOG_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_STORE_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// Of a run: GB/s (1e9 bytes), and what a GB took of all processors together. Other work on the
// machine changes the first far more than the second.
struct LogSpeed {
  double gb_per_second = 0;
  double cpu_seconds_per_gb = 0;
};

// What a log can reach at best: writes of `bytes` each, one after another over a file of 256 MiB
// that was written before, each followed by fdatasync.
absl::StatusOr<LogSpeed> RawLogSpeed(const std::string& folder, size_t bytes,
                                     absl::Duration duration);

// A parameter server's engine on a folder, with one partition of one job with durability
// EVERY_PUSH: 16 MiB of dense parameters, SGD, pushes applied as they come.
class BenchLog {
 public:
  static absl::StatusOr<std::unique_ptr<BenchLog>> Open(const std::string& folder);
  virtual ~BenchLog() = default;

  // Whose memory payloads come in: the server's, or a channel's that the worker can still write to.
  enum class Memory { kPrivate, kShared };

  // Pushes of `bytes` (a multiple of 1 MiB, at most 16) with so many of them under way; of
  // acknowledged gradients. The first `warm_bytes` are not counted.
  virtual absl::StatusOr<LogSpeed> Push(size_t bytes, int in_flight, Memory memory,
                                        uint64_t warm_bytes, absl::Duration duration) = 0;

  // What a restart costs.
  struct Recovery {
    // Throughput of log records read, checked and applied; the processors' part is that of the
    // image, too, and of finding the log's end.
    LogSpeed replay;
    uint64_t bytes = 0;
    // All of it: opening the store, reading the image, finding the log's end, and replaying.
    double seconds = 0;
  };
  // Fills the log to about `bytes`, stops the engine and starts it again, with nothing of its files
  // in the system's cache.
  virtual absl::StatusOr<Recovery> Recover(uint64_t bytes) = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_STORE_LOG_H_
