#ifndef MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_TABLE_H_
#define MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_TABLE_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/benchmarks/collectives/collectives_case.h"
#include "tests/benchmarks/harness/record.h"

namespace muster {

// What one system reached in one world: a line of the table.
struct CollectivesRow {
  // "muster", "openmpi", or "gloo " with its algorithm.
  std::string system;
  // "shared-memory", "tcp" or "tls"; over 4 connections per pair of ranks "tcp x 4".
  std::string transport;
  // "user", or "communicator" for memory of the communicator's own.
  std::string memory;
  int world = 0;
  // Of each call, by the message's bytes.
  std::map<int64_t, std::vector<double>> microseconds;
  // Of one call, all ranks together, by the message's bytes.
  struct Cost {
    double processor_us = 0;
    double switches = 0;
  };
  std::map<int64_t, Cost> costs;
};

// For every size the latency in us, and in GB/s (1e9 bytes) the algorithm bandwidth, bytes / time,
// and the bus bandwidth, that times 2(W-1)/W: what a ring moves over each rank's link. Where costs
// are known, "processor time" and "context switches" of one call, all ranks together.
std::vector<BenchRecord> CollectivesRecords(const CollectivesRow& row);

// How many times as fast as the fastest of `others` the row is, by the message's bytes; sizes that
// none of them has are left out.
std::map<int64_t, double> TimesAsFast(const CollectivesRow& row,
                                      const std::vector<CollectivesRow>& others);

// Lines of the table: latencies of up to 1 MiB, bandwidths (algorithm / bus) from there on.
class CollectivesTable {
 public:
  CollectivesTable(std::vector<CollectivesCase> cases, std::ostream& out);

  void PrintHead(const std::string& title);
  void PrintRow(const CollectivesRow& row);
  // Of limits of the machine, in us or GB/s by bytes.
  void PrintLimit(const std::string& name, const std::map<int64_t, double>& microseconds,
                  const std::map<int64_t, double>& gigabytes_per_second);
  // What the row's calls cost: processor time / voluntary context switches, of all ranks together.
  void PrintCosts(const CollectivesRow& row);
  void PrintRatios(const std::string& name, const std::map<int64_t, double>& ratios);

  static bool ShowsLatency(int64_t bytes) { return bytes <= 1 << 20; }
  static bool ShowsBandwidth(int64_t bytes) { return bytes >= 1 << 20; }

 private:
  const std::vector<CollectivesCase> cases_;
  std::ostream& out_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COLLECTIVES_COLLECTIVES_TABLE_H_
