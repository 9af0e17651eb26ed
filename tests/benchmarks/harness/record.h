#ifndef MUSTER_TESTS_BENCHMARKS_HARNESS_RECORD_H_
#define MUSTER_TESTS_BENCHMARKS_HARNESS_RECORD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace muster {

// One measured figure of one case, the same form for all benchmarks:
//   {"bench", "case": {…parameters…}, "system", "metric", "unit", "median", "min", "max", "n"}
struct BenchRecord {
  using Value = std::variant<int64_t, double, std::string>;

  // Such as "parameter-server".
  std::string bench;
  // What was varied, in the order to print it.
  std::vector<std::pair<std::string, Value>> parameters;
  // "muster", or the name of a peer or of a limit of the machine.
  std::string system = "muster";
  // Such as "throughput" in "GB/s" (1e9 bytes) or "latency" in "us".
  std::string metric;
  std::string unit;
  // One per repetition; at least one.
  std::vector<double> samples;
};

// Of the samples; the mean of the two in the middle when their number is even. REQUIRES: not empty.
double Median(std::vector<double> samples);

// The records as a JSON array.
std::string RecordsJson(const std::vector<BenchRecord>& records);

// Writes RecordsJson to a file, in place of one that is there; `muster bench` asks before that.
// Errors are OutputFile's.
absl::Status WriteRecords(const std::string& path, const std::vector<BenchRecord>& records);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_HARNESS_RECORD_H_
