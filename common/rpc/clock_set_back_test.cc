// Waits while the time of day is set: they neither end early nor last longer.
//
// The clock of the machine cannot be set in a test, so the program's view of it is: it reads the
// wall clock `offset` off, while the kernel, which ends waits, keeps its own. To a wait that is the
// same as a clock that is set right after it began. What hangs on the time of day then waits an
// hour, until the test's runner ends it.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/internal/kernel_timeout.h"
#include "absl/synchronization/internal/per_thread_sem.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_credentials.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"

namespace {

constexpr int64_t kHour = 3600;
std::atomic<int64_t> offset{0};

}  // namespace

// These stand in front of the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += offset.load();
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now;
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return result;
}

namespace muster {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(20);

class ClockSetBackTest : public testing::Test {
 protected:
  ~ClockSetBackTest() override { offset.store(0); }

  static bool Never() { return false; }
};

// Each wait in turn, for kShort.
void WaitInEveryWay(const std::function<void(const char*, const std::function<bool()>&)>& check) {
  absl::Mutex mutex;
  absl::CondVar changed;
  absl::Notification notification;
  const auto never = [] { return false; };
  absl::MutexLock lock(&mutex);
  check("await", [&] { return !mutex.AwaitWithTimeout(absl::Condition(&never), kShort); });
  check("await until",
        [&] { return !mutex.AwaitWithDeadline(absl::Condition(&never), absl::Now() + kShort); });
  check("condition variable", [&] { return changed.WaitWithTimeout(&mutex, kShort); });
  check("condition variable until",
        [&] { return changed.WaitWithDeadline(&mutex, absl::Now() + kShort); });
  check("notification", [&] { return !notification.WaitForNotificationWithTimeout(kShort); });
  check("lock", [&] {
    absl::Mutex other;
    const bool locked = other.LockWhenWithTimeout(absl::Condition(&never), kShort);
    other.Unlock();
    return !locked;
  });
}

TEST_F(ClockSetBackTest, WaitsEndInTime) {
  for (const int64_t hours : {1, -1}) {
    offset.store(hours * kHour);
    WaitInEveryWay([&](const char* name, const std::function<bool()>& wait) {
      SCOPED_TRACE(absl::StrCat(name, ", clock set by ", -hours, " h"));
      const auto start = std::chrono::steady_clock::now();
      EXPECT_TRUE(wait()) << "it did not time out";
      EXPECT_GE(std::chrono::steady_clock::now() - start, absl::ToChronoMilliseconds(kShort));
    });
  }
}

TEST_F(ClockSetBackTest, AWaitThatGoesOnKeepsItsEnd) {
  offset.store(kHour);
  const absl::synchronization_internal::KernelTimeout end(absl::Now() + kShort);
  EXPECT_FALSE(ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(end));
  offset.store(0);
  EXPECT_FALSE(ABSL_INTERNAL_C_SYMBOL(AbslInternalPerThreadSemWait)(end));
}

TEST_F(ClockSetBackTest, WhoWaitsIsWoken) {
  offset.store(kHour);
  constexpr int kRounds = 2000;
  absl::Mutex mutex;
  int turn = 0;
  const auto play = [&](int parity) {
    for (int round = 0; round < kRounds; ++round) {
      const auto mine = [&] { return turn % 2 == parity; };
      absl::MutexLock lock(&mutex);
      ASSERT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&mine), absl::Hours(1)));
      ++turn;
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(turn, 2 * kRounds);
}

TEST_F(ClockSetBackTest, CallsEndAtTheirDeadlines) {
  offset.store(kHour);
  // Takes connections and never says a word.
  const int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(deaf, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(deaf, 1), 0);
  ASSERT_EQ(getsockname(deaf, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const auto stub = v1::ParameterService::NewStub(MakeChannel(
      absl::StrCat("127.0.0.1:", ntohs(address.sin_port)), RpcCredentials::PlainText()));
  for (const int64_t seconds : {kHour, int64_t{0}}) {
    offset.store(seconds);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    SetDeadline(context, absl::Milliseconds(200));
    v1::GetServerStatsReply reply;
    const grpc::Status status = stub->GetServerStats(&context, v1::GetServerStatsRequest(), &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  }
  close(deaf);
}

}  // namespace
}  // namespace muster
