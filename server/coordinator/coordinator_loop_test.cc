#include "server/coordinator/coordinator_loop.h"

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/job/test_jobs.h"
#include "common/rpc/membership/protocol.h"
#include "gtest/gtest.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"

namespace muster {
namespace {

v1::RegisterDaemonRequest Registration(const std::string& id) {
  v1::RegisterDaemonRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_kind(v1::WORKER);
  request.set_id(id);
  request.set_process_nonce(1);
  request.set_address(id + ":1");
  request.set_slots(2);
  return request;
}

// A store that can be told to fail, and counts what it writes and what fails.
class CountingJobStore final : public JobStore {
 public:
  absl::Status Write(const JobStoreBatch& batch, Durability durability) override {
    if (!failing) {
      ++written;
      return store_.Write(batch, durability);
    }
    ++failed;
    return absl::UnavailableError("the disk is full");
  }
  absl::Status Scan(StoreTable table, absl::string_view prefix,
                    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor)
      const override {
    return store_.Scan(table, prefix, visitor);
  }

  std::atomic<bool> failing = false;
  std::atomic<int> written = 0;
  std::atomic<int> failed = 0;

 private:
  MemoryJobStore store_;
};

class CoordinatorLoopTest : public ::testing::Test {
 protected:
  CoordinatorLoopTest() {
    loop_ = *CoordinatorLoop::Create(store_, archive_, clock_, {}, [](const absl::Status&) {});
  }

  // Returns when all that was posted before has run.
  void Flush() {
    absl::Notification done;
    loop_->PostReport([&](Coordinator&) { done.Notify(); });
    done.WaitForNotification();
  }

  CountingJobStore store_;
  FakeCheckpointArchive archive_;
  RealClock clock_;
  std::unique_ptr<CoordinatorLoop> loop_;
};

TEST_F(CoordinatorLoopTest, SettlesOnceForAllWorkThatIsQueued) {
  constexpr int kPosts = 200;
  absl::Notification submitted;
  loop_->Post([&](Coordinator& coordinator) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = AllReduceJob();
    request.set_request_id("a");
    coordinator.submits().Submit(request, {.done = [&](absl::StatusOr<v1::SubmitJobReply> reply) {
                                   EXPECT_TRUE(reply.ok()) << reply.status();
                                   submitted.Notify();
                                 }});
  });
  submitted.WaitForNotification();
  absl::Notification posted;
  loop_->Post([&](Coordinator& coordinator) {
    coordinator.daemons().Register(Registration("w0"),
                                   {.done = [](auto reply) { EXPECT_TRUE(reply.ok()); }});
    EXPECT_TRUE(coordinator.daemons().AdmitRegistered().ok());
    // From now on each Settle tries to place the job, and fails.
    store_.failing = true;
    posted.WaitForNotification();
  });
  for (int i = 0; i < kPosts; ++i) loop_->Post([](Coordinator&) {});
  posted.Notify();
  Flush();
  Flush();
  EXPECT_GT(store_.failed, 0);
  // A slow machine may tick meanwhile.
  EXPECT_LT(store_.failed, kPosts / 4);
  store_.failing = false;
}

TEST_F(CoordinatorLoopTest, AReadDoesNotWaitForAllChangesThatAreQueued) {
  constexpr int kPosts = 200;
  absl::Notification posted;
  std::atomic<int> ran = 0;
  int ran_before = 0;
  loop_->Post([&](Coordinator&) { posted.WaitForNotification(); });
  for (int i = 0; i < kPosts; ++i) loop_->Post([&](Coordinator&) { ++ran; });
  loop_->PostRead([&](Coordinator&) { ran_before = ran; });
  posted.Notify();
  Flush();
  EXPECT_EQ(ran, kPosts);
  EXPECT_LE(ran_before, 1);
}

TEST_F(CoordinatorLoopTest, DaemonsThatRegisterTogetherAreStoredByOneWrite) {
  constexpr int kDaemons = 100;
  std::atomic<int> registered = 0;
  absl::Notification posted;
  loop_->Post([&](Coordinator&) { posted.WaitForNotification(); });
  for (int i = 0; i < kDaemons; ++i) {
    loop_->Post([&, i](Coordinator& coordinator) {
      coordinator.daemons().Register(Registration(absl::StrCat("w", i)), {.done = [&](auto reply) {
                                       ASSERT_TRUE(reply.ok()) << reply.status();
                                       ++registered;
                                     }});
    });
  }
  const int before = store_.written;
  posted.Notify();
  Flush();
  Flush();
  EXPECT_EQ(registered, kDaemons);
  // A slow machine may tick meanwhile.
  EXPECT_LT(store_.written - before, kDaemons / 4);
}

}  // namespace
}  // namespace muster
