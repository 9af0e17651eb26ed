// Speed of f32 sum all-reduce between processes of this machine, over every host transport, beside
// the same by OpenMPI and Gloo and beside the machine's own limits, all in one run.
//
//   collectives_bench [--quick] [--no-peers] [--transports tcp,tls] [--connections 4] [--json FILE]
//
// In place; every sum is verified. Figures are medians over the calls (collectives_rank.h says what
// is measured). The peers are the programs in peers/, where they have been built.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "tests/benchmarks/collectives/collectives_case.h"
#include "tests/benchmarks/collectives/collectives_groups.h"
#include "tests/benchmarks/collectives/collectives_member.h"
#include "tests/benchmarks/collectives/collectives_table.h"
#include "tests/benchmarks/harness/machine_limits.h"
#include "tests/benchmarks/harness/record.h"
#include "worker/collectives/endpoint.h"

namespace muster {
namespace {

constexpr char kGlooClassic[] = "ring,ring-chunked,halving-doubling,bcube";
// With the newer function, which takes half a second a call, or does not end, when ranks share
// cores.
constexpr char kGlooAll[] = "ring,ring-chunked,halving-doubling,bcube,allreduce";

struct BenchOptions {
  bool quick = false;
  bool no_peers = false;
  // Empty: the usual ones.
  std::vector<int> worlds;
  // Muster's; empty: all.
  std::vector<std::string> transports;
  // Of Muster's TCP and TLS, per pair of ranks.
  int connections = 1;
  int64_t max_bytes = 0;
};

using Rows = absl::StatusOr<std::vector<CollectivesRow>>;

class CollectivesBench {
 public:
  explicit CollectivesBench(const BenchOptions& options)
      : options_(options), cases_(Cases(options)), table_(cases_, std::cout) {
    if (options_.worlds.empty()) options_.worlds = {2, 4};
    if (options_.transports.empty()) options_.transports = {"shared-memory", "tcp", "tls"};
    if (options.worlds.empty() && !options.quick) options_.worlds.push_back(8);
  }

  absl::Status Run() {
    std::cout << std::thread::hardware_concurrency()
              << " processors; all-reduce of f32 sums in place, processes on this machine\n"
                 "us: median latency; GB/s: bytes / median latency, and that times 2(W-1)/W\n";
    MUSTER_RETURN_IF_ERROR(MeasureLimits());
    for (const int world : options_.worlds) MUSTER_RETURN_IF_ERROR(MeasureWorld(world));
    return absl::OkStatus();
  }

  const std::vector<BenchRecord>& records() const { return records_; }

 private:
  static std::vector<CollectivesCase> Cases(const BenchOptions& options) {
    auto cases =
        CollectivesCases(options.quick ? CollectivesEffort::kQuick : CollectivesEffort::kFull);
    const auto too_large = [&options](const CollectivesCase& one) {
      return options.max_bytes > 0 && one.bytes > options.max_bytes;
    };
    cases.erase(std::remove_if(cases.begin(), cases.end(), too_large), cases.end());
    return cases;
  }

  // Returns the median.
  double RecordLimit(const std::string& system, int64_t bytes, const std::string& metric,
                     std::vector<double> samples) {
    BenchRecord record;
    record.bench = "collectives";
    record.parameters = {{"payload_bytes", bytes}};
    record.system = system;
    record.metric = metric;
    record.unit = metric == "latency" ? "us" : "GB/s";
    record.samples = std::move(samples);
    records_.push_back(std::move(record));
    return Median(records_.back().samples);
  }

  absl::Status MeasureLimits() {
    std::map<int64_t, double> copy_us, copy_speed, socket_us, socket_speed;
    const absl::Duration duration = absl::Milliseconds(options_.quick ? 15 : 100);
    for (const CollectivesCase& one : cases_) {
      std::vector<double> times, copies, streams;
      for (int i = 0; i < (options_.quick ? 3 : 5); ++i) {
        copies.push_back(MemcpySpeed(one.bytes, duration));
        times.push_back(one.bytes / copies.back() / 1e3);
        MUSTER_ASSIGN_OR_RETURN(const double stream, LoopbackSpeed(one.bytes, duration));
        streams.push_back(stream);
      }
      if (CollectivesTable::ShowsLatency(one.bytes)) {
        copy_us[one.bytes] = RecordLimit("memcpy", one.bytes, "latency", times);
        MUSTER_ASSIGN_OR_RETURN(auto halves, LoopbackPingPong(one.bytes, one.calls));
        socket_us[one.bytes] =
            RecordLimit("loopback socket", one.bytes, "latency", std::move(halves));
      }
      if (CollectivesTable::ShowsBandwidth(one.bytes)) {
        copy_speed[one.bytes] = RecordLimit("memcpy", one.bytes, "throughput", copies);
        socket_speed[one.bytes] = RecordLimit("loopback socket", one.bytes, "throughput", streams);
      }
    }
    table_.PrintHead("limits of this machine");
    table_.PrintLimit("memcpy, one thread", copy_us, copy_speed);
    table_.PrintLimit("loopback ping-pong / 2, stream", socket_us, socket_speed);
    return absl::OkStatus();
  }

  absl::Status MeasureWorld(int world) {
    table_.PrintHead(absl::StrCat("world ", world));
    std::vector<CollectivesRow> own, peers, tcp_peers;
    for (const std::string& transport : options_.transports) {
      Rows rows = RunMusterGroup(world, transport, options_.connections, cases_);
      if (!rows.ok()) {
        return absl::Status(rows.status().code(), absl::StrCat("world ", world, ", ", transport,
                                                               ": ", rows.status().message()));
      }
      Take(*rows, own);
    }
    if (options_.no_peers) {
      PrintCosts(own);
      return absl::OkStatus();
    }
    const std::filesystem::path folder =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "peers";
    for (const char* transport : {"shared-memory", "tcp"}) {
      TakePeer("OpenMPI", RunOpenMpiGroup(folder / "openmpi_rank", world, transport, cases_),
               peers);
    }
    const char* algorithms = options_.quick || world > 2 ? kGlooClassic : kGlooAll;
    TakePeer("Gloo", RunGlooGroup(folder / "gloo_rank", world, algorithms, cases_), peers);
    for (const CollectivesRow& row : peers) {
      if (row.transport == "tcp") tcp_peers.push_back(row);
    }
    PrintComparison(own, peers, tcp_peers);
    own.insert(own.end(), peers.begin(), peers.end());
    PrintCosts(own);
    return absl::OkStatus();
  }

  void Take(const std::vector<CollectivesRow>& rows, std::vector<CollectivesRow>& all) {
    for (const CollectivesRow& row : rows) {
      table_.PrintRow(row);
      for (BenchRecord& record : CollectivesRecords(row)) records_.push_back(std::move(record));
      all.push_back(row);
    }
  }

  // The benchmark goes on without a peer that cannot run.
  void TakePeer(const std::string& name, const Rows& rows, std::vector<CollectivesRow>& all) {
    if (rows.ok()) {
      Take(*rows, all);
      return;
    }
    std::cout << name << " is left out: " << rows.status().message();
    if (absl::IsNotFound(rows.status())) {
      std::cout << "; `./muster bench collectives` installs and builds it";
    }
    std::cout << std::endl;
  }

  void PrintComparison(const std::vector<CollectivesRow>& own,
                       const std::vector<CollectivesRow>& peers,
                       const std::vector<CollectivesRow>& tcp_peers) {
    std::cout << "times as fast as the best peer\n";
    for (const CollectivesRow& row : own) {
      if (row.transport == "shared-memory") {
        table_.PrintRatios(row.memory == "user" ? "  shared-memory" : "  shared-memory, buffers",
                           TimesAsFast(row, peers));
      } else {
        table_.PrintRatios(absl::StrCat("  ", row.transport, ", peers' tcp only"),
                           TimesAsFast(row, tcp_peers));
      }
    }
  }

  void PrintCosts(const std::vector<CollectivesRow>& rows) {
    std::cout
        << "cost of a call, all ranks together: processor time, times a thread went to sleep\n";
    for (const CollectivesRow& row : rows) table_.PrintCosts(row);
  }

  BenchOptions options_;
  const std::vector<CollectivesCase> cases_;
  CollectivesTable table_;
  std::vector<BenchRecord> records_;
};

int Main(const BenchOptions& options, const std::string& json) {
  // A process that has ended is an error to report, not to die from.
  signal(SIGPIPE, SIG_IGN);
  CollectivesBench bench(options);
  absl::Status status = bench.Run();
  if (status.ok() && !json.empty()) status = WriteRecords(json, bench.records());
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "collectives_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::SkipDeadlockDetection();
  CLI::App app("Speed of all-reduce between processes, beside OpenMPI and Gloo.");
  muster::BenchOptions options;
  std::string json, role, transport, cases;
  app.add_flag("--quick", options.quick,
               "Fewer calls and sizes, worlds 2 and 4: under 45 seconds.");
  app.add_flag("--no-peers", options.no_peers, "Without OpenMPI and Gloo.");
  app.add_option("--worlds", options.worlds, "Numbers of processes, such as 2,4.")
      ->delimiter(',')
      ->check(CLI::IsMember({2, 4, 8, 16}));
  app.add_option("--transports", options.transports, "Of shared-memory, tcp and tls; default: all.")
      ->delimiter(',')
      ->check(CLI::IsMember({"shared-memory", "tcp", "tls"}));
  app.add_option("--connections", options.connections,
                 "Over which a pair of ranks moves its data by tcp and tls.")
      ->check(CLI::Range(1, muster::kMaxDataConnections))
      ->capture_default_str();
  app.add_option("--max-bytes", options.max_bytes, "Leave out larger messages.")
      ->check(CLI::Range(int64_t{4} << 10, int64_t{1} << 30));
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  // For the processes that the benchmark starts itself.
  app.add_option("--role", role)->group("");
  app.add_option("--transport", transport)->group("");
  app.add_option("--cases", cases)->group("");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  if (role == "member") {
    return muster::RunCollectivesMember(transport, options.connections, cases);
  }
  return muster::Main(options, json);
}
