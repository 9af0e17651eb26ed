#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_LIMITS_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_LIMITS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "tests/benchmarks/parameter_server/sparse_requests.h"

namespace muster {

// What one thread of this machine can do with rows in memory, to put figures of the same run
// beside, by the thread's processor time. Not thread-safe.
class SparseLimits {
 public:
  // Makes a table of `rows` rows and the same rows as a plain array.
  explicit SparseLimits(uint64_t rows);
  ~SparseLimits();

  // Runs for about `duration` and returns rows per second. Requests of `keys` keys, drawn before.
  // "gather", "scatter-add": rows copied from, or changed in, the array at known places, with
  // prefetch. "table pull", "table push": the server's table in this process, keys looked up, push
  // with SGD.
  double Measure(const std::string& what, KeyDistribution distribution, int64_t keys,
                 absl::Duration duration);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_LIMITS_H_
