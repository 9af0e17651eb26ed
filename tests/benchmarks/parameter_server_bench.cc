// Speed of pushes and pulls between processes on this machine, over TCP, beside the machine's own
// limits.
//
//   parameter_server_bench [--quick] [--json FILE]
//
// For each payload a table of that size is opened on the servers. Workers push gradients of all of
// it (the servers sum them and run SGD at every clock), pull all of it into their arenas, or both.
// GB/s are 1e9 bytes of payload over all workers, with 4 steps in flight; latency is the median
// step with 1 in flight.

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
#include "common/rpc/memory_tuning.h"
#include "tests/benchmarks/bench_server.h"
#include "tests/benchmarks/bench_worker.h"
#include "tests/benchmarks/child_process.h"
#include "tests/benchmarks/machine_limits.h"
#include "tests/benchmarks/record.h"

namespace muster {
namespace {

constexpr char kBench[] = "parameter-server";
constexpr int kInFlight = 4;
const std::vector<int64_t> kPayloads = {64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
const std::vector<std::string> kOperations = {"push", "pull", "push-pull"};

struct Effort {
  int repetitions;
  double seconds;
};

std::string SizeName(int64_t bytes) {
  return bytes < (1 << 20) ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes >> 20, " MiB");
}

// Servers and workers, each a process.
class Cluster {
 public:
  static absl::StatusOr<std::unique_ptr<Cluster>> Start(int size) {
    auto cluster = std::make_unique<Cluster>();
    for (int i = 0; i < size; ++i) {
      MUSTER_ASSIGN_OR_RETURN(auto server, ChildProcess::Start({"--role=server"}));
      MUSTER_ASSIGN_OR_RETURN(const std::string address, server->ReadLine());
      cluster->addresses_ += " " + address;
      cluster->servers_.push_back(std::move(server));
    }
    for (int i = 0; i < size; ++i) {
      MUSTER_ASSIGN_OR_RETURN(auto worker, ChildProcess::Start({"--role=worker"}));
      cluster->workers_.push_back(std::move(worker));
    }
    return cluster;
  }

  int size() const { return workers_.size(); }

  absl::Status Open(const std::string& job, int64_t bytes) {
    std::vector<std::string> commands;
    for (int i = 0; i < size(); ++i) {
      // Of the empty handler there is only one job.
      const std::string name = job == kEmptyHandlerJob ? job : absl::StrCat(job, "-", i);
      commands.push_back(absl::StrCat("open ", name, " ", bytes, addresses_));
    }
    return Ask(commands).status();
  }
  absl::Status Drop() { return Ask(std::vector<std::string>(size(), "drop")).status(); }

  struct Result {
    double gigabytes_per_second = 0;
    double latency_us = 0;
  };
  absl::StatusOr<Result> Run(const std::string& operation, int in_flight, double seconds) {
    const std::string command = absl::StrCat("run ", operation, " ", in_flight, " ", seconds);
    MUSTER_ASSIGN_OR_RETURN(const auto answers, Ask(std::vector<std::string>(size(), command)));
    Result result;
    double total = 0, longest = 0;
    for (const std::string& answer : answers) {
      double bytes, elapsed, latency;
      std::istringstream(answer) >> bytes >> elapsed >> latency;
      total += bytes;
      longest = std::max(longest, elapsed);
      result.latency_us = std::max(result.latency_us, latency);
    }
    result.gigabytes_per_second = total / longest / 1e9;
    return result;
  }

 private:
  // All workers at once.
  absl::StatusOr<std::vector<std::string>> Ask(const std::vector<std::string>& commands) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      MUSTER_RETURN_IF_ERROR(workers_[i]->WriteLine(commands[i]));
    }
    std::vector<std::string> answers;
    for (auto& worker : workers_) {
      MUSTER_ASSIGN_OR_RETURN(std::string answer, worker->ReadLine());
      if (answer.rfind("error", 0) == 0) return absl::InternalError(answer);
      answers.push_back(std::move(answer));
    }
    return answers;
  }

  std::string addresses_;
  // Workers end first.
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<std::unique_ptr<ChildProcess>> workers_;
};

BenchRecord NewRecord(const std::string& system, int64_t bytes) {
  BenchRecord record;
  record.bench = kBench;
  record.system = system;
  record.parameters = {{"payload_bytes", bytes}};
  record.metric = "throughput";
  record.unit = "GB/s";
  return record;
}

absl::Status MeasureLimits(const Effort& effort, std::vector<BenchRecord>& records) {
  std::cout << "limits of this machine, GB/s      memcpy   loopback socket\n";
  for (int64_t bytes : kPayloads) {
    BenchRecord copy = NewRecord("memcpy", bytes);
    BenchRecord loopback = NewRecord("loopback socket", bytes);
    for (int i = 0; i < effort.repetitions; ++i) {
      copy.samples.push_back(MemcpySpeed(bytes, absl::Seconds(effort.seconds / 4)));
      MUSTER_ASSIGN_OR_RETURN(const double speed,
                              LoopbackSpeed(bytes, absl::Seconds(effort.seconds / 4)));
      loopback.samples.push_back(speed);
    }
    std::cout << absl::StreamFormat("%30s %9.2f %17.2f\n", SizeName(bytes), Median(copy.samples),
                                    Median(loopback.samples));
    records.push_back(std::move(copy));
    records.push_back(std::move(loopback));
  }
  return absl::OkStatus();
}

// One line of the table: all operations on one payload.
absl::Status MeasurePayload(Cluster& cluster, const std::string& system, int64_t bytes,
                            const Effort& effort, std::vector<BenchRecord>& records) {
  const bool empty = system != "muster";
  MUSTER_RETURN_IF_ERROR(
      cluster.Open(empty ? kEmptyHandlerJob : absl::StrCat("bench-", bytes), bytes));
  std::cout << absl::StreamFormat("%-16s %9s   %ds/%dw", system, SizeName(bytes), cluster.size(),
                                  cluster.size());
  for (const std::string& operation : kOperations) {
    BenchRecord throughput = NewRecord(system, bytes);
    throughput.parameters.insert(throughput.parameters.end(),
                                 {{"operation", operation},
                                  {"servers", int64_t{cluster.size()}},
                                  {"workers", int64_t{cluster.size()}}});
    BenchRecord latency = throughput;
    latency.metric = "latency";
    latency.unit = "us";
    throughput.parameters.emplace_back("in_flight", int64_t{kInFlight});
    latency.parameters.emplace_back("in_flight", int64_t{1});
    MUSTER_RETURN_IF_ERROR(cluster.Run(operation, kInFlight, effort.seconds / 2).status());
    for (int i = 0; i < effort.repetitions; ++i) {
      MUSTER_ASSIGN_OR_RETURN(const auto fast, cluster.Run(operation, kInFlight, effort.seconds));
      throughput.samples.push_back(fast.gigabytes_per_second);
      MUSTER_ASSIGN_OR_RETURN(const auto single, cluster.Run(operation, 1, effort.seconds / 4));
      latency.samples.push_back(single.latency_us);
    }
    std::cout << absl::StreamFormat("  %6.2f %8.0f", Median(throughput.samples),
                                    Median(latency.samples));
    records.push_back(std::move(throughput));
    records.push_back(std::move(latency));
  }
  std::cout << std::endl;
  return cluster.Drop();
}

absl::Status Measure(const Effort& effort, std::vector<BenchRecord>& records) {
  std::cout << std::thread::hardware_concurrency() << " processors; TCP on loopback; " << kInFlight
            << " steps in flight for GB/s, 1 for latency (median step)\n\n";
  MUSTER_RETURN_IF_ERROR(MeasureLimits(effort, records));
  std::cout << "\n                                         push (+SGD)         pull             "
               "push-pull\n"
               "system             payload           GB/s       us     GB/s       us     GB/s"
               "       us\n";
  for (int size : {1, 2}) {
    MUSTER_ASSIGN_OR_RETURN(auto cluster, Cluster::Start(size));
    for (int64_t bytes : kPayloads) {
      MUSTER_RETURN_IF_ERROR(MeasurePayload(*cluster, "muster", bytes, effort, records));
    }
    if (size > 1) continue;
    for (int64_t bytes : kPayloads) {
      MUSTER_RETURN_IF_ERROR(MeasurePayload(*cluster, "empty handler", bytes, effort, records));
    }
  }
  return absl::OkStatus();
}

int Main(const Effort& effort, const std::string& json) {
  std::vector<BenchRecord> records;
  absl::Status status = Measure(effort, records);
  if (status.ok() && !json.empty()) status = WriteRecords(json, records);
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "parameter_server_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::KeepMessageMemory();
  muster::SkipDeadlockDetection();
  CLI::App app("Speed of a parameter server's pushes and pulls.");
  bool quick = false;
  std::string json, role;
  app.add_flag("--quick", quick, "Fewer and shorter repetitions: under 45 seconds.");
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  // For the processes that the benchmark starts itself.
  app.add_option("--role", role)->group("");
  CLI11_PARSE(app, argc, argv);
  if (role == "server") return muster::RunBenchServer();
  if (role == "worker") return muster::RunBenchWorker();
  return muster::Main(quick ? muster::Effort{3, 0.08} : muster::Effort{7, 0.5}, json);
}
