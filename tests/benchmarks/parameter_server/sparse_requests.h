#ifndef MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_REQUESTS_H_
#define MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_REQUESTS_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// Floats of a row.
inline constexpr uint32_t kSparseDim = 64;

// How keys are drawn from [0, rows).
enum class KeyDistribution {
  kUniform,
  // The k-th most frequent key's share goes with k^-1.2; frequent keys lie anywhere.
  kPowerLaw,
};

std::string Name(KeyDistribution distribution);
absl::StatusOr<KeyDistribution> ParseKeyDistribution(const std::string& name);

// Request `number` of a run: `keys` draws, each key once, in order of first appearance, as a batch
// of examples asks for rows. A pure function of its arguments.
std::vector<uint64_t> DrawRequest(KeyDistribution distribution, uint64_t rows, int64_t keys,
                                  uint64_t number);

// The requests of a run, which go round: together they name far more rows than caches hold, or most
// of them where there are few. Keeps the last, for repetitions. Not thread-safe.
class RequestSource {
 public:
  // Valid until the next call.
  const std::vector<std::vector<uint64_t>>& Draw(KeyDistribution distribution, uint64_t rows,
                                                 int64_t keys);

 private:
  std::tuple<KeyDistribution, uint64_t, int64_t> drawn_for_;
  std::vector<std::vector<uint64_t>> requests_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_PARAMETER_SERVER_SPARSE_REQUESTS_H_
