#include "worker/collectives/nccl/nccl_handle.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/collectives/nccl/fake_nccl.h"

namespace muster {
namespace {

// A handle with a communicator of one rank.
class NcclHandleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    const absl::Status made = handle_.Issue("connect", [&id](ncclComm_t& comm) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      return ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    });
    ASSERT_TRUE(made.ok()) << made;
  }

  void TearDown() override {
    SetFakeNcclBehaviour({});
    AbortTogether({&handle_});
  }

  // A thread that is inside NCCL with a long look at the state.
  std::thread LookLong() {
    SetFakeNcclBehaviour({.query_time = absl::Milliseconds(100)});
    const int before = GetFakeNcclCounts().queries;
    std::thread looks([this] { EXPECT_EQ(handle_.AsyncError(), ncclSuccess); });
    while (GetFakeNcclCounts().queries == before) absl::SleepFor(absl::Milliseconds(1));
    return looks;
  }

  static bool SomebodyLooks() {
    const FakeNcclCounts counts = GetFakeNcclCounts();
    return counts.queries != counts.queries_done;
  }

  NcclHandle handle_;
};

TEST_F(NcclHandleTest, ALookNeverWaitsForACallNorGoesInBesideIt) {
  absl::Notification inside;
  absl::Notification go_on;
  std::thread issues([&] {
    const absl::Status status = handle_.Issue("stay", [&](ncclComm_t&) {
      inside.Notify();
      go_on.WaitForNotification();
      return ncclSuccess;
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  inside.WaitForNotification();
  const int before = GetFakeNcclCounts().queries;
  EXPECT_EQ(handle_.AsyncError(), ncclSuccess);
  EXPECT_EQ(GetFakeNcclCounts().queries, before);
  go_on.Notify();
  issues.join();
  EXPECT_EQ(handle_.AsyncError(), ncclSuccess);
  EXPECT_EQ(GetFakeNcclCounts().queries, before + 1);
}

TEST_F(NcclHandleTest, ACallWaitsForALook) {
  std::thread looks = LookLong();
  bool beside = true;
  const absl::Status status = handle_.Issue("call", [&beside](ncclComm_t&) {
    beside = SomebodyLooks();
    return ncclSuccess;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(beside);
  looks.join();
}

TEST_F(NcclHandleTest, CallsOfTwoThreadsComeOneAfterAnother) {
  const int before = GetFakeNcclCounts().queries;
  absl::Notification inside;
  bool first_is_over = false;
  std::thread first([&] {
    bool looked = false;
    const absl::Status status = handle_.IssueWhile(
        "first",
        [&inside](ncclComm_t&) {
          inside.Notify();
          return ncclInProgress;
        },
        [&looked] {
          // Outside NCCL, but its call is not over.
          if (!looked) absl::SleepFor(absl::Milliseconds(50));
          looked = true;
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  });
  inside.WaitForNotification();
  const absl::Status status = handle_.Issue("second", [&](ncclComm_t&) {
    first_is_over = GetFakeNcclCounts().queries > before;
    return ncclSuccess;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(first_is_over);
  first.join();
}

TEST_F(NcclHandleTest, TheEndWaitsForALook) {
  std::thread looks = LookLong();
  ncclComm_t comm = handle_.Take();
  EXPECT_FALSE(SomebodyLooks());
  looks.join();
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(handle_.Take(), nullptr);
  EXPECT_EQ(handle_.Issue("late", [](ncclComm_t&) { return ncclSuccess; }).code(),
            absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace muster
