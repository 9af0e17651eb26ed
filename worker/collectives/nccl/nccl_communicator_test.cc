// The NCCL backend on stand-ins for CUDA and NCCL: its own logic, on any machine with the toolkit's
// headers. tests/gpu runs the same contracts on GPUs.
#include "worker/collectives/nccl/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/time/clock.h"
#include "common/device/device_fault.h"
#include "worker/collectives/host_communicator.h"
#include "worker/collectives/in_process_transport.h"
#include "worker/collectives/nccl/device_contract.h"
#include "worker/collectives/nccl/device_memory_for_testing.h"
#include "worker/collectives/nccl/fake_cuda.h"
#include "worker/collectives/nccl/fake_nccl.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// The group whose last rank SetStopLastRank's function kills.
InProcessGroup* current_group = nullptr;
int current_size = 0;

// Ranks as threads, each with a watch of its own, as if it were a process.
void RunRanks(int size, const std::function<void(int, Communicator&)>& body) {
  InProcessGroup group(size);
  current_group = &group;
  current_size = size;
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.emplace_back([&group, &body, r] {
      auto host = MakeHostCommunicator(group.Join(r), {});
      ASSERT_TRUE(host.ok()) << host.status();
      auto watch = std::make_shared<NcclWatch>();
      auto made = MakeNcclCommunicator(watch, **host, {});
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
  SetStopLastRank([] { current_group->Kill(current_size - 1); });
  RunRanks(size, [&](int rank, Communicator& group) {
    const absl::Status status = contract.run(group);
    EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status;
  });
  if (size == 1) {
    EXPECT_EQ(GetFakeNcclCounts().made, before) << "NCCL for a group of one";
  }
}

std::vector<std::tuple<const DeviceContract*, int>> Contracts() {
  std::vector<std::tuple<const DeviceContract*, int>> contracts;
  for (const DeviceContract& contract : DeviceContracts()) {
    for (int size : {1, 2, 3, 4, 8}) {
      // Many ranks with much data each show nothing more, and take long on few cores.
      const bool large = std::string(contract.name) == "LargeReductions" && size > 3;
      if (size >= contract.least_ranks && !large) contracts.push_back({&contract, size});
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
