#include "common/rpc/membership/membership.h"

#include <atomic>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fake_clock_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(9);

// A coordinator that plays a script. Once it is played, calls block until they are interrupted.
class FakeCluster final : public ClusterClient {
 public:
  explicit FakeCluster(FakeClock& clock) : clock_(clock) {}

  void OnRegister(absl::StatusOr<uint64_t> incarnation) {
    absl::MutexLock lock(&mutex_);
    registrations_.push_back(std::move(incarnation));
  }
  // The answer comes after `takes` of the fake clock.
  void OnHeartbeat(absl::StatusOr<v1::HeartbeatReply> reply,
                   absl::Duration takes = absl::ZeroDuration()) {
    absl::MutexLock lock(&mutex_);
    heartbeats_.emplace_back(std::move(reply), takes);
  }

  absl::StatusOr<Registration> Register(const DaemonIdentity& daemon, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    if (absl::Status status = NextLocked(registrations_); !status.ok()) return status;
    log_.push_back("register " + daemon.id);
    auto incarnation = std::move(registrations_.front());
    registrations_.pop_front();
    if (!incarnation.ok()) return incarnation.status();
    return Registration{*incarnation, kLease};
  }

  absl::StatusOr<v1::HeartbeatReply> Heartbeat(const v1::HeartbeatRequest& request,
                                               absl::Duration timeout) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_GT(timeout, absl::Milliseconds(request.poll_ms()));
    if (request.leaving()) {
      log_.push_back(absl::StrCat("leave ", request.incarnation()));
      return v1::HeartbeatReply();
    }
    if (absl::Status status = NextLocked(heartbeats_); !status.ok()) return status;
    log_.push_back(absl::StrCat("heartbeat ", request.incarnation(), " seen ",
                                request.seen_orders_version(), " tasks ", request.tasks_size()));
    auto [reply, takes] = std::move(heartbeats_.front());
    heartbeats_.pop_front();
    clock_.Advance(takes);
    return reply;
  }

  void Interrupt() override {
    absl::MutexLock lock(&mutex_);
    interrupted_ = true;
  }

  // Waits until the script has been played and the daemon asks for more.
  std::vector<std::string> Played() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&blocked_));
    return log_;
  }
  std::vector<std::string> log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }

 private:
  template <typename Script>
  absl::Status NextLocked(const Script& script) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return interrupted_ || !script.empty();
    };
    blocked_ = script.empty();
    mutex_.Await(absl::Condition(&ready));
    blocked_ = false;
    if (std::exchange(interrupted_, false)) return absl::CancelledError("interrupted");
    return absl::OkStatus();
  }

  FakeClock& clock_;
  absl::Mutex mutex_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<absl::StatusOr<uint64_t>> registrations_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<absl::StatusOr<v1::HeartbeatReply>, absl::Duration>> heartbeats_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
};

class FakeWaiter final : public Waiter {
 public:
  explicit FakeWaiter(FakeClock& clock) : clock_(clock) {}
  bool Wait(absl::Duration duration) override {
    clock_.Advance(duration);
    absl::MutexLock lock(&mutex_);
    return !stopped_;
  }
  void Stop() override {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }

 private:
  FakeClock& clock_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

v1::HeartbeatReply Orders(uint64_t version) {
  v1::HeartbeatReply reply;
  reply.set_orders_version(version);
  return reply;
}

class MembershipTest : public ::testing::Test {
 protected:
  void Start() {
    MembershipOptions options;
    options.daemon.id = "s0";
    options.daemon.process_nonce = 77;
    MembershipCallbacks callbacks;
    callbacks.report = [this](v1::HeartbeatRequest& request) {
      for (int i = 0; i < tasks_; ++i) request.add_tasks();
    };
    callbacks.orders = [this](const v1::HeartbeatReply& reply) {
      Note(absl::StrCat("orders ", reply.orders_version()));
    };
    callbacks.registered = [this](uint64_t incarnation) {
      Note(absl::StrCat("registered ", incarnation));
    };
    callbacks.lease_lost = [this](const absl::Status& status) {
      Note(absl::StrCat("lost ", absl::StatusCodeToString(status.code())));
    };
    callbacks.trouble = [this](const absl::Status& status) {
      Note(absl::StrCat("trouble ", status.message()));
    };
    callbacks.refused = [this](const absl::Status& status) {
      Note(absl::StrCat("refused ", status.message()));
    };
    loop_ = std::make_unique<MembershipLoop>(cluster_, options, clock_, waiter_, callbacks);
  }

  void Note(std::string what) {
    absl::MutexLock lock(&mutex_);
    notes_.push_back(std::move(what));
  }
  std::vector<std::string> notes() {
    absl::MutexLock lock(&mutex_);
    return notes_;
  }
  // Blocks until the callbacks noted `count` things.
  void AwaitNotes(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return notes_.size() >= count;
    };
    mutex_.Await(absl::Condition(&enough));
  }

  FakeClock clock_;
  FakeWaiter waiter_{clock_};
  FakeCluster cluster_{clock_};
  absl::Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> tasks_{0};
  std::unique_ptr<MembershipLoop> loop_;
};

TEST_F(MembershipTest, RegistersAndHandsOnOrdersWhenTheyChange) {
  cluster_.OnRegister(4);
  cluster_.OnHeartbeat(Orders(0));
  cluster_.OnHeartbeat(Orders(0));
  cluster_.OnHeartbeat(Orders(3));
  Start();
  EXPECT_THAT(cluster_.Played(),
              ElementsAre("register s0", "heartbeat 4 seen 0 tasks 0", "heartbeat 4 seen 0 tasks 0",
                          "heartbeat 4 seen 0 tasks 0"));
  EXPECT_THAT(notes(), ElementsAre("registered 4", "orders 0", "orders 3"));
}

TEST_F(MembershipTest, LeavesCleanly) {
  cluster_.OnRegister(4);
  cluster_.OnHeartbeat(Orders(1));
  Start();
  cluster_.Played();
  loop_->Leave(absl::Seconds(1));
  EXPECT_EQ(cluster_.log().back(), "leave 4");
  loop_->Leave(absl::Seconds(1));
  EXPECT_EQ(cluster_.log().size(), 3u);
}

TEST_F(MembershipTest, StopsWithoutAWordWhenItNeverWasAMember) {
  Start();
  loop_->Leave(absl::Seconds(1));
  EXPECT_TRUE(cluster_.log().empty());
}

TEST_F(MembershipTest, KeepsTryingWhileAnotherProcessHoldsTheId) {
  for (int i = 0; i < 3; ++i) cluster_.OnRegister(absl::AlreadyExistsError("s0 is alive"));
  cluster_.OnRegister(5);
  Start();
  AwaitNotes(2);
  EXPECT_THAT(notes(), ElementsAre("trouble s0 is alive", "registered 5"));
}

TEST_F(MembershipTest, GivesUpWhenRefusedForGood) {
  cluster_.OnRegister(absl::FailedPreconditionError("protocol version 1 is not spoken here"));
  Start();
  AwaitNotes(1);
  EXPECT_THAT(notes(), ElementsAre("refused protocol version 1 is not spoken here"));
  loop_->Leave(absl::Seconds(1));
  EXPECT_THAT(cluster_.log(), ElementsAre("register s0"));
}

TEST_F(MembershipTest, RegistersAgainWhenFenced) {
  cluster_.OnRegister(4);
  cluster_.OnHeartbeat(Orders(2));
  cluster_.OnHeartbeat(absl::AbortedError("incarnation 4 is fenced"));
  cluster_.OnRegister(6);
  cluster_.OnHeartbeat(Orders(2));
  Start();
  cluster_.Played();
  AwaitNotes(5);
  // The same version again: a new incarnation has to be told.
  EXPECT_THAT(notes(),
              ElementsAre("registered 4", "orders 2", "lost ABORTED", "registered 6", "orders 2"));
}

TEST_F(MembershipTest, RidesOutAShortOutage) {
  cluster_.OnRegister(4);
  cluster_.OnHeartbeat(absl::UnavailableError("gone"));
  cluster_.OnHeartbeat(absl::UnavailableError("gone"));
  cluster_.OnHeartbeat(Orders(1));
  Start();
  cluster_.Played();
  EXPECT_THAT(notes(), ElementsAre("registered 4", "trouble gone", "orders 1"));
}

TEST_F(MembershipTest, NoticesThatItsLeaseRanOut) {
  cluster_.OnRegister(4);
  cluster_.OnHeartbeat(Orders(1));
  cluster_.OnHeartbeat(absl::DeadlineExceededError("slow"), kLease / 2);
  cluster_.OnHeartbeat(absl::DeadlineExceededError("slow"), kLease / 2);
  cluster_.OnRegister(7);
  Start();
  AwaitNotes(5);
  EXPECT_THAT(notes(), ElementsAre("registered 4", "orders 1", "trouble slow", "lost UNAVAILABLE",
                                   "registered 7"));
}

TEST_F(MembershipTest, ReportsSoonWhenAsked) {
  cluster_.OnRegister(4);
  cluster_.OnHeartbeat(Orders(1));
  Start();
  cluster_.Played();
  tasks_ = 2;
  loop_->ReportSoon();
  cluster_.OnHeartbeat(Orders(2));
  AwaitNotes(3);
  EXPECT_THAT(cluster_.log().back(), HasSubstr("tasks"));
  loop_->Leave(absl::Seconds(1));
}

}  // namespace
}  // namespace muster
