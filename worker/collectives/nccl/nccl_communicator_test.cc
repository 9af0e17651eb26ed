// The NCCL backend on stand-ins for CUDA and NCCL: its own logic, on any machine with the toolkit's
// headers. tests/gpu runs the same contracts on GPUs.
#include "worker/collectives/nccl/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/device/device_fault.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/nccl/device_contract.h"
#include "worker/collectives/nccl/device_memory_for_testing.h"
#include "worker/collectives/nccl/fake_cuda.h"
#include "worker/collectives/nccl/fake_nccl.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The group whose last rank SetStopLastRank's function kills.
InProcessGroup* current_group = nullptr;
int current_size = 0;
// Ranks of the current group whose contract has ended.
std::atomic<int> ended_ranks = 0;

// Ranks as threads, each with a watch and a current device of its own, as if it were a process.
void RunRanks(int size, const std::function<void(int, Communicator&)>& body,
              const NcclGroupOptions& options = {}) {
  InProcessGroup group(size);
  current_group = &group;
  current_size = size;
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.emplace_back([&group, &body, &options, r] {
      ASSERT_EQ(cudaSetDevice(options.device), cudaSuccess);
      auto host = MakeHostCommunicator(group.Join(r), {});
      ASSERT_TRUE(host.ok()) << host.status();
      auto watch = std::make_shared<NcclWatch>();
      auto made = MakeNcclCommunicator(watch, **host, options);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ((*made)->rank(), r);
      body(r, **made);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

class DeviceContractTest : public ::testing::TestWithParam<std::tuple<const DeviceContract*, int>> {
};

TEST_P(DeviceContractTest, HoldsOnEveryRank) {
  const DeviceContract& contract = *std::get<0>(GetParam());
  const int size = std::get<1>(GetParam());
  const int before = GetFakeNcclCounts().made;
  // A second for the host's communicator to name it, then the abort.
  SetStopLastRank([] { current_group->Kill(current_size - 1); },
                  absl::Seconds(1) + NcclWatch::kAbort);
  SetAwaitOthers([](absl::Duration) {
    while (ended_ranks < current_size - 1) absl::SleepFor(absl::Milliseconds(1));
  });
  ended_ranks = 0;
  RunRanks(size, [&](int rank, Communicator& group) {
    const absl::Status status = contract.run(group);
    ++ended_ranks;
    EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status;
  });
  if (size == 1) {
    EXPECT_EQ(GetFakeNcclCounts().made, before) << "NCCL for a group of one";
  }
}

// Many ranks that make many calls, move much data each or wait for each other in turn show nothing
// more than a few, and take long on few cores.
int MostRanks(const DeviceContract& contract) {
  const std::string name = contract.name;
  if (name == "LargeReductions" || contract.calls == DeviceContract::Calls::kMany) return 3;
  if (name == "Streams" || name == "SlowRank") return 4;
  return contract.leaves == DeviceContract::Leaves::kWhole ? 15 : 8;
}

std::vector<std::tuple<const DeviceContract*, int>> Contracts() {
  std::vector<std::tuple<const DeviceContract*, int>> contracts;
  for (const DeviceContract& contract : DeviceContracts()) {
    // A thread does not stand still with the threads that report for it; MissingCall has the rest.
    if (std::string(contract.name) == "StoppedRank") continue;
    const int most = MostRanks(contract);
    for (int size : {1, 2, 3, 4, 5, 8, 15}) {
      if (most < 15 && size == 5) continue;
      if (size >= contract.least_ranks && size <= most) contracts.push_back({&contract, size});
    }
  }
  return contracts;
}

INSTANTIATE_TEST_SUITE_P(All, DeviceContractTest, ::testing::ValuesIn(Contracts()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)->name) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(NcclCommunicatorTest, AFailureAbortsAllGroupsOfAProcessInOneGroupCall) {
  const FakeNcclCounts before = GetFakeNcclCounts();
  RunRanks(2, [](int rank, Communicator& world) {
    auto part = world.Split(0, rank);
    ASSERT_TRUE(part.ok()) << part.status();
    auto other = world.Split(0, -rank);
    ASSERT_TRUE(other.ok()) << other.status();
    CollectiveCall barrier;
    if (rank == 1) (*part)->Abort("enough");
    absl::Status status;
    while (status.ok()) status = world.Run(barrier);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
    EXPECT_EQ((*other)->Run(barrier).code(), absl::StatusCode::kAborted);
  });
  const FakeNcclCounts after = GetFakeNcclCounts();
  EXPECT_EQ(after.aborts - before.aborts, 6);
  EXPECT_EQ(after.aborting_groups - before.aborting_groups, 2);
}

// The stand-in ends the process where two threads meet inside one communicator.
TEST(NcclCommunicatorTest, OneThreadAtATimeIsInsideNccl) {
  SetFakeNcclBehaviour({.query_time = absl::Milliseconds(1)});
  RunRanks(2, [](int rank, Communicator& world) {
    DeviceMemory data(64);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = 4;
    call.in = call.out = data.data();
    for (int i = 0; i < 20; ++i) {
      // The watch and a waiting caller look while the next call is issued.
      const std::shared_ptr<Work> first = world.Start(call);
      std::thread waiter([&first] { EXPECT_TRUE(first->Wait(absl::InfiniteDuration()).ok()); });
      EXPECT_TRUE(world.Run(call).ok());
      waiter.join();
    }
  });
  SetFakeNcclBehaviour({});
}

// NCCL may come to store the child when nobody waits for it any more.
TEST(NcclCommunicatorTest, ASplitThatIsGivenUpEndsWithWhatNcclMadeOfIt) {
  SetFakeNcclBehaviour({.splits_hang = true});
  const FakeNcclCounts before = GetFakeNcclCounts();
  RunRanks(3, [&before](int rank, Communicator& world) {
    std::thread user;
    if (rank == 0) {
      user = std::thread([&] {
        while (GetFakeNcclCounts().splits - before.splits < 3) {
          absl::SleepFor(absl::Milliseconds(1));
        }
        world.Abort("enough");
      });
    }
    // Ranks 0 and 1 would have a group, rank 2 none.
    const auto part = world.Split(rank == 2 ? -1 : 0, rank);
    EXPECT_EQ(part.status().code(), absl::StatusCode::kAborted) << part.status();
    EXPECT_THAT(std::string(part.status().message()), HasSubstr("enough"));
    if (user.joinable()) user.join();
  });
  const FakeNcclCounts after = GetFakeNcclCounts();
  EXPECT_EQ(after.made - before.made, 3 + 2);
  EXPECT_EQ(after.ended - before.ended, 3 + 2);
  SetFakeNcclBehaviour({});
}

TEST(NcclCommunicatorTest, ACallStuckInNcclEndsAtItsDeadline) {
  SetFakeNcclBehaviour({.calls_hang = true});
  RunRanks(2, [](int rank, Communicator& world) {
    DeviceMemory data(64);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = 4;
    call.in = call.out = data.data();
    call.timeout = absl::Milliseconds(200);
    const absl::Time begun = absl::Now();
    const absl::Status status = world.Run(call);
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_LT(absl::Now() - begun, NcclWatch::kAbort);
  });
  SetFakeNcclBehaviour({});
}

TEST(NcclCommunicatorTest, OnlyTheGroupsDeviceGetsAContext) {
  FakeTakeContexts();
  NcclGroupOptions options;
  options.device = 5;
  RunRanks(
      2,
      [](int rank, Communicator& world) {
        DeviceMemory data(64);
        CollectiveCall call;
        call.kind = Collective::kAllReduce;
        call.count = 4;
        call.in = call.out = data.data();
        // Nobody waits, so that the watch's thread sees the end.
        absl::Notification done;
        world.Start(call)->OnDone([&done](const absl::Status& status) {
          EXPECT_TRUE(status.ok()) << status;
          done.Notify();
        });
        done.WaitForNotification();
        // And another thread aborts.
        if (rank == 0) world.Abort("enough");
        absl::Status status;
        while (status.ok()) status = world.Run(call);
        EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      },
      options);
  EXPECT_THAT(FakeTakeContexts(), ElementsAre(5));
}

TEST(NcclCommunicatorTest, ACallUnderWayEndsWhenAnotherRankIsStuckOutsideIt) {
  RunRanks(2, [](int rank, Communicator& world) {
    DeviceMemory data(64);
    CollectiveCall call;
    call.kind = Collective::kSend;
    call.root = 1;
    call.count = 4;
    call.in = data.data();
    call.timeout = absl::Milliseconds(200);
    if (rank == 0) {
      // Nobody receives.
      const absl::Status status = world.Run(call);
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("send f32 x 4 to 1"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("not every rank has made this call"));
      return;
    }
    absl::Status status;
    while (status.ok()) status = world.Run(CollectiveCall());
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  });
}

TEST(NcclCommunicatorTest, WaitingIsBoundedAndTheCallGoesOn) {
  RunRanks(2, [](int rank, Communicator& world) {
    DeviceMemory data(64);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = 4;
    call.in = call.out = data.data();
    if (rank == 0) {
      const std::shared_ptr<Work> work = world.Start(call);
      EXPECT_EQ(work->Wait(absl::Milliseconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
      CollectiveCall message;
      message.kind = Collective::kReceive;
      message.root = 1;
      EXPECT_TRUE(world.Run(message).ok());
      EXPECT_TRUE(work->Wait(absl::InfiniteDuration()).ok());
      return;
    }
    // An empty message, which the other rank can only take after its short wait.
    absl::SleepFor(absl::Milliseconds(50));
    EXPECT_TRUE(world.Run(call).ok());
    CollectiveCall message;
    message.kind = Collective::kSend;
    message.root = 0;
    EXPECT_TRUE(world.Run(message).ok());
  });
}

TEST(NcclCommunicatorTest, CountsTheBytesOfARing) {
  RunRanks(4, [](int rank, Communicator& world) {
    const CollectiveTraffic before = world.traffic();
    DeviceMemory data(4096);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = 1024;
    call.in = call.out = data.data();
    ASSERT_TRUE(world.Run(call).ok());
    EXPECT_EQ(world.traffic().sent - before.sent, 2 * 3 * 1024);
    EXPECT_EQ(world.traffic().received - before.received, 2 * 3 * 1024);
  });
}

TEST(NcclCommunicatorTest, ADevicesFaultIsItsRanksAloneAndALossToTheOthers) {
  RunRanks(3, [](int rank, Communicator& world) {
    DeviceMemory data(64);
    CollectiveCall call;
    call.kind = Collective::kAllReduce;
    call.count = 4;
    call.in = call.out = data.data();
    ASSERT_TRUE(world.Run(call).ok());
    if (rank == 1) FakeDeviceFault();
    // The others' calls go well until they are told.
    absl::Status status;
    while (status.ok()) status = world.Run(call);
    if (rank == 1) {
      EXPECT_TRUE(IsDeviceFault(status)) << status;
      EXPECT_TRUE(IsDeviceFault(world.Run(call)));
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has lost its device"));
  });
}

TEST(NcclCommunicatorTest, WithoutADeviceAllRanksSaySo) {
  FakeDevicePresent(false);
  InProcessGroup group(2);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.emplace_back([&group, r] {
      auto host = MakeHostCommunicator(group.Join(r), {});
      ASSERT_TRUE(host.ok()) << host.status();
      auto made = MakeNcclCommunicator(std::make_shared<NcclWatch>(), **host, {});
      EXPECT_TRUE(IsDeviceFault(made.status())) << made.status();
      EXPECT_THAT(std::string(made.status().message()), HasSubstr("cudaErrorNoDevice"));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  FakeDevicePresent(true);
}

}  // namespace
}  // namespace muster
