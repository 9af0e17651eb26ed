// Training in one process: tokens or samples a second of forward, backward and optimizer, beside
// PyTorch on the same models and batches and beside the machine's matrix products, all in one run.
//
//   train_bench [--quick] [--no-peers] [--threads N] [--cases a,b] [--daemons TEXT] [--json FILE]
//
// Each figure is the median over the steps of some seconds, after warm-up. The share of the peak is
// what the model's products and attention would take at the best rate that a large product reached
// in this run, in the case's type. PyTorch is the program peers/torch_train, where that has been
// built and finds its library.
//
// Then some of the models by real daemons on this machine, beside one process with as many threads
// as the workers have together: two workers on either road, and rows on a server. Both run by
// turns, some seconds each, since a machine that others use too is slower in one minute than in the
// next: the share is that of all turns together, and beside it the least and the largest of one
// turn to the one process right before and after. Daemons tell what they did in all, slow steps
// included; so here the one process counts with all of its steps, too.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/mutex_tuning.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/kernels/gemm/gemm.h"
#include "tests/benchmarks/harness/child_process.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/train_case.h"
#include "tests/benchmarks/train_daemons.h"
#include "tests/benchmarks/train_stepper.h"

namespace muster {
namespace {

struct BenchOptions {
  bool quick = false;
  bool no_peers = false;
  bool no_daemons = false;
  int threads = 2;
  // Names; empty: all.
  std::vector<std::string> cases;
  // Part of the names of those by daemons; empty: all.
  std::string daemons;
};

constexpr int kBatches = 4;
constexpr int kWarmUpSteps = 3;
constexpr int kLeastSteps = 3;
// As many, each between turns of one process, half a figure's time long.
constexpr int kDaemonTurns = 4;

// Items a second over steps of these rates, each of as many items.
double OverAll(const std::vector<double>& rates) {
  double seconds_per_item = 0;
  for (const double rate : rates) seconds_per_item += 1 / rate;
  return static_cast<double>(rates.size()) / seconds_per_item;
}

// GFLOP/s of square products of T, one sample each.
template <typename T>
std::vector<double> ProductSpeed(absl::Duration duration) {
  constexpr int64_t kExtent = 1536;
  std::vector<T> a(kExtent * kExtent), b(kExtent * kExtent);
  std::vector<float> c(kExtent * kExtent);
  for (auto* values : {&a, &b}) {
    for (size_t i = 0; i < values->size(); ++i) {
      const float value = static_cast<float>(i % 13) / 13 - 0.5f;
      if constexpr (std::is_same_v<T, float>) {
        (*values)[i] = value;
      } else {
        (*values)[i] = ToBFloat16(value);
      }
    }
  }
  std::vector<double> speeds;
  const absl::Time start = absl::Now();
  for (int i = 0; i < 5 || absl::Now() - start < duration; ++i) {
    const absl::Time begin = absl::Now();
    Gemm<T, float>(kExtent, kExtent, kExtent, a.data(), b.data(), c.data(),
                   {.transpose_b = Transpose::kYes});
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    if (i >= 2) speeds.push_back(2.0 * kExtent * kExtent * kExtent / seconds / 1e9);
  }
  return speeds;
}

class TrainBench {
 public:
  explicit TrainBench(const BenchOptions& options)
      : options_(options), duration_(absl::Seconds(options.quick ? 2 : 8)) {}

  absl::Status Run() {
    MUSTER_RETURN_IF_ERROR(CheckDaemons());
    SetComputeThreads(options_.threads);
    absl::PrintF("training in one process on %d threads; items/s: median over steps\n",
                 options_.threads);
    MeasurePeak("f32", ProductSpeed<float>(duration_ / 4));
    MeasurePeak("bf16", ProductSpeed<BFloat16>(duration_ / 4));
    absl::PrintF("%-12s %-5s %14s %10s %14s %8s\n", "case", "type", "muster", "of peak", "pytorch",
                 "times");
    for (const TrainCase& one : TrainCases()) {
      const auto& wanted = options_.cases;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), one.name) == wanted.end()) {
        continue;
      }
      MUSTER_RETURN_IF_ERROR(MeasureCase(one));
    }
    return options_.no_daemons ? absl::OkStatus() : MeasureDaemons();
  }

  const std::vector<BenchRecord>& records() const { return records_; }

 private:
  // What would be found only after minutes.
  absl::Status CheckDaemons() const {
    std::string names;
    for (const DaemonCase& one : DaemonCases("", DaemonSteps::kQuick)) {
      if (absl::StrContains(one.name, options_.daemons)) return absl::OkStatus();
      absl::StrAppend(&names, names.empty() ? "" : ", ", one.name);
    }
    return absl::InvalidArgumentError(absl::StrCat("no case by daemons has \"", options_.daemons,
                                                   "\" in its name; there are ", names));
  }

  void MeasurePeak(const std::string& type, std::vector<double> samples) {
    BenchRecord record;
    record.bench = "train";
    record.parameters = {{"type", type}, {"threads", int64_t{options_.threads}}};
    record.system = "matrix product";
    record.metric = "compute";
    record.unit = "GFLOP/s";
    record.samples = std::move(samples);
    // The best is the limit.
    peak_[type] = *std::max_element(record.samples.begin(), record.samples.end());
    absl::PrintF("%s products: %.0f GFLOP/s at best\n", type, peak_[type]);
    records_.push_back(std::move(record));
  }

  absl::Status MeasureCase(const TrainCase& one) {
    MUSTER_ASSIGN_OR_RETURN(std::vector<double> own, MeasureOwn(one, duration_));
    const double rate = Record(one, "muster", std::move(own));
    const double share = rate * one.flops_per_item / 1e9 / peak_[one.type];
    BenchRecord record;
    record.bench = "train";
    record.parameters = ParametersOf(one);
    record.metric = "share of matrix peak";
    record.unit = "1";
    record.samples = {share};
    records_.push_back(std::move(record));
    absl::PrintF("%-12s %-5s %8.0f %s/s %4.0f %%", one.name, one.type, rate, one.unit.substr(0, 3),
                 100 * share);
    std::cout << std::flush;
    if (!options_.no_peers) {
      const absl::StatusOr<TorchFigures> peer = MeasureTorch(one);
      if (peer.ok()) {
        const double theirs = Record(one, "pytorch", peer->rates);
        records_.back().parameters.emplace_back("blas", peer->blas);
        absl::PrintF(" %14.0f %8.2f", theirs, rate / theirs);
      } else {
        std::cout << "  without PyTorch: " << peer.status().message();
      }
    }
    std::cout << std::endl;
    return absl::OkStatus();
  }

  absl::Status MeasureDaemons() {
    std::error_code error;
    const std::filesystem::path text =
        std::filesystem::temp_directory_path(error) / absl::StrCat("muster-bench-", getpid());
    MUSTER_RETURN_IF_ERROR(WriteBenchText(text.string()));
    const absl::Cleanup remove = [&text] {
      std::error_code ignored;
      std::filesystem::remove(text, ignored);
    };
    absl::PrintF("\n%-26s %8s %14s %14s %18s %26s %22s\n", "through daemons", "workers", "muster",
                 "one process", "of that", "compute + exposed + data", "processor s / 1000");
    const DaemonSteps steps = options_.quick ? DaemonSteps::kQuick : DaemonSteps::kFull;
    for (const DaemonCase& one : DaemonCases(text.string(), steps)) {
      const auto& wanted = options_.cases;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), one.model) == wanted.end()) {
        continue;
      }
      if (!absl::StrContains(one.name, options_.daemons)) continue;
      MUSTER_RETURN_IF_ERROR(MeasureDaemonCase(one));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureDaemonCase(const DaemonCase& one) {
    std::vector<DaemonFigures> turns;
    std::vector<double> in_process, rates, shares;
    // Of the one process's turn before the daemons' next one.
    MUSTER_ASSIGN_OR_RETURN(std::vector<double> before, MeasureOwnOf(one));
    in_process = before;
    for (int turn = 0; turn < (options_.quick ? 1 : kDaemonTurns); ++turn) {
      MUSTER_ASSIGN_OR_RETURN(const DaemonFigures figures, MeasureThroughDaemons(one));
      MUSTER_ASSIGN_OR_RETURN(std::vector<double> after, MeasureOwnOf(one));
      in_process.insert(in_process.end(), after.begin(), after.end());
      before.insert(before.end(), after.begin(), after.end());
      turns.push_back(figures);
      rates.push_back(figures.items_per_second);
      shares.push_back(figures.items_per_second / OverAll(before));
      before = std::move(after);
    }
    PrintDaemonCase(one, MeanOf(turns), OverAll(in_process), shares);
    RecordDaemonCase(one, MeanOf(turns), std::move(rates), std::move(shares));
    return absl::OkStatus();
  }

  static void PrintDaemonCase(const DaemonCase& one, const DaemonFigures& figures,
                              double in_process, const std::vector<double>& shares) {
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    absl::PrintF(
        "%-26s %8d %8.0f %s/s %8.0f %s/s %5.1f %% (%3.0f-%3.0f) %8.4f +%8.4f +%8.4f %18.4f\n",
        one.name, one.workers, figures.items_per_second, one.unit.substr(0, 3), in_process,
        one.unit.substr(0, 3), 100 * figures.items_per_second / in_process, 100 * *least,
        100 * *most, figures.compute, figures.communication, figures.waiting,
        figures.processor_seconds_per_1000);
    std::cout << std::flush;
  }

  // `rates`, `shares`: by turn.
  void RecordDaemonCase(const DaemonCase& one, const DaemonFigures& figures,
                        std::vector<double> rates, std::vector<double> shares) {
    BenchRecord record;
    record.bench = "train";
    record.parameters = {{"model", one.model},
                         {"type", one.type},
                         {"road", one.road == Road::Kind::kAllReduce ? "all-reduce" : "servers"},
                         {"workers", int64_t{one.workers}},
                         {"servers", int64_t{one.servers}}};
    record.system = "muster daemons";
    record.metric = "throughput";
    record.unit = absl::StrCat(one.unit, "/s");
    record.samples = std::move(rates);
    records_.push_back(record);
    record.metric = "share of one process";
    record.unit = "1";
    record.samples = std::move(shares);
    records_.push_back(record);
    record.metric = "processor time of 1000 items";
    record.unit = "s";
    record.samples = {figures.processor_seconds_per_1000};
    records_.push_back(std::move(record));
  }

  // By as many threads as the daemons' workers have.
  absl::StatusOr<std::vector<double>> MeasureOwnOf(const DaemonCase& one) {
    SetComputeThreads(one.threads());
    const absl::Cleanup reset = [this] { SetComputeThreads(options_.threads); };
    for (const TrainCase& reference : TrainCases()) {
      if (reference.name != one.model || reference.type != one.type) continue;
      return MeasureOwn(reference, duration_ / 2);
    }
    return absl::NotFoundError(one.model);
  }

  // Items a second of each step.
  absl::StatusOr<std::vector<double>> MeasureOwn(const TrainCase& one, absl::Duration duration) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TrainStepper> stepper,
                            TrainStepper::Create(one.spec, one.data, RandomBatches(one, kBatches)));
    for (int i = 0; i < kWarmUpSteps; ++i) MUSTER_RETURN_IF_ERROR(stepper->Step());
    std::vector<double> rates;
    const absl::Time start = absl::Now();
    while (static_cast<int>(rates.size()) < kLeastSteps || absl::Now() - start < duration) {
      const absl::Time begin = absl::Now();
      MUSTER_RETURN_IF_ERROR(stepper->Step());
      rates.push_back(one.items / absl::ToDoubleSeconds(absl::Now() - begin));
    }
    return rates;
  }

  struct TorchFigures {
    std::vector<double> rates;  // items a second of each step
    std::string blas;           // the kernels that its BLAS runs by
  };

  absl::StatusOr<TorchFigures> MeasureTorch(const TrainCase& one) {
    const std::filesystem::path program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "peers" / "torch_train";
    MUSTER_ASSIGN_OR_RETURN(
        const std::unique_ptr<ChildProcess> process,
        ChildProcess::StartProgram(program, {one.name, one.type, absl::StrCat(options_.threads),
                                             absl::StrCat(absl::ToDoubleSeconds(duration_))}));
    absl::StatusOr<std::string> line = process->ReadLine();
    if (!line.ok()) {
      return absl::UnavailableError("it has ended; `./muster bench train` installs python3-torch");
    }
    const auto said = nlohmann::json::parse(*line, nullptr, false);
    if (!said.is_object() || !said.contains("rates") || said["rates"].empty()) {
      return absl::InternalError(absl::StrCat("it said ", *line));
    }
    return TorchFigures{.rates = said["rates"].get<std::vector<double>>(),
                        .blas = said.value("blas", "")};
  }

  std::vector<std::pair<std::string, BenchRecord::Value>> ParametersOf(const TrainCase& one) const {
    return {{"model", one.name}, {"type", one.type}, {"threads", int64_t{options_.threads}}};
  }

  // The median.
  double Record(const TrainCase& one, const std::string& system, std::vector<double> samples) {
    BenchRecord record;
    record.bench = "train";
    record.parameters = ParametersOf(one);
    record.system = system;
    record.metric = "throughput";
    record.unit = absl::StrCat(one.unit, "/s");
    record.samples = std::move(samples);
    records_.push_back(std::move(record));
    return Median(records_.back().samples);
  }

  const BenchOptions options_;
  const absl::Duration duration_;
  // GFLOP/s by type.
  std::map<std::string, double> peak_;
  std::vector<BenchRecord> records_;
};

int Main(const BenchOptions& options, const std::string& json) {
  TrainBench bench(options);
  absl::Status status = bench.Run();
  if (status.ok() && !json.empty()) status = WriteRecords(json, bench.records());
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "train_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::SkipDeadlockDetection();
  CLI::App app("Speed of training, in one process beside PyTorch and by daemons.");
  muster::BenchOptions options;
  std::string json;
  app.add_flag("--quick", options.quick, "Two seconds a figure rather than eight.");
  app.add_flag("--no-peers", options.no_peers, "Without PyTorch.");
  app.add_flag("--no-daemons", options.no_daemons, "In one process only.");
  app.add_option("--threads", options.threads, "Threads to compute with.")
      ->check(CLI::Range(1, 1024));
  app.add_option("--cases", options.cases, "Only these: gpt-10m, gpt2-124m, mlp, deep-fm.")
      ->delimiter(',');
  app.add_option("--daemons", options.daemons,
                 "Of those by daemons only the ones with this in their names, such as \"f32 by\".");
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::Main(options, json);
}
