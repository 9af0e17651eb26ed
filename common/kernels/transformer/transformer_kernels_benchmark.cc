// The kernels between the products, in GB/s of the arrays that they read and write, beside a plain
// copy: the memory's limit. Shapes of 6 layers × 384 with 2,048 tokens.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/kernels/matmul.h"
#include "common/kernels/transformer/activation.h"
#include "common/kernels/transformer/cross_entropy_rows.h"
#include "common/kernels/transformer/dropout.h"
#include "common/kernels/transformer/norm.h"
#include "common/kernels/transformer/rotary.h"
#include "common/kernels/transformer/token_embedding.h"
#include "common/tensor/bfloat16.h"

namespace muster {
namespace {

constexpr int64_t kRows = 2048;
constexpr int64_t kWidth = 384;
constexpr int64_t kWide = 4 * kWidth;
constexpr int64_t kContext = 256;
constexpr int64_t kHeads = 6;
constexpr int64_t kVocabulary = 256;

template <typename T>
std::vector<T> Filled(int64_t n) {
  std::vector<T> values(n);
  for (int64_t i = 0; i < n; ++i) {
    StoreRounded(static_cast<float>(i * 7919 % 1000) / 500 - 1, &values[i]);
  }
  return values;
}

void Measure(benchmark::State& state, int64_t bytes, const std::function<void()>& kernel) {
  SetComputeThreads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    kernel();
    benchmark::ClobberMemory();
  }
  SetComputeThreads(1);
  state.SetBytesProcessed(state.iterations() * bytes);
}

template <typename T>
void Activations(benchmark::State& state, const std::string& which) {
  constexpr int64_t kN = kRows * kWide;
  const auto x = Filled<T>(2 * kN), dy = Filled<T>(kN);
  std::vector<T> y(2 * kN);
  const int64_t array = kN * sizeof(T);
  if (which == "gelu") Measure(state, 2 * array, [&] { Gelu(kN, x.data(), y.data()); });
  if (which == "gelu_backward") {
    Measure(state, 3 * array, [&] { GeluBackward(kN, x.data(), dy.data(), y.data()); });
  }
  if (which == "swiglu") {
    Measure(state, 3 * array, [&] { SwiGlu(kRows, kWide, x.data(), y.data()); });
  }
  if (which == "swiglu_backward") {
    Measure(state, 5 * array, [&] { SwiGluBackward(kRows, kWide, x.data(), dy.data(), y.data()); });
  }
  if (which == "bias_gradient") {
    std::vector<float> sums(kWide);
    Measure(state, array, [&] { AddRowSums(kRows, kWide, kWide, x.data(), sums.data()); });
  }
}

template <typename T>
void Norms(benchmark::State& state, const std::string& which) {
  constexpr int64_t kN = kRows * kWidth;
  const NormShape shape = {.rows = kRows, .width = kWidth};
  const auto x = Filled<float>(kN), gain = Filled<float>(kWidth), bias = Filled<float>(kWidth);
  const auto branch = Filled<T>(kN);
  std::vector<float> sum(kN), mean(kRows), rstd(kRows), dx(kN), dgain(kWidth), dbias(kWidth);
  std::vector<T> out(kN), dbranch(kN);
  const auto forward = [&] {
    Norm<T>(shape,
            {.x = x.data(), .branch = branch.data(), .gain = gain.data(), .bias = bias.data()},
            {.sum = sum.data(), .out = out.data(), .mean = mean.data(), .rstd = rstd.data()});
  };
  forward();
  const int64_t bytes = kN * (2 * sizeof(float) + 2 * sizeof(T));
  if (which == "norm") Measure(state, bytes, forward);
  if (which == "norm_backward") {
    Measure(state, bytes + kN * sizeof(float), [&] {
      NormBackward<T>(
          shape,
          {.sum = sum.data(),
           .gain = gain.data(),
           .mean = mean.data(),
           .rstd = rstd.data(),
           .dout = branch.data(),
           .dsum = x.data()},
          {.dx = dx.data(), .dbranch = dbranch.data(), .gain = dgain.data(), .bias = dbias.data()});
    });
  }
}

template <typename T>
void Others(benchmark::State& state, const std::string& which) {
  if (which == "rotary") {
    const RotaryShape shape = {.rows = kRows,
                               .context = kContext,
                               .heads = 2 * kHeads,
                               .head_dim = kWidth / kHeads,
                               .stride = 3 * kWidth};
    std::vector<float> table(kContext * kWidth / kHeads);
    FillRotaryTable(kContext, kWidth / kHeads, {}, table.data());
    auto x = Filled<T>(kRows * 3 * kWidth);
    Measure(state, 2 * kRows * 2 * kWidth * sizeof(T),
            [&] { Rotary(shape, table.data(), x.data()); });
  }
  if (which == "cross_entropy") {
    const auto logits = Filled<float>(kRows * kVocabulary);
    const std::vector<int32_t> labels(kRows, 3);
    std::vector<T> dlogits(kRows * kVocabulary);
    Measure(state, kRows * kVocabulary * (sizeof(float) + sizeof(T)), [&] {
      SoftmaxCrossEntropyRows({.rows = kRows, .vocabulary = kVocabulary}, logits.data(),
                              labels.data(), 1.0f, dlogits.data(), kVocabulary);
    });
  }
}

void Copy(benchmark::State& state) {
  const auto x = Filled<float>(kRows * kWide);
  std::vector<float> y(x.size());
  Measure(state, 2 * x.size() * sizeof(float),
          [&] { std::memcpy(y.data(), x.data(), x.size() * sizeof(float)); });
}

void ToBFloat16(benchmark::State& state) {
  const auto x = Filled<float>(kRows * kWide);
  std::vector<BFloat16> y(x.size());
  Measure(state, x.size() * (sizeof(float) + sizeof(BFloat16)),
          [&] { Convert(x.size(), x.data(), y.data()); });
}

void DropoutOfAll(benchmark::State& state) {
  const auto x = Filled<float>(kRows * kWide);
  std::vector<float> y(x.size());
  const DropoutMask mask(1, "x", 2, 0.1f);
  Measure(state, 2 * x.size() * sizeof(float), [&] {
    Dropout(mask, {.elements = kRows * kWide, .size = kContext * kWide}, x.data(), y.data());
  });
}

// Returns tokens from the whole vocabulary.
std::vector<int32_t> Tokens() {
  std::vector<int32_t> tokens(kRows);
  for (int64_t i = 0; i < kRows; ++i) tokens[i] = i * 31 % kVocabulary;
  return tokens;
}

void Embedding(benchmark::State& state) {
  const TokenEmbeddingShape shape = {
      .rows = kRows, .context = kContext, .width = kWidth, .vocabulary = kVocabulary};
  const std::vector<int32_t> tokens = Tokens();
  const auto table = Filled<float>(kVocabulary * kWidth);
  const auto positions = Filled<float>(kContext * kWidth);
  std::vector<float> out(kRows * kWidth);
  Measure(state, kRows * kWidth * sizeof(float), [&] {
    TokenEmbedding(shape, tokens.data(), table.data(), positions.data(), out.data());
  });
}

void EmbeddingBackward(benchmark::State& state) {
  const TokenEmbeddingShape shape = {
      .rows = kRows, .context = kContext, .width = kWidth, .vocabulary = kVocabulary};
  const std::vector<int32_t> tokens = Tokens();
  const auto dout = Filled<float>(kRows * kWidth);
  std::vector<float> table(kVocabulary * kWidth), positions(kContext * kWidth);
  Measure(state, 5 * kRows * kWidth * sizeof(float), [&] {
    TokenEmbeddingBackward(shape, tokens.data(), dout.data(), table.data(), positions.data());
  });
}

template <typename T>
void Register(const char* type) {
  const auto add = [&](const char* name, void (*run)(benchmark::State&, const std::string&)) {
    benchmark::RegisterBenchmark(absl::StrCat(name, "/", type).c_str(),
                                 [run, name](benchmark::State& state) { run(state, name); })
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime();
  };
  for (const char* name : {"gelu", "gelu_backward", "swiglu", "swiglu_backward", "bias_gradient"}) {
    add(name, Activations<T>);
  }
  for (const char* name : {"norm", "norm_backward"}) add(name, Norms<T>);
  for (const char* name : {"rotary", "cross_entropy"}) add(name, Others<T>);
}

[[maybe_unused]] const int kRegistered = [] {
  benchmark::RegisterBenchmark("copy", Copy)->Arg(1)->UseRealTime();
  benchmark::RegisterBenchmark("to_bf16", ToBFloat16)->Arg(1)->Arg(2)->UseRealTime();
  benchmark::RegisterBenchmark("dropout", DropoutOfAll)->Arg(1)->Arg(2)->UseRealTime();
  benchmark::RegisterBenchmark("embedding", Embedding)->Arg(1)->Arg(2)->UseRealTime();
  benchmark::RegisterBenchmark("embedding_backward", EmbeddingBackward)
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime();
  Register<float>("f32");
  Register<BFloat16>("bf16");
  return 0;
}();

}  // namespace
}  // namespace muster
