// Speed of one optimizer step beside a plain read-modify-write of as many streams: the memory's
// limit. items_per_second counts parameters. 64 is a row, 2^18 a block of 1 MiB, 2^24 is far
// outside all caches.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "common/kernels/simd_clones.h"
#include "common/optim/optimizer.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// weights and every slot: x = 0.5 x + g, the least that any optimizer with as many streams could
// do.
MUSTER_SIMD_CLONES
void ReadModifyWrite(size_t n, const float* __restrict gradient, float* __restrict x) {
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

void Limit(benchmark::State& state, int streams) {
  const size_t n = state.range(0);
  const std::vector<float> gradient(n, 1e-3f);
  std::vector<float> x(n, 1), y(n, 1), z(n, 1);
  for (auto _ : state) {
    if (streams == 1) ReadModifyWrite(n, gradient.data(), x.data());
    if (streams == 2) ReadModifyWrite2(n, gradient.data(), x.data(), y.data());
    if (streams == 3) ReadModifyWrite3(n, gradient.data(), x.data(), y.data(), z.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}

void Step(benchmark::State& state, const std::string& name, Granularity granularity) {
  const size_t n = state.range(0);
  v1::OptimizerSpec spec;
  spec.set_name(name);
  spec.set_learning_rate(0.1f);
  const std::unique_ptr<const Optimizer> optimizer = *CreateOptimizer(spec, granularity);
  const std::vector<float> gradient(n, 1e-3f);
  std::vector<float> weights(n, 1), slots(optimizer->slot_floats(n));
  optimizer->InitSlots(n, absl::MakeSpan(slots));
  OptimizerStep step = {.learning_rate = 1e-4f, .gradient_scale = 0.5f};
  for (auto _ : state) {
    optimizer->Apply(step, gradient, absl::MakeSpan(weights), absl::MakeSpan(slots));
    ++step.step;
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}

[[maybe_unused]] const int kRegistered = [] {
  const auto sizes = [](benchmark::internal::Benchmark* benchmark) {
    benchmark->Arg(64)->Arg(1 << 18)->Arg(1 << 24);
  };
  for (int streams = 1; streams <= 3; ++streams) {
    sizes(benchmark::RegisterBenchmark(
        absl::StrCat("read_modify_write_", streams).c_str(),
        [streams](benchmark::State& state) { Limit(state, streams); }));
  }
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "row_wise_adagrad", "rmsprop",
                           "adam", "adamw", "ftrl"}) {
    sizes(benchmark::RegisterBenchmark(
        name, [name](benchmark::State& state) { Step(state, name, Granularity::kRow); }));
  }
  return 0;
}();

}  // namespace
}  // namespace muster
