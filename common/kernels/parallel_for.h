#ifndef MUSTER_COMMON_KERNELS_PARALLEL_FOR_H_
#define MUSTER_COMMON_KERNELS_PARALLEL_FOR_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace muster {

// Calls body(begin, end) for the ranges [0, grain), [grain, 2 · grain), … of [0, n), the last one
// perhaps shorter, on up to ComputeThreads() (matmul.h) threads, the calling one among them, and
// returns when all are done. The threads are OpenMP's, which oneDNN computes on too: between two
// kernels none has to be woken.
//
// The ranges depend on n and grain alone, so what writes to places of its own, or to a partial sum
// per range, gives the same bits on any number of threads. Which thread takes a range is decided as
// they become free: ranges may differ in cost. A range should be worth some 10 µs; with one range
// the body runs on the calling thread, and so it does where the caller is itself inside a body.
//
// `body` must not throw and not block on other ranges. REQUIRES: grain >= 1. Thread-safe.
void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_PARALLEL_FOR_H_
