#include "server/coordinator/cluster/placement.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/tensor_groups.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WorkerCapacity Worker(const std::string& id, uint32_t slots, uint32_t free,
                      uint64_t free_bytes = kUnlimitedBytes) {
  return {.id = id,
          .incarnation = 1,
          .slots = slots,
          .free_slots = free,
          .bytes = free_bytes,
          .free_bytes = free_bytes};
}

ServerCapacity Server(const std::string& id, uint64_t free_bytes = kUnlimitedBytes) {
  return {.identity = {.server_id = id, .incarnation = 2, .address = id + ":1"},
          .bytes = free_bytes,
          .free_bytes = free_bytes};
}

std::string Reason(const Demand& demand, ClusterCapacity capacity) {
  return std::string(Place(demand, capacity).status().message());
}

TEST(PlacementTest, SpreadsSlotsAndDealsPartitionsEvenly) {
  ClusterCapacity capacity{{Worker("w0", 4, 4), Worker("w1", 4, 4)}, {Server("s0"), Server("s1")}};
  const Assignment got = *Place({.slots = 4, .partitions = 5}, capacity);
  std::map<std::string, int> slots;
  for (const SlotWorker& place : got.slots) ++slots[place.worker_id];
  EXPECT_EQ(slots["w0"], 2);
  EXPECT_EQ(slots["w1"], 2);
  ASSERT_EQ(got.servers.size(), 2);
  EXPECT_THAT(got.servers[0].partitions, ElementsAre(0, 2, 4));
  EXPECT_THAT(got.servers[1].partitions, ElementsAre(1, 3));
  EXPECT_EQ(got.servers[1].identity.address, "s1:1");
  EXPECT_EQ(capacity.workers[0].free_slots, 2);
  EXPECT_EQ(capacity.workers[1].free_slots, 2);
}

// Returns the workers that a slot by slot search takes: each time one that keeps a slot for each
// free device, then one with the most free slots, then the first.
std::vector<std::string> PlacedOneByOne(uint32_t slots, const SlotDemand& slot,
                                        std::vector<WorkerCapacity> workers) {
  std::vector<std::string> placed;
  const auto keeps = [&](const WorkerCapacity& worker) {
    return slot.devices > 0 || worker.free_devices == 0 || worker.free_slots > worker.free_devices;
  };
  for (uint32_t i = 0; i < slots; ++i) {
    WorkerCapacity* best = nullptr;
    for (WorkerCapacity& worker : workers) {
      const bool fits = worker.free_slots > 0 && worker.free_devices >= slot.devices &&
                        worker.free_bytes >= slot.bytes;
      if (!fits) continue;
      const bool better = best == nullptr || (keeps(worker) && !keeps(*best)) ||
                          (keeps(worker) == keeps(*best) && worker.free_slots > best->free_slots);
      if (better) best = &worker;
    }
    --best->free_slots;
    best->free_devices -= slot.devices;
    best->free_bytes -= slot.bytes;
    placed.push_back(best->id);
  }
  std::sort(placed.begin(), placed.end());
  return placed;
}

TEST(PlacementTest, TakesTheWorkersThatASearchForEachSlotWould) {
  std::mt19937 random(1);
  const auto draw = [&](uint32_t most) { return static_cast<uint32_t>(random() % (most + 1)); };
  for (int i = 0; i < 200; ++i) {
    ClusterCapacity capacity;
    SlotDemand slot = {.bytes = 1 + draw(2), .devices = draw(1)};
    uint32_t room = 0;
    const uint32_t workers = 1 + draw(8);
    for (uint32_t w = 0; w < workers; ++w) {
      WorkerCapacity worker = Worker("w" + std::to_string(w), 8, draw(8), draw(16));
      worker.devices = 4;
      worker.free_devices = draw(4);
      worker.device_bytes = kUnlimitedBytes;
      uint64_t fits = std::min<uint64_t>(worker.free_slots, worker.free_bytes / slot.bytes);
      if (slot.devices > 0) fits = std::min<uint64_t>(fits, worker.free_devices);
      room += static_cast<uint32_t>(fits);
      capacity.workers.push_back(worker);
    }
    if (room == 0) continue;
    const uint32_t slots = 1 + draw(room - 1);
    const std::vector<std::string> expected = PlacedOneByOne(slots, slot, capacity.workers);
    const auto got = Place({.slots = slots, .slot = slot, .partitions = 0}, capacity);
    ASSERT_TRUE(got.ok()) << got.status();
    std::vector<std::string> placed;
    for (const SlotWorker& place : got->slots) placed.push_back(place.worker_id);
    std::sort(placed.begin(), placed.end());
    EXPECT_EQ(placed, expected);
  }
}

TEST(PlacementTest, SlotsOfOneWorkerAreNeighbours) {
  ClusterCapacity capacity{{Worker("w0", 4, 2), Worker("w1", 4, 4), Worker("w2", 4, 3)}, {}};
  const Assignment got = *Place({.slots = 7, .partitions = 0}, capacity);
  std::vector<std::string> workers;
  for (const SlotWorker& place : got.slots) workers.push_back(place.worker_id);
  EXPECT_THAT(workers, ElementsAre("w1", "w1", "w1", "w2", "w2", "w0", "w0"));
}

TEST(PlacementTest, SlotsThatMustBeApartAreOnTwoWorkers) {
  ClusterCapacity capacity{{Worker("w0", 9, 8), Worker("w1", 2, 1), Worker("w2", 2, 0)}, {}};
  const Demand demand = {.slots = 4, .apart = true, .partitions = 0};
  ClusterCapacity left = capacity;
  std::map<std::string, int> slots;
  const Assignment got = *Place(demand, left);
  for (const SlotWorker& place : got.slots) ++slots[place.worker_id];
  EXPECT_EQ(slots["w0"], 3);
  EXPECT_EQ(slots["w1"], 1);
  EXPECT_EQ(left.workers[0].free_slots, 5);
  EXPECT_EQ(left.workers[1].free_slots, 0);
  EXPECT_THAT(Reason(demand, left), HasSubstr("but only worker w0 has slots for this job"));
  EXPECT_THAT(Reason({.slots = 20, .apart = true}, capacity), HasSubstr("9 of 20 worker slots"));
  EXPECT_EQ(FitsEmpty(demand, left), absl::OkStatus());
  capacity.workers.resize(1);
  EXPECT_THAT(std::string(FitsEmpty(demand, capacity).message()), HasSubstr("only worker w0"));
}

std::vector<std::string> WorkersOf(const Demand& demand, ClusterCapacity capacity) {
  const auto got = Place(demand, capacity);
  std::vector<std::string> workers;
  if (!got.ok()) return workers;
  for (const SlotWorker& place : got->slots) workers.push_back(place.worker_id);
  return workers;
}

TEST(PlacementTest, GroupsAreOnOneWorkerAsFarAsThereIsRoom) {
  // With single slots the second group would be on two workers.
  const ClusterCapacity capacity{{Worker("w0", 3, 3), Worker("w1", 2, 2), Worker("w2", 3, 3)}, {}};
  EXPECT_THAT(WorkersOf({.slots = 6, .group = 2, .partitions = 0}, capacity),
              ElementsAre("w0", "w0", "w2", "w2", "w1", "w1"));
  // The fourth group is on what the others left, and last.
  EXPECT_THAT(WorkersOf({.slots = 8, .group = 2, .partitions = 0}, capacity),
              ElementsAre("w0", "w0", "w2", "w2", "w1", "w1", "w0", "w2"));
  EXPECT_THAT(WorkersOf({.slots = 4, .group = 4, .partitions = 0}, capacity),
              ElementsAre("w0", "w0", "w0", "w2"));
}

TEST(PlacementTest, GroupsOfJobsThatMustBeApartAreOnTwoWorkers) {
  Demand demand = {.slots = 4, .group = 2, .apart = true, .partitions = 0};
  EXPECT_THAT(WorkersOf(demand, {{Worker("w0", 9, 9), Worker("w1", 2, 2)}, {}}),
              ElementsAre("w0", "w0", "w1", "w1"));
  EXPECT_THAT(WorkersOf(demand, {{Worker("w0", 9, 9), Worker("w1", 1, 1)}, {}}),
              ElementsAre("w0", "w0", "w1", "w0"));
  EXPECT_THAT(Reason(demand, {{Worker("w0", 9, 9)}, {}}), HasSubstr("only worker w0"));
}

TEST(PlacementTest, ExpertGroupsAreOnOneWorkerAsFarAsThereIsRoom) {
  const Demand demand = {.slots = 8, .group = 2, .expert_group = 4, .partitions = 0};
  EXPECT_THAT(WorkersOf(demand, {{Worker("w0", 4, 4), Worker("w1", 3, 3), Worker("w2", 4, 4)}, {}}),
              ElementsAre("w0", "w0", "w0", "w0", "w2", "w2", "w2", "w2"));
  // A group that is divided comes after one that is not, and its own groups stay whole.
  EXPECT_THAT(WorkersOf(demand, {{Worker("w0", 3, 3), Worker("w1", 5, 5), Worker("w2", 2, 2)}, {}}),
              ElementsAre("w1", "w1", "w1", "w1", "w0", "w0", "w2", "w2"));
  EXPECT_THAT(WorkersOf({.slots = 4, .expert_group = 4, .partitions = 0},
                        {{Worker("w0", 3, 3), Worker("w1", 1, 1)}, {}}),
              ElementsAre("w0", "w0", "w0", "w1"));
}

TEST(PlacementTest, ExpertGroupsOfJobsThatMustBeApartAreOnTwoWorkers) {
  Demand demand = {.slots = 4, .expert_group = 2, .apart = true, .partitions = 0};
  const ClusterCapacity capacity = {{Worker("w0", 9, 9), Worker("w1", 2, 2)}, {}};
  EXPECT_THAT(WorkersOf(demand, capacity), ElementsAre("w0", "w0", "w1", "w1"));
  demand.expert_group = 4;
  EXPECT_THAT(WorkersOf(demand, capacity), ElementsAre("w0", "w0", "w0", "w1"));
}

TEST(PlacementTest, ASlotGoesToThePreferredWorkerThatHasRoom) {
  ClusterCapacity capacity{{Worker("w0", 3, 3), Worker("w1", 1, 1), Worker("w2", 1, 0)}, {}};
  EXPECT_EQ(PlaceSlot({}, {"w2", "w1"}, capacity)->worker_id, "w1");
  EXPECT_EQ(PlaceSlot({}, {"w2", "w1"}, capacity)->worker_id, "w0");
  EXPECT_EQ(capacity.workers[0].free_slots, 2);
}

TEST(TensorGroupsTest, AreNamedWhereTheySpanWorkers) {
  v1::JobRecord record;
  record.mutable_spec()->set_workers(6);
  for (const char* worker : {"a", "a", "b", "c", "b", ""}) {
    record.add_slots()->set_worker_id(worker);
  }
  EXPECT_THAT(SplitTensorGroups(record), ::testing::IsEmpty());
  record.mutable_spec()->mutable_parallelism()->set_tensor(2);
  EXPECT_THAT(SplitTensorGroups(record),
              ElementsAre("tensor group of slots 2-3 spans workers b and c"));
  EXPECT_THAT(WorkersOfTensorGroup(record, 5), ElementsAre("b"));
  EXPECT_THAT(WorkersOfTensorGroup(record, 2), ElementsAre("c"));
  record.mutable_spec()->mutable_parallelism()->set_tensor(3);
  EXPECT_THAT(SplitTensorGroups(record),
              ElementsAre("tensor group of slots 0-2 spans workers a and b",
                          "tensor group of slots 3-5 spans workers c and b"));
  record.mutable_spec()->mutable_parallelism()->set_context(2);
  EXPECT_THAT(
      SplitTensorGroups(record),
      ElementsAre("group of context and tensor ranks of slots 0-5 spans workers a, b and c"));
  record.mutable_spec()->mutable_parallelism()->set_tensor(1);
  EXPECT_THAT(SplitTensorGroups(record),
              ElementsAre("context group of slots 2-3 spans workers b and c"));
}

TEST(PlacementTest, AllOrNothing) {
  ClusterCapacity capacity{{Worker("w0", 4, 2)}, {}};
  EXPECT_FALSE(Place({.slots = 2, .partitions = 4}, capacity).ok());
  EXPECT_EQ(capacity.workers[0].free_slots, 2) << "nothing was taken";
}

TEST(PlacementTest, SaysWhatItWaitsFor) {
  EXPECT_THAT(Reason({.slots = 4}, {{Worker("w0", 4, 2)}, {Server("s0")}}),
              HasSubstr("2 of 4 worker slots free; waits for 2 more"));
  EXPECT_THAT(Reason({.slots = 1}, {{Worker("w0", 4, 2)}, {}}),
              HasSubstr("0 of 1 servers live; waits for 1 more"));
  EXPECT_THAT(
      Reason({.slots = 2, .slot = {.bytes = 100}}, {{Worker("w0", 4, 4, 150)}, {Server("s0")}}),
      HasSubstr("1 of 2 worker slots free with the 100 bytes that each task needs"));
  EXPECT_THAT(Reason({.slots = 1, .server_bytes = 3 << 20},
                     {{Worker("w0", 4, 4)}, {Server("s0", 1 << 20)}}),
              HasSubstr("server s0 has 1.0 MiB free of the 3.0 MiB"));
}

TEST(PlacementTest, AccountsForBytes) {
  ClusterCapacity capacity{{Worker("w0", 4, 4, 1000)}, {Server("s0", 500), Server("s1", 500)}};
  const Demand demand{.slots = 2, .slot = {.bytes = 300}, .partitions = 4, .server_bytes = 800};
  const Assignment got = *Place(demand, capacity);
  EXPECT_EQ(got.servers[0].bytes, 400);
  EXPECT_EQ(capacity.servers[0].free_bytes, 100);
  EXPECT_EQ(capacity.workers[0].free_bytes, 400);
  EXPECT_FALSE(Place(demand, capacity).ok());
}

TEST(PlacementTest, TakesNoMoreServersThanPartitionsAndTheEmptiestFirst) {
  ClusterCapacity capacity{{Worker("w0", 1, 1)},
                           {Server("s0", 10), Server("s1", 30), Server("s2", 20)}};
  const Assignment got = *Place({.slots = 1, .partitions = 2}, capacity);
  ASSERT_EQ(got.servers.size(), 2);
  EXPECT_EQ(got.servers[0].identity.server_id, "s1");
  EXPECT_EQ(got.servers[1].identity.server_id, "s2");
}

TEST(PlacementTest, LeavesOutServersThatStillHoldOldTables) {
  ClusterCapacity capacity{{Worker("w0", 2, 2)}, {Server("s0"), Server("s1")}};
  const Assignment got =
      *Place({.slots = 1, .partitions = 2, .excluded_servers = {"s0"}}, capacity);
  ASSERT_EQ(got.servers.size(), 1);
  EXPECT_EQ(got.servers[0].identity.server_id, "s1");
}

TEST(PlacementTest, FitsEmptyIgnoresWhatRunsAndWhatIsAbsent) {
  const ClusterCapacity busy{{Worker("w0", 4, 0)}, {}};
  EXPECT_TRUE(FitsEmpty({.slots = 4, .servers = 3, .partitions = 8}, busy).ok());
  EXPECT_THAT(std::string(FitsEmpty({.slots = 5}, busy).message()),
              HasSubstr("4 of 5 worker slots free"));
  EXPECT_TRUE(FitsEmpty({.slots = 5}, {}).ok()) << "an empty cluster may still grow";
  EXPECT_FALSE(FitsEmpty({.slots = 1, .servers = 2, .partitions = 8}, {{}, {Server("s0")}}).ok());
}

WorkerCapacity DeviceWorker(const std::string& id, uint32_t slots, uint32_t devices,
                            uint64_t device_bytes = kUnlimitedBytes) {
  WorkerCapacity worker = Worker(id, slots, slots);
  worker.devices = worker.free_devices = devices;
  worker.device_bytes = device_bytes;
  return worker;
}

TEST(PlacementTest, GivesEachTaskADeviceOfItsOwn) {
  ClusterCapacity capacity{{Worker("w0", 8, 8), DeviceWorker("w1", 4, 2), DeviceWorker("w2", 1, 2)},
                           {}};
  const Demand demand{.slots = 3, .slot = {.devices = 1}, .partitions = 0};
  const Assignment got = *Place(demand, capacity);
  std::map<std::string, int> slots;
  for (const SlotWorker& place : got.slots) ++slots[place.worker_id];
  EXPECT_EQ(slots["w1"], 2);
  EXPECT_EQ(slots["w2"], 1) << "where a slot is missing a device is of no use";
  EXPECT_EQ(capacity.workers[1].free_devices, 0);
  EXPECT_EQ(capacity.workers[2].free_devices, 1);
  EXPECT_THAT(Reason({.slots = 1, .slot = {.devices = 1}, .partitions = 0}, capacity),
              HasSubstr("0 of 1 worker slots free with a device beside them (1 of 4 devices are "
                        "free); waits for devices"));
  EXPECT_TRUE(FitsEmpty(demand, capacity).ok());
}

TEST(PlacementTest, ClustersWithTooFewDevicesAreNamed) {
  const Demand demand{.slots = 2, .slot = {.devices = 1}, .partitions = 0};
  EXPECT_THAT(std::string(FitsEmpty(demand, {{DeviceWorker("w0", 4, 1)}, {}}).message()),
              HasSubstr("compute.device is CUDA, which takes 2 devices, and the workers offer 1"));
}

TEST(PlacementTest, GivesNoTaskADeviceThatIsTooSmall) {
  const Demand demand{.slots = 2, .slot = {.devices = 1, .device_bytes = 3 << 20}, .partitions = 0};
  ClusterCapacity capacity{
      {DeviceWorker("w0", 8, 8, (3 << 20) - 1), DeviceWorker("w1", 2, 2, 3 << 20)}, {}};
  const Assignment got = *Place(demand, capacity);
  EXPECT_EQ(got.slots[0].worker_id, "w1");
  EXPECT_EQ(got.slots[1].worker_id, "w1");
  EXPECT_THAT(Reason(demand, capacity),
              HasSubstr("0 of 2 worker slots free with a device beside them "
                        "(0 of 2 devices are free)"));
  capacity.workers.pop_back();
  EXPECT_THAT(std::string(FitsEmpty(demand, capacity).message()),
              HasSubstr("takes 2 devices with 3.0 MiB, and the workers offer 0"));
}

TEST(PlacementTest, TasksWithoutDevicesLeaveThemFree) {
  ClusterCapacity capacity{{DeviceWorker("w0", 2, 2), Worker("w1", 1, 1)}, {}};
  const Assignment got = *Place({.slots = 2, .partitions = 0}, capacity);
  EXPECT_EQ(got.slots[0].worker_id, "w1");
  EXPECT_EQ(got.slots[1].worker_id, "w0") << "no other slot is left";
}

TEST(PlacementTest, WithoutPartitionsNoServerIsNeeded) {
  ClusterCapacity capacity;
  capacity.workers.push_back({.id = "w0", .slots = 2, .free_slots = 2});
  const Demand demand{.slots = 2, .partitions = 0};
  EXPECT_TRUE(FitsEmpty(demand, capacity).ok());
  const auto assignment = Place(demand, capacity);
  ASSERT_TRUE(assignment.ok()) << assignment.status();
  EXPECT_EQ(assignment->slots.size(), 2);
  EXPECT_TRUE(assignment->servers.empty());
}

}  // namespace
}  // namespace muster
