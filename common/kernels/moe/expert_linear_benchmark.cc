// Products of a layer of 8 experts, of which a token takes 2, in GFLOP/s, beside those of a dense
// layer that computes with as many weights: 2,048 tokens, width 256, gated, F 512 and 1,024.
// Experts have even numbers of rows, or numbers that differ from call to call, as in training.
#include <array>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "common/kernels/gemm/gemm.h"
#include "common/kernels/matmul.h"
#include "common/kernels/moe/expert_linear.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

constexpr int64_t kTokens = 2048;
constexpr int64_t kExperts = 8;
constexpr int64_t kTopK = 2;
constexpr int64_t kWidth = 256;
constexpr int64_t kF = 512;

using Offsets = std::array<int32_t, kExperts + 1>;

Offsets EvenOffsets() {
  Offsets offsets = {};
  for (int64_t e = 0; e <= kExperts; ++e) offsets[e] = kTokens * kTopK / kExperts * e;
  return offsets;
}

// Returns the offsets of tokens that each choose two of the experts by chance.
Offsets RandomOffsets(uint32_t seed) {
  std::mt19937 random(seed);
  Offsets offsets = {};
  for (int64_t n = 0; n < kTokens; ++n) {
    const int64_t first = random() % kExperts;
    ++offsets[first + 1];
    ++offsets[(first + 1 + random() % (kExperts - 1)) % kExperts + 1];
  }
  for (int64_t e = 0; e < kExperts; ++e) offsets[e + 1] += offsets[e];
  return offsets;
}

template <typename T>
std::vector<T> Filled(int64_t n) {
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) StoreRounded(static_cast<float>(i % 17) - 8, &values[i]);
  return values;
}

// A linear layer and one of its products.
enum class Pass { kForward, kInputGradient, kWeightGradient };
struct Product {
  Pass pass;
  int64_t in, out;
};

void Report(benchmark::State& state, const Product& product) {
  SetComputeThreads(1);
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * kTokens * kTopK * product.in * product.out,
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Experts(benchmark::State& state, const Product& product, const std::vector<Offsets>& routes) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  const auto& [pass, in, out] = product;
  constexpr int64_t kRows = kTokens * kTopK;
  const auto x = Filled<T>(kRows * in), weight = Filled<T>(kExperts * out * in);
  auto y = Filled<T>(kRows * out);
  std::vector<T> dx(kRows * in);
  std::vector<float> gradient(kExperts * out * in);
  const ExpertLinear linear = {.experts = kExperts, .rows = kRows, .in = in, .out = out};
  size_t call = 0;
  for (auto _ : state) {
    const int32_t* const offsets = routes[call++ % routes.size()].data();
    switch (pass) {
      case Pass::kForward:
        ExpertLinearForward(linear, offsets, x.data(), weight.data(), y.data());
        break;
      case Pass::kInputGradient:
        ExpertLinearBackwardInput(linear, offsets, y.data(), weight.data(), dx.data());
        break;
      case Pass::kWeightGradient:
        ExpertLinearBackwardWeights<T>(linear, offsets,
                                       {.dy = y.data(), .x = x.data(), .weight = gradient.data()});
        break;
    }
    benchmark::ClobberMemory();
  }
  Report(state, product);
}

// The dense layer's product: as wide inside as the experts of a token together. `wide_out` says
// which side of the layer is inside.
template <typename T>
void Dense(benchmark::State& state, const Product& product, bool wide_out) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  const int64_t in = wide_out ? product.in : product.in * kTopK;
  const int64_t out = wide_out ? product.out * kTopK : product.out;
  const auto x = Filled<T>(kTokens * in), weight = Filled<T>(out * in);
  auto y = Filled<T>(kTokens * out);
  std::vector<T> dx(kTokens * in);
  std::vector<float> gradient(out * in);
  for (auto _ : state) {
    switch (product.pass) {
      case Pass::kForward:
        Gemm(kTokens, out, in, x.data(), weight.data(), y.data(), {.transpose_b = Transpose::kYes});
        break;
      case Pass::kInputGradient:
        Gemm(kTokens, in, out, y.data(), weight.data(), dx.data());
        break;
      case Pass::kWeightGradient:
        Gemm(out, in, kTokens, y.data(), x.data(), gradient.data(),
             {.transpose_a = Transpose::kYes, .accumulation = Accumulation::kAdd});
        break;
    }
    benchmark::ClobberMemory();
  }
  Report(state, product);
}

template <typename T>
void Register(const char* type) {
  const auto add = [&](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(absl::StrCat(name, "/", type).c_str(), run)->Arg(1)->UseRealTime();
  };
  constexpr std::pair<Pass, const char*> kPasses[] = {{Pass::kForward, "forward"},
                                                      {Pass::kInputGradient, "input_gradient"},
                                                      {Pass::kWeightGradient, "weight_gradient"}};
  std::vector<Offsets> changing;
  for (uint32_t seed = 0; seed < 500; ++seed) changing.push_back(RandomOffsets(seed));
  for (const bool up : {true, false}) {
    for (const auto& [pass, pass_name] : kPasses) {
      const Product product = up ? Product{pass, kWidth, 2 * kF} : Product{pass, kF, kWidth};
      const std::string name = absl::StrCat(up ? "gate_up" : "down", "/", pass_name);
      add(absl::StrCat(name, "/dense"),
          [=](benchmark::State& state) { Dense<T>(state, product, up); });
      add(absl::StrCat(name, "/experts_even"),
          [=](benchmark::State& state) { Experts<T>(state, product, {EvenOffsets()}); });
      add(absl::StrCat(name, "/experts_changing"),
          [=](benchmark::State& state) { Experts<T>(state, product, changing); });
    }
  }
}

[[maybe_unused]] const int kRegistered = [] {
  Register<float>("f32");
  Register<BFloat16>("bf16");
  return 0;
}();

}  // namespace
}  // namespace muster
