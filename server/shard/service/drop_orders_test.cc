#include "server/shard/service/drop_orders.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A server whose jobs are names.
class DropOrdersTest : public ::testing::Test {
 protected:
  DropOrdersTest()
      : orders_({.drop = [this](const std::string& job_id,
                                uint64_t generation) { return Drop(job_id, generation); },
                 .held_jobs = [this]() -> absl::StatusOr<std::vector<std::string>> {
                   absl::MutexLock lock(&mutex_);
                   return std::vector<std::string>(held_.begin(), held_.end());
                 },
                 .log =
                     [this](absl::string_view line) {
                       absl::MutexLock lock(&mutex_);
                       log_.emplace_back(line);
                     }}) {}

  absl::Status Drop(const std::string& job_id, uint64_t generation) {
    absl::MutexLock lock(&mutex_);
    ++tries_;
    if (fails_) return absl::UnavailableError("the disk says no");
    dropped_.push_back(absl::StrCat(job_id, "@", generation));
    held_.erase(job_id);
    return absl::OkStatus();
  }

  void Order(const std::vector<std::pair<std::string, uint64_t>>& jobs) {
    v1::HeartbeatReply reply;
    for (const auto& [job_id, generation] : jobs) {
      reply.add_drops()->set_job_id(job_id);
      reply.mutable_drops()->rbegin()->set_generation(generation);
    }
    orders_.TakeOrders(reply);
  }

  std::vector<std::string> Reported() {
    v1::HeartbeatRequest request;
    orders_.Report(request);
    std::vector<std::string> reported;
    for (const v1::DropOrder& drop : request.drops()) {
      reported.push_back(absl::StrCat(drop.job_id(), "@", drop.generation()));
    }
    return reported;
  }
  std::vector<std::string> Held() {
    v1::HeartbeatRequest request;
    orders_.Report(request);
    return {request.held_jobs().begin(), request.held_jobs().end()};
  }

  // Waits until the thread has got to `wanted`.
  template <typename Wanted>
  void Await(Wanted wanted) {
    while (!wanted()) absl::SleepFor(absl::Milliseconds(1));
  }

  absl::Mutex mutex_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> dropped_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  bool fails_ ABSL_GUARDED_BY(mutex_) = false;
  int tries_ ABSL_GUARDED_BY(mutex_) = 0;
  DropOrders orders_;
};

TEST_F(DropOrdersTest, ReportsWhatIsDroppedAsLongAsItIsOrdered) {
  {
    absl::MutexLock lock(&mutex_);
    held_ = {"a", "b", "c"};
  }
  EXPECT_THAT(Held(), IsEmpty()) << "before it is known";
  Order({{"a", 3}, {"b", 0}});
  Await([&] { return Reported().size() == 2; });
  EXPECT_THAT(Reported(), ElementsAre("a@3", "b@0"));
  EXPECT_THAT(Held(), ElementsAre("c"));
  // A later generation is another order.
  Order({{"a", 4}, {"b", 0}});
  Await([&] { return Reported().size() == 2; });
  EXPECT_THAT(Reported(), ElementsAre("a@4", "b@0"));
  Order({});
  EXPECT_THAT(Reported(), IsEmpty());
  absl::MutexLock lock(&mutex_);
  EXPECT_THAT(dropped_, ElementsAre("a@3", "b@0", "a@4"));
}

TEST_F(DropOrdersTest, WhatFailsIsTriedAgainAndNotReported) {
  {
    absl::MutexLock lock(&mutex_);
    held_ = {"a"};
    fails_ = true;
  }
  Order({{"a", 1}});
  {
    const auto tried = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tries_ >= 2; };
    absl::MutexLock lock(&mutex_, absl::Condition(&tried));
  }
  EXPECT_THAT(Reported(), IsEmpty());
  EXPECT_THAT(Held(), ElementsAre("a"));
  {
    absl::MutexLock lock(&mutex_);
    fails_ = false;
  }
  Await([&] { return !Reported().empty(); });
  EXPECT_THAT(Reported(), ElementsAre("a@1"));
  absl::MutexLock lock(&mutex_);
  // Not once for each try.
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the disk says no")));
}

TEST_F(DropOrdersTest, OrdersWithoutDropsTellWhatIsHeld) {
  {
    absl::MutexLock lock(&mutex_);
    held_ = {"b", "a"};
  }
  absl::Mutex mutex;
  bool soon = false;
  orders_.SetReportSoon([&] {
    absl::MutexLock lock(&mutex);
    soon = true;
  });
  Order({});
  { absl::MutexLock lock(&mutex, absl::Condition(&soon)); }
  EXPECT_THAT(Held(), ElementsAre("a", "b"));
  orders_.SetReportSoon(nullptr);
}

}  // namespace
}  // namespace muster
