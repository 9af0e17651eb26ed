// Scale of one coordinator: what clusters of 10, 100 and 1,000 workers, and a server for ten of
// them, cost it, and how fast it answers them.
//
//   coordinator_bench [--quick] [--sizes 10,100,1000] [--processes 4] [--json FILE]
//
// The coordinator is a process of its own, with a data folder of its own. Daemons and tasks are
// simulated in a few further processes: they make all calls of real ones, over connections of their
// own, and train nothing. Each size runs through these parts:
//   idle          all daemons register, and keep their leases
//   gang          a job of as many slots as workers is submitted; its tasks leave the round, and
//                 meet again; a worker is replaced, and all meet again
//   gang reports  all of its tasks report progress, as often as the coordinator asks for
//   many jobs     a tenth as many jobs of 10 slots run and report, half by all-reduce, half with
//                 servers; half as many as workers wait
//   restart       the coordinator is killed, and started again
// On a machine with few cores all these processes compete, so the clock's figures are pessimistic,
// and processor time is told apart.

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/daemon/daemon.h"
#include "common/daemon/parse_flags.h"
#include "tests/benchmarks/coordinator/fleet_process.h"
#include "tests/benchmarks/coordinator/scale_case.h"
#include "tests/benchmarks/harness/record.h"

namespace muster {
namespace {

constexpr char kBench[] = "coordinator";
constexpr int kTargetWorkers = 1000;

using Figures = std::vector<ScaleFigure>;

// Prints a line for each figure, and a column for each size.
void Print(const std::vector<int>& sizes, const std::vector<Figures>& measured) {
  std::cout << absl::StreamFormat("%-14s%-48s%-12s", "part", "what", "unit");
  for (int workers : sizes) std::cout << absl::StreamFormat("%10d", workers);
  std::cout << "  at " << kTargetWorkers << ": below\n";
  for (size_t line = 0; line < measured.front().size(); ++line) {
    const ScaleFigure& first = measured.front()[line];
    std::cout << absl::StreamFormat("%-14s%-48s%-12s", first.part, first.metric, first.unit);
    for (const Figures& figures : measured) {
      std::cout << absl::StreamFormat("%10.4g", Median(figures[line].samples));
    }
    if (first.target.has_value()) std::cout << absl::StreamFormat("  %10.4g", *first.target);
    std::cout << "\n";
  }
  std::cout << std::flush;
}

std::vector<BenchRecord> RecordsOf(const ScaleOptions& options, const Figures& figures) {
  std::vector<BenchRecord> records;
  for (const ScaleFigure& figure : figures) {
    BenchRecord& record = records.emplace_back();
    record.bench = kBench;
    record.parameters = {{"workers", int64_t{options.workers}},
                         {"servers", int64_t{options.servers()}},
                         {"part", figure.part}};
    record.metric = figure.metric;
    record.unit = figure.unit;
    record.samples = figure.samples;
  }
  return records;
}

absl::Status Run(ScaleOptions options, const std::vector<int>& sizes, const std::string& json) {
  const char* parent = std::getenv("TMPDIR");
  std::string folder = absl::StrCat(parent != nullptr ? parent : "/tmp", "/muster-bench-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make a folder like ", folder));
  }
  const absl::Cleanup remove = [&] {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  };
  std::cout << std::thread::hardware_concurrency() << " processors; a coordinator, and "
            << options.processes << " processes that simulate the daemons" << std::endl;
  std::vector<Figures> measured;
  std::vector<BenchRecord> records;
  for (int workers : sizes) {
    options.workers = workers;
    options.folder = absl::StrCat(folder, "/", workers);
    std::filesystem::create_directory(options.folder);
    std::cout << workers << " workers …" << std::endl;
    absl::StatusOr<Figures> figures = MeasureScale(options);
    if (!figures.ok()) {
      return absl::Status(figures.status().code(),
                          absl::StrCat("with ", workers, " workers: ", figures.status().message()));
    }
    for (BenchRecord& record : RecordsOf(options, *figures)) records.push_back(std::move(record));
    measured.push_back(*std::move(figures));
  }
  Print(sizes, measured);
  return json.empty() ? absl::OkStatus() : WriteRecords(json, records);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::SkipDeadlockDetection();
  CLI::App app("Scale of one coordinator.");
  bool quick = false;
  std::string json, role;
  std::vector<int> sizes;
  muster::ScaleOptions options;
  double seconds = 0;
  app.add_flag("--quick", quick, "10 and 100 workers, for shorter times: under 45 seconds.");
  app.add_option("--sizes", sizes, "Numbers of workers (10,100,1000; with --quick 10,100).")
      ->delimiter(',')
      ->check(CLI::Range(2, 10000));
  app.add_option("--processes", options.processes, "Processes that simulate the daemons.")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  // For the test of this program, and for the processes that it starts itself.
  app.add_option("--seconds", seconds)->group("");
  app.add_option("--role", role)->group("");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  if (role == "fleet") muster::RunFleetProcess();
  muster::RaiseDescriptorLimit();
  if (sizes.empty()) sizes = quick ? std::vector<int>{10, 100} : std::vector<int>{10, 100, 1000};
  if (quick) {
    options.meetings = 1;
    options.window = absl::Seconds(2);
    options.answers_window = absl::Seconds(4);
  }
  if (seconds > 0) options.window = options.answers_window = absl::Seconds(seconds);
  const absl::Status status = muster::Run(options, sizes, json);
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "coordinator_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}
