// Products of the layers of a transformer in GFLOP/s: forward (a · bᵀ + bias), the gradient of the
// input (a · b) and of the weights (c += aᵀ · b), for f32 and bf16, on 1 and 2 threads.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "common/kernels/gemm/gemm.h"
#include "common/kernels/matmul.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

struct Layer {
  const char* name;
  int64_t rows, in, out;
};
// 6 layers × 384 with 2,048 tokens; GPT-2 124M with 256.
const Layer kLayers[] = {{"small_qkv", 2048, 384, 1152}, {"small_proj", 2048, 384, 384},
                         {"small_up", 2048, 384, 1536},  {"small_down", 2048, 1536, 384},
                         {"gpt2_qkv", 256, 768, 2304},   {"gpt2_up", 256, 768, 3072},
                         {"gpt2_down", 256, 3072, 768},  {"gpt2_head", 256, 768, 50257}};

template <typename T>
std::vector<T> Filled(int64_t n) {
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) StoreRounded(static_cast<float>(i % 17) - 8, &values[i]);
  return values;
}

template <typename In, typename Out>
void Run(benchmark::State& state, int64_t m, int64_t n, int64_t k, const GemmOptions& options) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  const auto a = Filled<In>(m * k), b = Filled<In>(k * n);
  std::vector<Out> c(m * n);
  for (auto _ : state) {
    Gemm(m, n, k, a.data(), b.data(), c.data(), options);
    benchmark::ClobberMemory();
  }
  SetComputeThreads(1);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * m * n * k, benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Register(const Layer& layer, const char* type) {
  const auto add = [&](const char* pass, auto run) {
    benchmark::RegisterBenchmark(absl::StrCat(layer.name, "/", type, "/", pass).c_str(), run)
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime();
  };
  add("forward", [layer](benchmark::State& state) {
    const auto bias = Filled<float>(layer.out);
    Run<T, T>(state, layer.rows, layer.out, layer.in,
              {.transpose_b = Transpose::kYes, .bias = bias.data()});
  });
  add("input_gradient",
      [layer](benchmark::State& state) { Run<T, T>(state, layer.rows, layer.in, layer.out, {}); });
  add("weight_gradient", [layer](benchmark::State& state) {
    Run<T, float>(state, layer.out, layer.in, layer.rows,
                  {.transpose_a = Transpose::kYes, .accumulation = Accumulation::kAdd});
  });
}

[[maybe_unused]] const int kRegistered = [] {
  for (const Layer& layer : kLayers) {
    Register<float>(layer, "f32");
    Register<BFloat16>(layer, "bf16");
  }
  return 0;
}();

}  // namespace
}  // namespace muster
