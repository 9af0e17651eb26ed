#ifndef MUSTER_TESTS_BENCHMARKS_MACHINE_LIMITS_H_
#define MUSTER_TESTS_BENCHMARKS_MACHINE_LIMITS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// What this machine can do at best, to put figures of the same run beside. Each runs for about
// `duration` and returns GB/s (1e9 bytes), one copy or transfer counted once.

// One thread copies between two buffers of `bytes`, touched before.
double MemcpySpeed(size_t bytes, absl::Duration duration);

// One thread sends messages of `bytes` over a TCP connection on loopback, another receives them
// into one buffer.
absl::StatusOr<double> LoopbackSpeed(size_t bytes, absl::Duration duration);

// Two threads send a message of `bytes` to and fro over a TCP connection on loopback. Half of each
// round trip's time, in microseconds.
absl::StatusOr<std::vector<double>> LoopbackPingPong(size_t bytes, int round_trips);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_MACHINE_LIMITS_H_
