#include "common/kernels/parallel_for.h"

#include <algorithm>
#include <atomic>

#include "common/kernels/matmul.h"

// The entry of libgomp that compilers call for `#pragma omp parallel`. Declared, because the pragma
// makes each compiler link its own runtime, and oneDNN's threads are this one's.
extern "C" {
void GOMP_parallel(void (*run)(void*), void* data, unsigned threads, unsigned flags);
}

namespace muster {
namespace {

struct Team {
  // Opens what lies below to the other threads. That the runtime orders memory too, a race detector
  // that does not see into it cannot know.
  std::atomic<bool> started = false;
  std::atomic<int> finished = 0;
  std::atomic<int64_t> next_range = 0;
  int64_t n = 0;
  int64_t grain = 0;
  const absl::FunctionRef<void(int64_t, int64_t)>* body = nullptr;
};

// Whether this thread is inside a body.
thread_local bool inside = false;

void RunRanges(Team& team) {
  inside = true;
  for (;;) {
    const int64_t begin = team.next_range.fetch_add(1, std::memory_order_relaxed) * team.grain;
    if (begin >= team.n) break;
    (*team.body)(begin, std::min(begin + team.grain, team.n));
  }
  inside = false;
}

void RunMember(void* data) {
  Team& team = *static_cast<Team*>(data);
  team.started.load(std::memory_order_acquire);
  RunRanges(team);
  team.finished.fetch_add(1, std::memory_order_release);
}

}  // namespace

void ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  const int threads = ComputeThreads();
  if (threads == 1 || n <= grain || inside) {
    for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(begin + grain, n));
    return;
  }
  Team team;
  team.n = n;
  team.grain = grain;
  team.body = &body;
  team.started.store(true, std::memory_order_release);
  // As many as oneDNN runs on, even for fewer ranges: the runtime stops and makes threads when the
  // number changes.
  GOMP_parallel(RunMember, &team, static_cast<unsigned>(threads), 0);
  team.finished.load(std::memory_order_acquire);
}

}  // namespace muster
