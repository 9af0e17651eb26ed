#ifndef MUSTER_TESTS_BENCHMARKS_HARNESS_MACHINE_LIMITS_H_
#define MUSTER_TESTS_BENCHMARKS_HARNESS_MACHINE_LIMITS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// What this machine can do at best, to put figures of the same run beside. Each runs for about
// `duration` and returns GB/s (1e9 bytes), one copy or transfer counted once.

// One thread copies between two buffers of `bytes`, touched before.
double MemcpySpeed(size_t bytes, absl::Duration duration);

// How a connection on loopback is set: as the system has it, or with the options of a data channel
// whose ends are on one machine (SetLocalTcpOptions).
enum class LoopbackOptions { kOfSystem, kOfDataChannel };

// One thread sends messages of `bytes` over a TCP connection on loopback, another receives them
// into one buffer.
absl::StatusOr<double> LoopbackSpeed(size_t bytes, absl::Duration duration,
                                     LoopbackOptions options = LoopbackOptions::kOfSystem);

// One thread copies messages of `bytes` into a ring of 2 MiB that another copies them out of, 256
// KiB at a time.
double RingSpeed(size_t bytes, absl::Duration duration);

// One thread overwrites a file of 64 MiB in `folder`, which was written before, from front to back
// and over again, `bytes` at a time, each made durable by fdatasync: what a log of preallocated
// segments does. Unavailable: the file cannot be written.
absl::StatusOr<double> LogPatternSpeed(const std::string& folder, size_t bytes,
                                       absl::Duration duration);

// Two threads send a message of `bytes` to and fro over a TCP connection on loopback. Half of each
// round trip's time, in microseconds.
absl::StatusOr<std::vector<double>> LoopbackPingPong(size_t bytes, int round_trips);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_HARNESS_MACHINE_LIMITS_H_
