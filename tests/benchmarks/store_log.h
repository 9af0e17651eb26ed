#ifndef MUSTER_TESTS_BENCHMARKS_STORE_LOG_H_
#define MUSTER_TESTS_BENCHMARKS_STORE_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// What a log can reach at best: writes of `bytes` each, one after another over a file of 256 MiB
// that was written before, each followed by fdatasync. GB/s (1e9 bytes).
absl::StatusOr<double> RawLogSpeed(const std::string& folder, size_t bytes,
                                   absl::Duration duration);

// A parameter server's engine on a folder, with one partition of one job with durability
// EVERY_PUSH: 16 MiB of dense parameters, SGD, pushes applied as they come.
class BenchLog {
 public:
  static absl::StatusOr<std::unique_ptr<BenchLog>> Open(const std::string& folder);
  virtual ~BenchLog() = default;

  // Pushes of `bytes` (a multiple of 1 MiB, at most 16) with so many of them under way; GB/s of
  // acknowledged gradients. The first `warm_bytes` are not counted.
  virtual absl::StatusOr<double> Push(size_t bytes, int in_flight, uint64_t warm_bytes,
                                      absl::Duration duration) = 0;

  // Stops the engine and starts it again, whose log is replayed. Bytes of the log per second, as
  // GB/s.
  virtual absl::StatusOr<double> Replay() = 0;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_STORE_LOG_H_
