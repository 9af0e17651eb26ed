#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/endpoint.h"

namespace muster {
namespace {

// Two ranks as threads, one round.
std::vector<absl::StatusOr<std::unique_ptr<Communicator>>> Connect(
    const std::vector<std::unique_ptr<CollectiveEndpoint>>& endpoints, uint64_t round,
    absl::Duration timeout = absl::Seconds(20)) {
  std::vector<absl::StatusOr<std::unique_ptr<Communicator>>> result(endpoints.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < endpoints.size(); ++rank) {
    threads.emplace_back([&endpoints, &result, rank, round, timeout] {
      CollectiveEndpoint::Group group;
      group.name = "world";
      group.round = round;
      group.secret = "secret";
      group.rank = static_cast<int>(rank);
      for (const auto& endpoint : endpoints) group.addresses.push_back(endpoint->address());
      result[rank] = endpoints[rank]->Connect(group, timeout);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

std::vector<std::unique_ptr<CollectiveEndpoint>> Endpoints(int size,
                                                           const HostEndpointOptions& options) {
  std::vector<std::unique_ptr<CollectiveEndpoint>> endpoints;
  for (int rank = 0; rank < size; ++rank) {
    endpoints.push_back(MakeHostEndpoint(options).value());
    EXPECT_LE(endpoints.back()->address().size(), 4096u);
  }
  return endpoints;
}

TEST(HostEndpointTest, ServesOneRoundAfterAnother) {
  for (const bool shared_memory : {true, false}) {
    HostEndpointOptions options;
    options.shared_memory = shared_memory;
    const auto endpoints = Endpoints(3, options);
    for (uint64_t round = 1; round <= 3; ++round) {
      auto communicators = Connect(endpoints, round);
      std::vector<std::thread> threads;
      for (auto& communicator : communicators) {
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        threads.emplace_back([&communicator] {
          float value = 1.0f + static_cast<float>((*communicator)->rank());
          CollectiveCall call;
          call.kind = Collective::kAllReduce;
          call.in = &value;
          call.out = &value;
          call.count = 1;
          call.timeout = absl::Seconds(20);
          const absl::Status status = (*communicator)->Run(call);
          EXPECT_TRUE(status.ok()) << status;
          EXPECT_EQ(value, 6.0f);
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

TEST(HostEndpointTest, AbortEndsCallsInAllItsGroups) {
  const auto endpoints = Endpoints(3, {});
  auto worlds = Connect(endpoints, 1);
  std::vector<std::thread> threads;
  absl::BlockingCounter split(3);
  absl::Notification aborted;
  for (auto& world : worlds) {
    ASSERT_TRUE(world.ok()) << world.status();
    threads.emplace_back([&world, &split, &aborted] {
      // Rank 2 is alone in its group, and makes no call in any.
      const auto group = (*world)->Split((*world)->rank() < 2 ? 0 : 1, 0).value();
      split.DecrementCount();
      if ((*world)->rank() == 2) return aborted.WaitForNotification();
      float value = 1;
      CollectiveCall call;
      call.kind = Collective::kAllReduce;
      call.in = &value;
      call.out = &value;
      call.count = 1;
      call.timeout = absl::Minutes(5);
      const bool in_world = (*world)->rank() == 0;
      const absl::Status status = in_world ? (*world)->Run(call) : group->Run(call);
      EXPECT_TRUE(absl::IsAborted(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "slot 2 stands still")) << status;
    });
  }
  split.Wait();
  endpoints[0]->Abort("slot 2 stands still");
  endpoints[1]->Abort("slot 2 stands still");
  aborted.Notify();
  for (std::thread& thread : threads) thread.join();
  // Later rounds are others.
  worlds = Connect(endpoints, 2);
  for (auto& world : worlds) EXPECT_TRUE(world.ok()) << world.status();
}

TEST(HostEndpointTest, ErrorsNameGroupAndRound) {
  auto endpoints = Endpoints(2, {});
  auto first = Connect(endpoints, 1);
  ASSERT_TRUE(first[0].ok() && first[1].ok());
  // The same round again is refused.
  const auto again = Connect(endpoints, 1, absl::Milliseconds(300));
  EXPECT_FALSE(again[0].ok());
  EXPECT_TRUE(absl::StrContains(again[0].status().message(), "world, round 1"))
      << again[0].status();
}

TEST(HostEndpointTest, AnAddressThatCannotBeListenedOnIsNamed) {
  HostEndpointOptions options;
  options.host = "192.0.2.1";  // For documentation only: no machine has it.
  const auto endpoint = MakeHostEndpoint(options);
  EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(endpoint.status().message(), "192.0.2.1")) << endpoint.status();
}

}  // namespace
}  // namespace muster
