// Causal attention in GFLOP/s, counting what lies at and below the diagonal, within documents: 2
// products forward, 5 backward. Compare with gemm_benchmark's of the same threads.
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
  // Documents of one length that share each sequence.
  int64_t documents = 1;
};
const Model kModels[] = {
    {"small_256", {.B = 8, .T = 256, .H = 6, .KV = 6, .D = 64}},
    {"gpt2_64", {.B = 4, .T = 64, .H = 12, .KV = 12, .D = 64}},
    {"gpt2_1024", {.B = 1, .T = 1024, .H = 12, .KV = 12, .D = 64}},
    {"grouped_4096", {.B = 1, .T = 4096, .H = 8, .KV = 2, .D = 128}},
    {"grouped_4096_packed_16", {.B = 1, .T = 4096, .H = 8, .KV = 2, .D = 128}, 16},
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

double Flops(const Model& model, int products) {
  const AttentionShape& s = model.shape;
  return products * 1e-9 * s.B * s.H * s.D * s.T * (s.T / model.documents + 1);
}

// Returns the positions of the model's documents, which the shape then has; empty where sequences
// are one document.
std::vector<int32_t> SetPositions(const Model& model, AttentionShape& shape) {
  if (model.documents == 1) return {};
  std::vector<int32_t> positions(shape.B * shape.T);
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<int32_t>(i % (shape.T / model.documents));
  }
  shape.token_positions = positions.data();
  return positions;
}

template <typename T>
void Forward(benchmark::State& state, const Model& model) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  AttentionShape s = model.shape;
  const std::vector<int32_t> positions = SetPositions(model, s);
  const auto qkv = Filled<T>(s.B * s.T * (s.H + 2 * s.KV) * s.D);
  std::vector<T> out(s.B * s.T * s.H * s.D);
  std::vector<float> logsumexp(s.B * s.H * s.T);
  for (auto _ : state) {
    Attention(s, qkv.data(), out.data(), logsumexp.data());
    benchmark::ClobberMemory();
  }
  SetComputeThreads(1);
  state.counters["GFLOP/s"] =
      benchmark::Counter(Flops(model, 2), benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Backward(benchmark::State& state, const Model& model) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  AttentionShape s = model.shape;
  const std::vector<int32_t> positions = SetPositions(model, s);
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
      benchmark::Counter(Flops(model, 5), benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Register(const Model& model, const char* type) {
  const auto add = [&](const char* pass, auto run) {
    benchmark::RegisterBenchmark(absl::StrCat(model.name, "/", type, "/", pass).c_str(), run)
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime();
  };
  add("forward", [model](benchmark::State& state) { Forward<T>(state, model); });
  add("backward", [model](benchmark::State& state) { Backward<T>(state, model); });
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
