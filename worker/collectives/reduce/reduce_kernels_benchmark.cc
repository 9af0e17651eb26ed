// Sums of f32 beside a plain copy, from the second-level cache to memory. Bytes are those of the
// output: a sum of two moves three times as many, a copy twice.

#include <cstdint>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "worker/collectives/reduce/reduce_kernels.h"

namespace muster {
namespace {

// Buffers that begin at cache lines, each at another distance from a page, so that they do not fall
// on the same cache sets.
class Buffers {
 public:
  Buffers(size_t buffers, size_t bytes) {
    for (size_t k = 0; k < buffers; ++k) {
      memory_.emplace_back((bytes + kPage) / sizeof(float) + k * kStagger, 1.0f);
      const uintptr_t begin = reinterpret_cast<uintptr_t>(memory_.back().data());
      const uintptr_t page = (begin + kPage - 1) / kPage * kPage;
      at_.push_back(memory_.back().data() + (page - begin) / sizeof(float) + k * kStagger);
    }
  }

  float* operator[](size_t k) const { return at_[k]; }

 private:
  static constexpr uintptr_t kPage = 4096;
  // Distance in elements.
  static constexpr size_t kStagger = 80;

  std::vector<std::vector<float>> memory_;
  std::vector<float*> at_;
};

void SetBytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void BM_Copy(benchmark::State& state) {
  const Buffers buffers(2, state.range(0));
  for (auto _ : state) {
    std::memcpy(buffers[0], buffers[1], state.range(0));
    benchmark::ClobberMemory();
  }
  SetBytes(state);
}

void Sum(benchmark::State& state, const ReduceOp& op, size_t inputs, size_t outs) {
  const size_t count = state.range(0) / SizeOf(op.dtype);
  const Buffers buffers(inputs + outs, state.range(0));
  std::vector<const void*> in;
  std::vector<void*> out;
  for (size_t k = 0; k < inputs; ++k) in.push_back(buffers[k]);
  for (size_t k = 0; k < outs; ++k) out.push_back(buffers[inputs + k]);
  for (auto _ : state) {
    if (outs == 1) {
      ReduceInto(op, in, count, out[0]);
    } else {
      ReduceIntoAll(op, in, count, out);
    }
    benchmark::ClobberMemory();
  }
  state.SetLabel(ReduceInstructionSet());
  SetBytes(state);
}

void BM_Sum(benchmark::State& state) { Sum(state, {}, state.range(1), 1); }

void BM_SumStreaming(benchmark::State& state) {
  Sum(state, {.streaming = true}, state.range(1), 1);
}

void BM_SumToAll(benchmark::State& state) { Sum(state, {}, state.range(1), state.range(1)); }

void BM_SumToAllStreaming(benchmark::State& state) {
  Sum(state, {.streaming = true}, state.range(1), state.range(1));
}

void BM_SumBf16(benchmark::State& state) { Sum(state, {.dtype = DType::kBf16}, state.range(1), 1); }

void BM_SumF16(benchmark::State& state) { Sum(state, {.dtype = DType::kF16}, state.range(1), 1); }

void BM_SumInPlace(benchmark::State& state) {
  const Buffers buffers(2, state.range(0));
  const void* in[] = {buffers[0], buffers[1]};
  for (auto _ : state) {
    ReduceInto({}, in, state.range(0) / 4, buffers[0]);
    benchmark::ClobberMemory();
  }
  SetBytes(state);
}

constexpr int64_t kSizes[] = {32 << 10, 1 << 20, 32 << 20};

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t size : kSizes) benchmark->Arg(size);
}

void SizesAndInputs(benchmark::internal::Benchmark* benchmark) {
  for (int64_t inputs : {2, 4, 8}) {
    for (int64_t size : kSizes) benchmark->Args({size, inputs});
  }
}

BENCHMARK(BM_Copy)->Apply(Sizes);
BENCHMARK(BM_SumInPlace)->Apply(Sizes);
BENCHMARK(BM_Sum)->Apply(SizesAndInputs);
BENCHMARK(BM_SumStreaming)->Apply(SizesAndInputs);
BENCHMARK(BM_SumToAll)->Apply(SizesAndInputs);
BENCHMARK(BM_SumToAllStreaming)->Apply(SizesAndInputs);
BENCHMARK(BM_SumBf16)->Apply(SizesAndInputs);
BENCHMARK(BM_SumF16)->Apply(SizesAndInputs);

}  // namespace
}  // namespace muster
