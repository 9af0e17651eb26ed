// Causal attention in GFLOP/s, counting what lies at and below the diagonal: 2 products forward, 5
// backward. Compare with gemm_benchmark's of the same threads.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "common/kernels/matmul.h"
#include "common/kernels/transformer/attention.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

struct Model {
  const char* name;
  AttentionShape shape;
};
const Model kModels[] = {
    {"small_256", {.B = 8, .T = 256, .H = 6, .KV = 6, .D = 64}},
    {"gpt2_64", {.B = 4, .T = 64, .H = 12, .KV = 12, .D = 64}},
    {"gpt2_1024", {.B = 1, .T = 1024, .H = 12, .KV = 12, .D = 64}},
    {"grouped_4096", {.B = 1, .T = 4096, .H = 8, .KV = 2, .D = 128}},
    {"narrow_512", {.B = 2, .T = 512, .H = 8, .KV = 8, .D = 32}},
};

template <typename T>
std::vector<T> Filled(int64_t n) {
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) {
    StoreRounded(static_cast<float>(i * 7919 % 1000) / 500 - 1, &values[i]);
  }
  return values;
}

double Flops(const AttentionShape& s, int products) {
  return products * 1e-9 * s.B * s.H * s.D * s.T * (s.T + 1);
}

template <typename T>
void Forward(benchmark::State& state, const AttentionShape& s) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  const auto qkv = Filled<T>(s.B * s.T * (s.H + 2 * s.KV) * s.D);
  std::vector<T> out(s.B * s.T * s.H * s.D);
  std::vector<float> logsumexp(s.B * s.H * s.T);
  for (auto _ : state) {
    Attention(s, qkv.data(), out.data(), logsumexp.data());
    benchmark::ClobberMemory();
  }
  SetComputeThreads(1);
  state.counters["GFLOP/s"] =
      benchmark::Counter(Flops(s, 2), benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Backward(benchmark::State& state, const AttentionShape& s) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  const auto qkv = Filled<T>(s.B * s.T * (s.H + 2 * s.KV) * s.D);
  const auto dout = Filled<T>(s.B * s.T * s.H * s.D);
  std::vector<T> out(dout.size()), dqkv(qkv.size());
  std::vector<float> logsumexp(s.B * s.H * s.T);
  Attention(s, qkv.data(), out.data(), logsumexp.data());
  for (auto _ : state) {
    AttentionBackward(s, qkv.data(), out.data(), logsumexp.data(), dout.data(), dqkv.data());
    benchmark::ClobberMemory();
  }
  SetComputeThreads(1);
  state.counters["GFLOP/s"] =
      benchmark::Counter(Flops(s, 5), benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Register(const Model& model, const char* type) {
  const auto add = [&](const char* pass, auto run) {
    benchmark::RegisterBenchmark(absl::StrCat(model.name, "/", type, "/", pass).c_str(), run)
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime();
  };
  add("forward", [model](benchmark::State& state) { Forward<T>(state, model.shape); });
  add("backward", [model](benchmark::State& state) { Backward<T>(state, model.shape); });
}

[[maybe_unused]] const int kRegistered = [] {
  for (const Model& model : kModels) {
    Register<float>(model, "f32");
    Register<BFloat16>(model, "bf16");
  }
  return 0;
}();

}  // namespace
}  // namespace muster
