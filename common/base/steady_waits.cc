// Takes the waits of Abseil off the time of day.
//
// Until its release of 2023 Abseil keeps the end of every timed wait (Mutex::AwaitWithTimeout,
// CondVar::WaitWithTimeout, Notification::WaitForNotificationWithTimeout and their kind) as a time
// of the wall clock, down to the futex: a clock that is set back by an hour while one waits makes
// it wait an hour more. That goes for the timers of gRPC, too, which wait on Abseil's CondVar:
// calls outlive their deadlines, and whoever joins them hangs.
//
// Every wait of Abseil goes through one function, a weak symbol so that programs can bring their
// own. This is Muster's: it translates the end to the monotonic clock when a thread begins to wait,
// and keeps to that when the thread is woken in between and goes on waiting for the same end. It is
// part of every daemon, task and client through common/daemon (linked into the executable, whose
// definitions the dynamic linker finds first), and empty with an Abseil that does not need it.
//
// What is left is the moment between Abseil's look at the wall clock and the translation.
#include "absl/base/config.h"

#if defined(ABSL_LTS_RELEASE_VERSION) && ABSL_LTS_RELEASE_VERSION < 20230802

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "absl/synchronization/internal/create_thread_identity.h"
#include "absl/synchronization/internal/kernel_timeout.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/internal/waiter.h"

#if ABSL_WAITER_MODE != ABSL_WAITER_MODE_FUTEX
#error "this Abseil does not wait on futexes; its waits need another way off the time of day"
#endif

namespace muster {
namespace {

using absl::synchronization_internal::KernelTimeout;

constexpr int64_t kSecond = 1'000'000'000;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

int64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return Nanoseconds(now);
}

// When a wait of this thread ends on the monotonic clock. REQUIRES: wall.has_timeout().
timespec SteadyEnd(KernelTimeout wall) {
  // Of the thread's last wait. The same end once more is the same wait, which was woken and has to
  // go on: two waits of one thread hardly ever end in the same microsecond.
  static thread_local int64_t last_wall = 0;
  static thread_local int64_t last_steady = 0;
  const int64_t end = Nanoseconds(wall.MakeAbsTimespec());
  if (end != last_wall) {
    last_wall = end;
    last_steady = std::max<int64_t>(0, Now(CLOCK_MONOTONIC) + (end - Now(CLOCK_REALTIME)));
  }
  return {.tv_sec = last_steady / kSecond, .tv_nsec = last_steady % kSecond};
}

// Takes one of the semaphore's posts, waiting for it; false: the time is over. The semaphore is the
// Waiter of absl/synchronization/internal/waiter.h, which counts posts in its futex; posting stays
// Abseil's own.
bool Take(std::atomic<int32_t>& posts, KernelTimeout end) {
  while (true) {
    int32_t count = posts.load(std::memory_order_relaxed);
    while (count != 0) {
      if (posts.compare_exchange_weak(count, count - 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    long result = 0;
    if (end.has_timeout()) {
      const timespec steady = SteadyEnd(end);
      result = syscall(SYS_futex, &posts, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &steady,
                       nullptr, FUTEX_BITSET_MATCH_ANY);
    } else {
      result = syscall(SYS_futex, &posts, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, nullptr);
    }
    if (result != 0 && errno == ETIMEDOUT) return false;
  }
}

}  // namespace
}  // namespace muster

// The contract is that of PerThreadSem::Wait in absl/synchronization/internal/per_thread_sem.h.
extern "C" bool ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(
    absl::synchronization_internal::KernelTimeout t) {
  absl::base_internal::ThreadIdentity* identity =
      absl::synchronization_internal::GetOrCreateCurrentThreadIdentity();
  static_assert(sizeof(std::atomic<int32_t>) ==
                sizeof(absl::synchronization_internal::Waiter));  // The futex is all it has.
  return muster::Take(*reinterpret_cast<std::atomic<int32_t>*>(identity->waiter_state.data), t);
}

#endif
