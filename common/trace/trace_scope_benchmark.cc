// The cost of one event: with recording off, and on with a ring that is emptied in between.
#include <vector>

#include "benchmark/benchmark.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_scope.h"

namespace muster {
namespace {

void Unbound(benchmark::State& state) {
  for (auto _ : state) {
    const TraceScope scope(ActionKind::kForward, 3);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(Unbound);

void Off(benchmark::State& state) {
  TraceRecorder recorder;
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  for (auto _ : state) {
    const TraceScope scope(ActionKind::kForward, 3);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(Off);

void On(benchmark::State& state) {
  TraceRecorder recorder;
  recorder.StartNow("job", {.first = 0, .end = 1});
  const TraceBinding bound(&recorder, TraceTrack::kTrainer);
  std::vector<TraceEvent> events;
  size_t made = 0;
  for (auto _ : state) {
    {
      const TraceScope scope(ActionKind::kForward, 3);
      benchmark::ClobberMemory();
    }
    if (++made % TraceRecorder::kEvents == 0) {
      state.PauseTiming();
      events.clear();
      recorder.Take(TraceRecorder::kEvents, events);
      state.ResumeTiming();
    }
  }
  if (recorder.dropped() > 0) state.SkipWithError("events were left out");
}
BENCHMARK(On);

}  // namespace
}  // namespace muster
