// F32 sums among ranks that are threads here; what lies between them is what lies between
// processes. `ns` columns: the fastest and the median call, or pair of calls, of those timed.

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "benchmark/benchmark.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"

namespace muster {
namespace {

void Pin(int rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank % static_cast<int>(std::thread::hardware_concurrency()), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// Measures calls by backend, ranks, bytes, and whether in a buffer of the communicator's.
// `make_calls` makes the timed calls in place on `count` values.
void Measure(benchmark::State& state,
             const std::function<absl::Status(Communicator& rank, float* values, size_t count)>&
                 make_calls) {
  const Backend& backend = AllBackends()[state.range(0)];
  const int size = static_cast<int>(state.range(1));
  const size_t count = state.range(2) / sizeof(float);
  const bool allocated = state.range(3) != 0;
  const int calls = static_cast<int>(std::clamp<int64_t>((64 << 20) / state.range(2), 20, 20'000));
  const std::unique_ptr<TestGroup> group = backend.make(size);
  std::vector<int64_t> times;
  for (auto _ : state) {
    group->Run([&](Communicator& rank) {
      Pin(rank.rank());
      std::vector<float> own(allocated ? 0 : count, 1.0f);
      std::unique_ptr<CollectiveBuffer> buffer;
      if (allocated) buffer = *rank.Allocate(count * sizeof(float));
      float* const values =
          allocated ? reinterpret_cast<float*>(buffer->bytes().data()) : own.data();
      for (int i = 0; i < calls; ++i) {
        const int64_t start = absl::GetCurrentTimeNanos();
        const absl::Status status = make_calls(rank, values, count);
        if (!status.ok()) state.SkipWithError(status.ToString().c_str());
        if (rank.rank() == 0) times.push_back(absl::GetCurrentTimeNanos() - start);
      }
    });
  }
  std::sort(times.begin(), times.end());
  state.counters["fastest_ns"] = static_cast<double>(times.front());
  state.counters["median_ns"] = static_cast<double>(times[times.size() / 2]);
  state.counters["GB/s"] = static_cast<double>(state.range(2)) / times[times.size() / 2];
  state.SetLabel(backend.name);
}

void AllReduce(benchmark::State& state) {
  Measure(state, [](Communicator& rank, float* values, size_t count) {
    return rank.Run({.kind = Collective::kAllReduce, .in = values, .out = values, .count = count});
  });
}
BENCHMARK(AllReduce)
    ->ArgNames({"backend", "ranks", "bytes", "allocated"})
    ->ArgsProduct({{2, 3, 4}, {1, 2, 4}, {4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20}, {0}})
    ->ArgsProduct({{2}, {2, 4}, {1 << 20, 4 << 20, 32 << 20, 64 << 20}, {1}})
    ->Iterations(1)
    ->UseRealTime();

// Makes the two halves of an all-reduce, like ranks that divide parameters.
void ReduceScatterAllGather(benchmark::State& state) {
  Measure(state, [](Communicator& rank, float* values, size_t count) {
    const size_t slice = count / rank.size();
    float* const own = values + rank.rank() * slice;
    absl::Status status =
        rank.Run({.kind = Collective::kReduceScatter, .in = values, .out = own, .count = slice});
    status.Update(
        rank.Run({.kind = Collective::kAllGather, .in = own, .out = values, .count = slice}));
    return status;
  });
}
BENCHMARK(ReduceScatterAllGather)
    ->ArgNames({"backend", "ranks", "bytes", "allocated"})
    ->ArgsProduct({{2}, {2, 4}, {1 << 20, 4 << 20, 32 << 20}, {0, 1}})
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
}  // namespace muster
