// Speed of pushes and pulls between processes on this machine, by every way that a task may reach
// its servers, beside the machine's own limits.
//
//   parameter_server_bench [--quick] [--json FILE] [--way WAY]
//
// For each way and payload a table of that size is opened on the servers. Workers push gradients of
// all of it (the servers sum them and run SGD at every clock), pull all of it into their arenas, or
// both. GB/s are 1e9 bytes of payload over all workers, with 4 and with 1 steps in flight; latency
// is the median step with 1 in flight. With 4 in flight the processor seconds that all servers and
// all workers took for 1e9 bytes are noted too (in the table their sum): other load on the machine
// changes them far less than the throughput. The lines "empty handler" leave out sum, optimizer and
// table. The last line is of a job with durability EVERY_PUSH, beside the log's own pattern of
// writes.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/rpc/memory_tuning.h"
#include "tests/benchmarks/harness/child_process.h"
#include "tests/benchmarks/harness/machine_limits.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/parameter_server/bench_server.h"
#include "tests/benchmarks/parameter_server/bench_worker.h"

namespace muster {
namespace {

constexpr char kBench[] = "parameter-server";
constexpr int kInFlight = 4;
const std::vector<std::string> kWays = {"shared_memory", "tcp", "grpc"};
// On servers of its own, when asked for: one has either.
constexpr char kTls[] = "tls";
constexpr char kCheckpoint[] = "checkpoint";
constexpr char kEveryPush[] = "every-push";
constexpr int64_t kSmallestBytes = 64;
const std::vector<int64_t> kPayloads = {64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
const std::vector<std::string> kOperations = {"push", "pull", "push-pull"};

struct Effort {
  int repetitions;
  double seconds;
};

std::string SizeName(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  return bytes < (1 << 20) ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes >> 20, " MiB");
}

// Processor time that processes have taken so far.
absl::StatusOr<double> ProcessorSeconds(
    const std::vector<std::unique_ptr<ChildProcess>>& processes) {
  double seconds = 0;
  for (const auto& process : processes) {
    clockid_t clock;
    timespec time;
    int error = clock_getcpuclockid(process->pid(), &clock);
    if (error == 0 && clock_gettime(clock, &time) != 0) error = errno;
    if (error != 0) {
      return absl::InternalError(
          absl::StrCat("processor time of process ", process->pid(), ": ", std::strerror(error)));
    }
    seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  return seconds;
}

// Servers and workers, each a process.
class Cluster {
 public:
  // Servers keep their state in memory where `data_dir` is empty.
  static absl::StatusOr<std::unique_ptr<Cluster>> Start(int size, const std::string& data_dir,
                                                        const std::string& way) {
    auto cluster = std::make_unique<Cluster>();
    for (int i = 0; i < size; ++i) {
      std::vector<std::string> words = {"--role=server"};
      if (way == kTls) words.push_back(absl::StrCat("--way=", way));
      if (!data_dir.empty()) words.push_back(absl::StrCat("--data-dir=", data_dir, "/", i));
      MUSTER_ASSIGN_OR_RETURN(auto server, ChildProcess::Start(words));
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

  absl::Status Open(const std::string& job, int64_t bytes, const std::string& way,
                    const std::string& durability) {
    std::vector<std::string> commands;
    for (int i = 0; i < size(); ++i) {
      // Of the empty handler there is only one job.
      const std::string name = job == kEmptyHandlerJob ? job : absl::StrCat(job, "-", i);
      commands.push_back(
          absl::StrCat("open ", name, " ", bytes, " ", way, " ", durability, addresses_));
    }
    return Ask(commands).status();
  }
  absl::Status Drop() { return Ask(std::vector<std::string>(size(), "drop")).status(); }

  struct Result {
    double gigabytes_per_second = 0;
    double latency_us = 0;
    // Processor seconds for 1e9 bytes, of all servers and all workers.
    double server_seconds = 0;
    double worker_seconds = 0;
  };
  absl::StatusOr<Result> Run(const std::string& operation, int in_flight, double seconds) {
    const std::string command = absl::StrCat("run ", operation, " ", in_flight, " ", seconds);
    MUSTER_ASSIGN_OR_RETURN(const double servers_before, ProcessorSeconds(servers_));
    MUSTER_ASSIGN_OR_RETURN(const double workers_before, ProcessorSeconds(workers_));
    MUSTER_ASSIGN_OR_RETURN(const auto answers, Ask(std::vector<std::string>(size(), command)));
    MUSTER_ASSIGN_OR_RETURN(const double servers_after, ProcessorSeconds(servers_));
    MUSTER_ASSIGN_OR_RETURN(const double workers_after, ProcessorSeconds(workers_));
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
    result.server_seconds = (servers_after - servers_before) / total * 1e9;
    result.worker_seconds = (workers_after - workers_before) / total * 1e9;
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
  std::cout << "limits of this machine, GB/s      memcpy   loopback socket   its options ours   "
               "shared ring\n";
  const absl::Duration duration = absl::Seconds(effort.seconds / 4);
  for (int64_t bytes : kPayloads) {
    BenchRecord copy = NewRecord("memcpy", bytes);
    BenchRecord loopback = NewRecord("loopback socket", bytes);
    BenchRecord tuned = NewRecord("loopback socket, our options", bytes);
    BenchRecord ring = NewRecord("shared ring", bytes);
    for (int i = 0; i < effort.repetitions; ++i) {
      copy.samples.push_back(MemcpySpeed(bytes, duration));
      MUSTER_ASSIGN_OR_RETURN(const double speed, LoopbackSpeed(bytes, duration));
      loopback.samples.push_back(speed);
      MUSTER_ASSIGN_OR_RETURN(const double tuned_speed,
                              LoopbackSpeed(bytes, duration, LoopbackOptions::kOfDataChannel));
      tuned.samples.push_back(tuned_speed);
      ring.samples.push_back(RingSpeed(bytes, duration));
    }
    std::cout << absl::StreamFormat("%30s %9.2f %17.2f %18.2f %13.2f\n", SizeName(bytes),
                                    Median(copy.samples), Median(loopback.samples),
                                    Median(tuned.samples), Median(ring.samples));
    for (BenchRecord* record : {&copy, &loopback, &tuned, &ring}) {
      records.push_back(std::move(*record));
    }
  }
  return absl::OkStatus();
}

// A line of the table.
struct Line {
  std::string system;
  std::string way;
  std::string durability;
  int64_t bytes;
  std::vector<std::string> operations;
};

absl::Status MeasureLine(Cluster& cluster, const Line& line, const Effort& effort,
                         std::vector<BenchRecord>& records) {
  const std::string job = line.system == "empty handler"
                              ? std::string(kEmptyHandlerJob)
                              : absl::StrCat("bench-", line.way, "-", line.bytes);
  MUSTER_RETURN_IF_ERROR(cluster.Open(job, line.bytes, line.way, line.durability));
  std::cout << absl::StreamFormat("%-14s %-13s %7s  %dx%d", line.system, line.way,
                                  SizeName(line.bytes), cluster.size(), cluster.size());
  for (const std::string& operation : line.operations) {
    BenchRecord throughput = NewRecord(line.system, line.bytes);
    throughput.parameters.insert(throughput.parameters.end(),
                                 {{"operation", operation},
                                  {"way", line.way},
                                  {"durability", line.durability},
                                  {"servers", int64_t{cluster.size()}},
                                  {"workers", int64_t{cluster.size()}}});
    BenchRecord single = throughput, latency = throughput;
    latency.metric = "latency";
    latency.unit = "us";
    throughput.parameters.emplace_back("in_flight", int64_t{kInFlight});
    single.parameters.emplace_back("in_flight", int64_t{1});
    latency.parameters.emplace_back("in_flight", int64_t{1});
    BenchRecord servers = throughput, workers = throughput;
    servers.metric = "server_processor_time";
    workers.metric = "worker_processor_time";
    servers.unit = workers.unit = "s/GB";
    MUSTER_RETURN_IF_ERROR(cluster.Run(operation, kInFlight, effort.seconds / 2).status());
    for (int i = 0; i < effort.repetitions; ++i) {
      MUSTER_ASSIGN_OR_RETURN(const auto fast, cluster.Run(operation, kInFlight, effort.seconds));
      throughput.samples.push_back(fast.gigabytes_per_second);
      servers.samples.push_back(fast.server_seconds);
      workers.samples.push_back(fast.worker_seconds);
      MUSTER_ASSIGN_OR_RETURN(const auto one, cluster.Run(operation, 1, effort.seconds / 2));
      single.samples.push_back(one.gigabytes_per_second);
      latency.samples.push_back(one.latency_us);
    }
    std::cout << absl::StreamFormat(" %7.2f %6.2f %7.0f %6.3f |", Median(throughput.samples),
                                    Median(single.samples), Median(latency.samples),
                                    Median(servers.samples) + Median(workers.samples));
    for (BenchRecord* record : {&throughput, &single, &latency, &servers, &workers}) {
      records.push_back(std::move(*record));
    }
  }
  std::cout << std::endl;
  return cluster.Drop();
}

// Pushes that are logged, and what the disk gives for the same writes.
absl::Status MeasureLogged(const std::string& way, const Effort& effort,
                           std::vector<BenchRecord>& records) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / absl::StrCat("muster-bench-", getpid());
  std::error_code error;
  std::filesystem::create_directories(folder / "0", error);
  if (error) return absl::UnavailableError(folder.string() + ": " + error.message());
  const absl::Cleanup remove = [&folder] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  };
  constexpr int64_t kBytes = 4 << 20;
  BenchRecord limit = NewRecord("log pattern", kBytes);
  for (int i = 0; i < effort.repetitions; ++i) {
    MUSTER_ASSIGN_OR_RETURN(const double speed, LogPatternSpeed(folder.string(), kBytes,
                                                                absl::Seconds(effort.seconds)));
    limit.samples.push_back(speed);
  }
  std::cout << absl::StreamFormat("%-14s %-13s %7s      %8.2f GB/s\n", "log pattern", "disk",
                                  SizeName(kBytes), Median(limit.samples));
  records.push_back(std::move(limit));
  MUSTER_ASSIGN_OR_RETURN(auto cluster, Cluster::Start(1, folder.string(), way));
  return MeasureLine(*cluster, {"every push", way, kEveryPush, kBytes, {"push"}}, effort, records);
}

absl::Status Measure(const Effort& effort, const std::string& only_way, bool quick,
                     std::vector<BenchRecord>& records) {
  std::cout << std::thread::hardware_concurrency() << " processors; " << kInFlight
            << " steps in flight, then 1, in GB/s; the median step with 1 in flight in us; "
               "processor time with "
            << kInFlight << " in flight in s/GB\n\n";
  MUSTER_RETURN_IF_ERROR(MeasureLimits(effort, records));
  std::cout << "\n                                             "
               "push (+SGD)                 |             pull              |           "
               "push-pull\n"
               "system         way           payload  SxW     x4     x1      us   s/GB |"
               "      x4     x1      us   s/GB |      x4     x1      us   s/GB |\n";
  std::vector<std::string> ways = kWays;
  if (!only_way.empty()) ways = {only_way};
  for (const int size : {1, 2}) {
    MUSTER_ASSIGN_OR_RETURN(auto cluster, Cluster::Start(size, "", only_way));
    for (const std::string& way : ways) {
      for (int64_t bytes : kPayloads) {
        if (size > 1 && quick && bytes != 4 << 20) continue;
        MUSTER_RETURN_IF_ERROR(MeasureLine(
            *cluster, {"muster", way, kCheckpoint, bytes, kOperations}, effort, records));
      }
      if (size > 1) continue;
      MUSTER_RETURN_IF_ERROR(MeasureLine(
          *cluster, {"muster", way, kCheckpoint, kSmallestBytes, {"pull"}}, effort, records));
      for (int64_t bytes : kPayloads) {
        if (quick && bytes != 4 << 20) continue;
        MUSTER_RETURN_IF_ERROR(
            MeasureLine(*cluster, {"empty handler", way, kCheckpoint, bytes, {"push", "pull"}},
                        effort, records));
      }
    }
  }
  return MeasureLogged(ways[0], effort, records);
}

int Main(const Effort& effort, const std::string& way, bool quick, const std::string& json) {
  std::vector<BenchRecord> records;
  absl::Status status = Measure(effort, way, quick, records);
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
  std::string json, role, data_dir, way;
  app.add_flag("--quick", quick, "Fewer and shorter repetitions: under 45 seconds.");
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  app.add_option("--way", way, "One way only: shared_memory, tcp, tls or grpc.")
      ->check(CLI::IsMember({"shared_memory", "tcp", muster::kTls, "grpc"}));
  // For the processes that the benchmark starts itself.
  app.add_option("--role", role)->group("");
  app.add_option("--data-dir", data_dir)->group("");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  if (role == "server") {
    return muster::RunBenchServer(data_dir, way == muster::kTls ? muster::ChannelSecurity::kTls
                                                                : muster::ChannelSecurity::kPlain);
  }
  if (role == "worker") return muster::RunBenchWorker();
  return muster::Main(quick ? muster::Effort{1, 0.12} : muster::Effort{5, 0.5}, way, quick, json);
}
