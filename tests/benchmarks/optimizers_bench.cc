// Speed of the optimizers' vector kernels over contiguous spans, beside a plain read-modify-write
// kernel of as many streams: the least that any optimizer with that state could do.
//
//   optimizers_bench [--quick] [--json FILE]
//
// A span is the bytes of the weights; state and gradients come on top. One thread; processor time,
// so that what else runs counts little. Kernel and limit take turns, and the ratio is the median of
// those of neighbours.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/buffer_pool.h"
#include "common/base/machine/simd_clones.h"
#include "common/daemon/parse_flags.h"
#include "common/optim/optimizer.h"
#include "proto/job.pb.h"
#include "tests/benchmarks/harness/record.h"

namespace muster {
namespace {

constexpr char kBench[] = "optimizers";
constexpr int64_t kSpans[] = {1 << 20, 64 << 20};

struct Effort {
  int rounds;
  // Parameters that a turn goes over, in passes.
  int64_t parameters;
};

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

MUSTER_SIMD_CLONES
void ReadModifyWrite1(size_t n, const float* __restrict gradient, float* __restrict x) {
  for (size_t i = 0; i < n; ++i) x[i] = 0.5f * x[i] + gradient[i];
}

MUSTER_SIMD_CLONES
void ReadModifyWrite2(size_t n, const float* __restrict gradient, float* __restrict x,
                      float* __restrict y) {
  for (size_t i = 0; i < n; ++i) {
    x[i] = 0.5f * x[i] + gradient[i];
    y[i] = 0.5f * y[i] + gradient[i];
  }
}

MUSTER_SIMD_CLONES
void ReadModifyWrite3(size_t n, const float* __restrict gradient, float* __restrict x,
                      float* __restrict y, float* __restrict z) {
  for (size_t i = 0; i < n; ++i) {
    x[i] = 0.5f * x[i] + gradient[i];
    y[i] = 0.5f * y[i] + gradient[i];
    z[i] = 0.5f * z[i] + gradient[i];
  }
}

// Memory of one span's gradients, weights and at most two state arrays.
struct Arrays {
  Arrays(size_t n, BufferPool& pool)
      : n(n), gradient(pool.Take(n)), weights(pool.Take(n)), state(pool.Take(2 * n)) {
    for (size_t i = 0; i < n; ++i) {
      gradient.get()[i] = 1e-3f * static_cast<float>(static_cast<int>(i % 101) - 50);
      weights.get()[i] = 1;
    }
  }

  void Limit(int streams) {
    float* const y = state.get();
    if (streams == 1) return ReadModifyWrite1(n, gradient.get(), weights.get());
    if (streams == 2) return ReadModifyWrite2(n, gradient.get(), weights.get(), y);
    ReadModifyWrite3(n, gradient.get(), weights.get(), y, y + n);
  }

  const size_t n;
  const std::shared_ptr<float> gradient, weights, state;
};

struct Figures {
  std::vector<double> kernel, limit, ratio;
};

// G parameters/s of both, taking turns.
Figures Measure(const Optimizer& optimizer, Arrays& arrays, const Effort& effort) {
  const size_t n = arrays.n;
  const int streams = 1 + static_cast<int>(optimizer.state_names().size());
  const absl::Span<float> state(arrays.state.get(), optimizer.state_floats(n));
  optimizer.InitState({arrays.weights.get(), n}, state);
  OptimizerStep step = {.learning_rate = 1e-4f, .gradient_scale = 0.5f};
  const int64_t passes = std::max<int64_t>(1, effort.parameters / static_cast<int64_t>(n));
  const double giga = static_cast<double>(passes) * static_cast<double>(n) * 1e-9;
  Figures figures;
  // The first round warms caches and pages.
  for (int round = -1; round < effort.rounds; ++round) {
    const double start = ProcessorSeconds();
    for (int64_t pass = 0; pass < passes; ++pass) {
      optimizer.Apply(step, {arrays.gradient.get(), n}, {arrays.weights.get(), n}, state);
      ++step.step;
    }
    const double middle = ProcessorSeconds();
    for (int64_t pass = 0; pass < passes; ++pass) arrays.Limit(streams);
    const double end = ProcessorSeconds();
    // What the limit leaves in them must not slow the optimizer down.
    optimizer.InitState({arrays.weights.get(), n}, state);
    if (round < 0) continue;
    figures.kernel.push_back(giga / (middle - start));
    figures.limit.push_back(giga / (end - middle));
    figures.ratio.push_back(figures.kernel.back() / figures.limit.back());
  }
  return figures;
}

BenchRecord NewRecord(const std::string& system, const std::string& optimizer, int64_t span,
                      int streams) {
  BenchRecord record;
  record.bench = kBench;
  record.system = system;
  record.parameters = {{"optimizer", optimizer},
                       {"span_bytes", span},
                       {"bytes_per_parameter", int64_t{4 + 8 * streams}}};
  record.metric = "parameters";
  record.unit = "G/s";
  return record;
}

int Main(const Effort& effort, const std::string& json) {
  std::vector<BenchRecord> records;
  std::cout << "One thread; G parameters/s, and % of a read-modify-write of as many streams\n\n"
               "                                  1 MiB                    64 MiB\n"
               "optimizer      bytes     kernel   limit     %     kernel   limit     %\n";
  // On pages of 2 MiB, as servers' blocks are.
  const std::shared_ptr<BufferPool> pool = BufferPool::Create(/*keep_bytes=*/0);
  std::vector<std::unique_ptr<Arrays>> arrays;
  for (int64_t span : kSpans) {
    arrays.push_back(std::make_unique<Arrays>(static_cast<size_t>(span) / sizeof(float), *pool));
  }
  for (const char* name :
       {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lion", "ftrl"}) {
    v1::OptimizerSpec spec;
    spec.set_name(name);
    spec.set_learning_rate(0.1f);
    const std::unique_ptr<const Optimizer> optimizer =
        *CreateOptimizer(spec, Granularity::kElements);
    const int streams = 1 + static_cast<int>(optimizer->state_names().size());
    std::cout << absl::StreamFormat("%-13s %6d", name, 4 + 8 * streams);
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Figures figures = Measure(*optimizer, *arrays[i], effort);
      BenchRecord kernel = NewRecord("muster", name, kSpans[i], streams);
      kernel.samples = figures.kernel;
      BenchRecord limit = NewRecord("read-modify-write", name, kSpans[i], streams);
      limit.samples = figures.limit;
      BenchRecord ratio = NewRecord("muster", name, kSpans[i], streams);
      ratio.metric = "of the limit";
      ratio.unit = "ratio";
      ratio.samples = figures.ratio;
      std::cout << absl::StreamFormat("   %8.2f %7.2f %5.0f", Median(figures.kernel),
                                      Median(figures.limit), 100 * Median(figures.ratio));
      records.insert(records.end(), {kernel, limit, ratio});
    }
    std::cout << std::endl;
  }
  const absl::Status status = json.empty() ? absl::OkStatus() : WriteRecords(json, records);
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << "optimizers_bench: " << status.message() << "\n";
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  CLI::App app("Speed of the optimizers' kernels.");
  bool quick = false;
  std::string json;
  app.add_flag("--quick", quick, "Fewer rounds: under 10 seconds.");
  app.add_option("--json", json, "File to write the results to, as an array of records.");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::Main(quick ? muster::Effort{5, 1 << 24} : muster::Effort{21, 1 << 26}, json);
}
