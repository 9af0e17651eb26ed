#ifndef MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_CASE_H_
#define MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// One size of message, as every system of the benchmark measures it.
struct CollectivesCase {
  int64_t bytes = 0;
  // Made before the clock starts.
  int warm_up_calls = 0;
  int calls = 0;
};

enum class CollectivesEffort {
  // Up to 64 MiB: at least 20 calls of sizes up to 4 MiB, 5 beyond.
  kQuick,
  // Up to 256 MiB, at least 20 calls each.
  kFull,
};

std::vector<CollectivesCase> CollectivesCases(CollectivesEffort effort);

// As a command line's word, such as "4096:3:100,65536:3:100".
std::string FormatCases(const std::vector<CollectivesCase>& cases);
// InvalidArgument: not such a word.
absl::StatusOr<std::vector<CollectivesCase>> ParseCases(const std::string& text);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_CASE_H_
