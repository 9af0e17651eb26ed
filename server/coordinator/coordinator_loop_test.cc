#include "server/coordinator/coordinator_loop.h"

#include <atomic>
#include <string>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/job/test_jobs.h"
#include "common/rpc/membership/protocol.h"
#include "gtest/gtest.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"

namespace muster {
namespace {

// A store that can be told to fail, and counts what fails.
class CountingJobStore final : public JobStore {
 public:
  absl::Status Write(const JobStoreBatch& batch, Durability durability) override {
    if (!failing) return store_.Write(batch, durability);
    ++failed;
    return absl::UnavailableError("the disk is full");
  }
  absl::Status Scan(StoreTable table, absl::string_view prefix,
                    absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)> visitor)
      const override {
    return store_.Scan(table, prefix, visitor);
  }

  std::atomic<bool> failing = false;
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
    loop_->PostRead([&](Coordinator&) { done.Notify(); });
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
    v1::RegisterDaemonRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_kind(v1::WORKER);
    request.set_id("w0");
    request.set_process_nonce(1);
    request.set_address("w0:1");
    request.set_slots(2);
    EXPECT_TRUE(coordinator.daemons().Register(request).ok());
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

}  // namespace
}  // namespace muster
