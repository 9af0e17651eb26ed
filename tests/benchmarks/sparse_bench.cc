// Speed of pushes and pulls of a sparse table's rows between two processes on this machine, one
// server and one worker, beside the machine's own limits.
//
//   sparse_bench [--rows N] [--quick] [--json FILE]
//
// Rows of 64 floats; requests of 1e3, 1e4 and 1e5 keys, drawn uniformly or by a power law of
// exponent 1.2, each key once. Push: the server sums and runs SGD at every clock. Figures are
// millions of rows (distinct keys) per second with 4 requests in flight.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/rpc/memory_tuning.h"
#include "tests/benchmarks/harness/child_process.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/parameter_server/bench_server.h"
#include "tests/benchmarks/parameter_server/sparse_limits.h"
#include "tests/benchmarks/parameter_server/sparse_requests.h"
#include "tests/benchmarks/parameter_server/sparse_worker.h"

namespace muster {
namespace {

constexpr char kBench[] = "sparse";
constexpr int kInFlight = 4;
// One for each core of the machine that figures are for; each is a thread's work on the server.
constexpr int64_t kPartitions = 2;
constexpr int64_t kKeys[] = {1000, 10000, 100000};
constexpr KeyDistribution kDistributions[] = {KeyDistribution::kUniform,
                                              KeyDistribution::kPowerLaw};

struct Effort {
  uint64_t rows;
  int repetitions;
  double seconds;
};

BenchRecord NewRecord(const std::string& system, KeyDistribution distribution, int64_t keys,
                      const Effort& effort) {
  BenchRecord record;
  record.bench = kBench;
  record.system = system;
  record.parameters = {{"rows", static_cast<int64_t>(effort.rows)},
                       {"distribution", Name(distribution)},
                       {"keys", keys}};
  record.metric = "rows";
  record.unit = "M/s";
  return record;
}

void PrintRow(const std::string& name, KeyDistribution distribution,
              const std::vector<double>& figures) {
  std::cout << absl::StreamFormat("%-22s %-10s", name, Name(distribution));
  for (double figure : figures) std::cout << absl::StreamFormat(" %8.2f", figure);
  std::cout << std::endl;
}

void MeasureLimits(const Effort& effort, std::vector<BenchRecord>& records) {
  SparseLimits limits(effort.rows);
  for (const std::string what : {"gather", "scatter-add", "table pull", "table push"}) {
    for (KeyDistribution distribution : kDistributions) {
      std::vector<double> row;
      for (int64_t keys : kKeys) {
        BenchRecord record = NewRecord(what, distribution, keys, effort);
        for (int i = 0; i < effort.repetitions; ++i) {
          record.samples.push_back(
              1e-6 * limits.Measure(what, distribution, keys, absl::Seconds(effort.seconds / 4)));
        }
        row.push_back(Median(record.samples));
        records.push_back(std::move(record));
      }
      PrintRow(what, distribution, row);
    }
  }
}

absl::StatusOr<std::string> Ask(ChildProcess& worker, const std::string& command) {
  MUSTER_RETURN_IF_ERROR(worker.WriteLine(command));
  MUSTER_ASSIGN_OR_RETURN(std::string answer, worker.ReadLine());
  if (answer.rfind("error", 0) == 0) return absl::InternalError(answer);
  return answer;
}

absl::Status MeasureOperation(ChildProcess& worker, const std::string& way,
                              const std::string& operation, const Effort& effort,
                              std::vector<BenchRecord>& records) {
  for (KeyDistribution distribution : kDistributions) {
    std::vector<double> row;
    for (int64_t keys : kKeys) {
      BenchRecord rows = NewRecord("muster", distribution, keys, effort);
      rows.parameters.insert(rows.parameters.end(), {{"operation", operation},
                                                     {"way", way},
                                                     {"partitions", kPartitions},
                                                     {"in_flight", int64_t{kInFlight}}});
      BenchRecord latency = rows;
      latency.metric = "latency";
      latency.unit = "us";
      BenchRecord drawn = rows;
      drawn.metric = "keys";
      for (int i = 0; i < effort.repetitions; ++i) {
        MUSTER_ASSIGN_OR_RETURN(
            const std::string answer,
            Ask(worker, absl::StrCat("run ", operation, " ", Name(distribution), " ", effort.rows,
                                     " ", keys, " ", kInFlight, " ", effort.seconds)));
        double moved, all, seconds, microseconds;
        std::istringstream(answer) >> moved >> all >> seconds >> microseconds;
        rows.samples.push_back(1e-6 * moved / seconds);
        drawn.samples.push_back(1e-6 * all / seconds);
        latency.samples.push_back(microseconds);
      }
      row.push_back(Median(rows.samples));
      records.insert(records.end(), {rows, drawn, latency});
    }
    PrintRow(absl::StrCat(operation, ", ", way), distribution, row);
  }
  return absl::OkStatus();
}

absl::Status MeasureWay(const std::string& way, const Effort& effort,
                        std::vector<BenchRecord>& records) {
  MUSTER_ASSIGN_OR_RETURN(auto server, ChildProcess::Start({"--role=server"}));
  MUSTER_ASSIGN_OR_RETURN(const std::string address, server->ReadLine());
  MUSTER_ASSIGN_OR_RETURN(auto worker, ChildProcess::Start({"--role=worker"}));
  MUSTER_RETURN_IF_ERROR(
      Ask(*worker, absl::StrCat("open ", way, " ", kPartitions, " ", address)).status());
  MUSTER_RETURN_IF_ERROR(Ask(*worker, absl::StrCat("fill ", effort.rows)).status());
  for (const std::string operation : {"push", "pull"}) {
    MUSTER_RETURN_IF_ERROR(MeasureOperation(*worker, way, operation, effort, records));
  }
  return Ask(*worker, "drop").status();
}

absl::Status Measure(const Effort& effort, std::vector<BenchRecord>& records) {
  std::cout << std::thread::hardware_concurrency() << " processors; " << effort.rows
            << " rows of 64 floats; M rows/s; limits and tables: one thread in this process; "
               "the rest: 1 server, 1 worker, "
            << kInFlight << " requests in flight\n\n"
            << "                       keys a request:     1e3      1e4      1e5\n";
  MeasureLimits(effort, records);
  for (const std::string way : {"shared_memory", "tcp", "grpc"}) {
    MUSTER_RETURN_IF_ERROR(MeasureWay(way, effort, records));
  }
  return absl::OkStatus();
}

int Main(const Effort& effort, const std::string& json) {
  std::vector<BenchRecord> records;
  absl::Status status = Measure(effort, records);
  if (status.ok() && !json.empty()) status = WriteRecords(json, records);
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "sparse_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  muster::SkipDeadlockDetection();
  CLI::App app("Speed of pushes and pulls of rows.");
  bool quick = false;
  uint64_t rows = 0;
  std::string json, role;
  app.add_flag("--quick", quick,
               "A million rows, fewer and shorter repetitions: under 45 seconds.");
  app.add_option("--rows", rows, "Rows of the table (10,000,000; with --quick 1,000,000).")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  // For the test of this program, and for the processes that it starts itself.
  double seconds = 0;
  app.add_option("--seconds", seconds)->group("");
  app.add_option("--role", role)->group("");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  if (role == "server") return muster::RunBenchServer("", muster::ChannelSecurity::kPlain);
  if (role == "worker") return muster::RunSparseWorker();
  muster::Effort effort =
      quick ? muster::Effort{1000000, 3, 0.2} : muster::Effort{10000000, 5, 0.5};
  if (rows > 0) effort.rows = rows;
  if (seconds > 0) effort.seconds = seconds;
  return muster::Main(effort, json);
}
