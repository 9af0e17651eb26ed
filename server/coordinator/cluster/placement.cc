#include "server/coordinator/cluster/placement.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

// Returns how many free slots a task of this kind may use, its size aside.
uint32_t FreeSlots(const WorkerCapacity& worker, const SlotDemand& slot) {
  if (slot.left_workers.count(worker.id) > 0) return 0;
  return slot.program && !worker.allows_programs ? 0 : worker.free_slots;
}

// Returns how many free slots a task of this size can use, devices aside.
uint32_t SlotsWithMemory(const WorkerCapacity& worker, const SlotDemand& slot) {
  const uint32_t free = FreeSlots(worker, slot);
  if (slot.bytes == 0 || worker.free_bytes == kUnlimitedBytes) return free;
  return std::min<uint64_t>(free, worker.free_bytes / slot.bytes);
}

bool HasDevices(const WorkerCapacity& worker, const SlotDemand& slot) {
  return worker.devices > 0 && worker.device_bytes >= slot.device_bytes;
}

uint32_t UsableSlots(const WorkerCapacity& worker, const SlotDemand& slot) {
  const uint32_t slots = SlotsWithMemory(worker, slot);
  if (slot.devices == 0) return slots;
  return HasDevices(worker, slot) ? std::min(slots, worker.free_devices / slot.devices) : 0;
}

// Returns how well a worker suits a slot; the least value suits best. A worker that is not to be
// avoided comes first; for a task without devices, then one that keeps a slot for each free device;
// then the one with the most free slots.
std::tuple<bool, bool, int64_t> RankOf(const WorkerCapacity& worker, const SlotDemand& slot) {
  const bool takes_devices_slot =
      slot.devices == 0 && worker.free_devices > 0 && worker.free_slots <= worker.free_devices;
  return {worker.id == slot.avoided, takes_devices_slot, -int64_t{worker.free_slots}};
}

// Takes a slot out of the worker's capacity. REQUIRES: UsableSlots(worker, slot) > 0.
SlotWorker TakeSlot(const SlotDemand& slot, WorkerCapacity& worker) {
  --worker.free_slots;
  worker.free_devices -= slot.devices;
  if (worker.free_bytes != kUnlimitedBytes) worker.free_bytes -= slot.bytes;
  return {worker.id, worker.incarnation};
}

// The workers that have room for a slot, the best first and equal ones in the cluster's order.
// Placing n slots on n workers takes n log n steps.
class WorkersByRank {
 public:
  // Both outlive the object.
  WorkersByRank(const SlotDemand& slot, ClusterCapacity& capacity)
      : slot_(slot), capacity_(capacity) {
    for (size_t i = 0; i < capacity.workers.size(); ++i) Insert(i);
  }

  // Returns the best worker for `count` slots that are to be on one, not `other_than`; nullopt if
  // no worker has so many.
  std::optional<size_t> Find(uint32_t count, absl::string_view other_than) const {
    for (const auto& [rank, i] : order_) {
      const WorkerCapacity& worker = capacity_.workers[i];
      if (UsableSlots(worker, slot_) >= count && worker.id != other_than) return i;
    }
    return std::nullopt;
  }

  // Returns how many slots a worker has for the demand.
  uint32_t UsableOf(size_t i) const { return UsableSlots(capacity_.workers[i], slot_); }

  // Takes `count` slots of a worker that Find returned for so many, and adds them to `slots`.
  void Take(uint32_t count, size_t i, std::vector<SlotWorker>& slots) {
    order_.erase({RankOf(capacity_.workers[i], slot_), i});
    for (uint32_t taken = 0; taken < count; ++taken) {
      slots.push_back(TakeSlot(slot_, capacity_.workers[i]));
    }
    Insert(i);
  }

 private:
  void Insert(size_t i) {
    const WorkerCapacity& worker = capacity_.workers[i];
    if (UsableSlots(worker, slot_) > 0) order_.emplace(RankOf(worker, slot_), i);
  }

  const SlotDemand& slot_;
  ClusterCapacity& capacity_;
  std::set<std::pair<std::tuple<bool, bool, int64_t>, size_t>> order_;
};

// Deals the partitions to the servers with the most free bytes, and takes what they need out of
// `capacity`. RESOURCE_EXHAUSTED says what is missing.
absl::StatusOr<std::vector<ServerShare>> DealServers(const Demand& demand,
                                                     ClusterCapacity& capacity) {
  if (demand.partitions == 0) return std::vector<ServerShare>();
  std::vector<ServerCapacity*> live;
  for (ServerCapacity& server : capacity.servers) {
    if (!demand.excluded_servers.contains(server.identity.server_id)) live.push_back(&server);
  }
  const size_t wanted = demand.servers == 0 ? std::max<size_t>(live.size(), 1) : demand.servers;
  const size_t count = std::min<size_t>(wanted, demand.partitions);
  if (live.size() < count) {
    return absl::ResourceExhaustedError(absl::StrCat(
        live.size(), " of ", count, " servers live; waits for ", count - live.size(), " more",
        capacity.servers.empty() ? ": the cluster has none to place it on; start one with "
                                   "muster-server, or the cluster with `muster up --servers 1`"
                                 : ""));
  }
  std::stable_sort(live.begin(), live.end(), [](const ServerCapacity* a, const ServerCapacity* b) {
    return a->free_bytes > b->free_bytes;
  });
  live.resize(count);
  std::sort(live.begin(), live.end(), [](const ServerCapacity* a, const ServerCapacity* b) {
    return a->identity.server_id < b->identity.server_id;
  });

  std::vector<ServerShare> shares(count);
  const uint64_t partition_bytes =
      (demand.server_bytes + demand.partitions - 1) / demand.partitions;
  for (uint32_t p = 0; p < demand.partitions; ++p) {
    shares[p % count].partitions.push_back(p);
    shares[p % count].bytes += partition_bytes;
  }
  for (size_t i = 0; i < count; ++i) {
    if (shares[i].bytes > live[i]->free_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "server ", live[i]->identity.server_id, " has ", FormatBytes(live[i]->free_bytes),
          " free of the ", FormatBytes(shares[i].bytes),
          " that its share of the tables needs; waits for ", "memory on servers"));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    shares[i].identity = live[i]->identity;
    if (live[i]->free_bytes != kUnlimitedBytes) live[i]->free_bytes -= shares[i].bytes;
  }
  return shares;
}

// Orders slots so that those of one worker are neighbours; workers stay in their order.
void MakeNeighbours(std::vector<SlotWorker>& slots) {
  absl::flat_hash_map<std::string, size_t> first;
  for (size_t slot = 0; slot < slots.size(); ++slot) first.try_emplace(slots[slot].worker_id, slot);
  std::stable_sort(slots.begin(), slots.end(), [&](const SlotWorker& a, const SlotWorker& b) {
    return first[a.worker_id] < first[b.worker_id];
  });
}

// Places a group on several workers, and if it is the second, one of its slots on another than the
// first. REQUIRES: the slots suffice. RESOURCE_EXHAUSTED: there is no other worker.
absl::Status DivideGroup(const Demand& demand, bool second, const std::string& first,
                         WorkersByRank& workers, std::vector<SlotWorker>& divided) {
  uint32_t left = demand.group;
  if (second) {
    const std::optional<size_t> other = workers.Find(1, first);
    if (!other.has_value()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "parallelism.zero.redundancy is 1, which keeps copies of slices on another worker "
          "daemon, but only worker ",
          first, " has slots for this job; waits for another one"));
    }
    workers.Take(1, *other, divided);
    --left;
  }
  while (left > 0) {
    const size_t worker = *workers.Find(1, /*other_than=*/"");
    const uint32_t count = std::min(left, workers.UsableOf(worker));
    workers.Take(count, worker, divided);
    left -= count;
  }
  return absl::OkStatus();
}

// Places the demand's slots; what it takes out of `capacity` is undefined after an error.
absl::StatusOr<std::vector<SlotWorker>> PlaceAllSlots(const Demand& demand,
                                                      ClusterCapacity& capacity) {
  if (absl::Status status = CheckSlots(demand.slots, demand.slot, capacity); !status.ok()) {
    return status;
  }
  WorkersByRank workers(demand.slot, capacity);
  // Slots that must be apart cannot all be one group.
  const bool experts =
      demand.expert_group > demand.group && !(demand.apart && demand.expert_group == demand.slots);
  std::vector<SlotWorker> of_experts, together, divided;
  uint32_t count = 0;
  for (uint32_t placed = 0, groups = 0; placed < demand.slots; placed += count, ++groups) {
    const std::vector<SlotWorker>& before = of_experts.empty() ? together : of_experts;
    const bool second = demand.apart && groups == 1 && divided.empty();
    const std::string first = second ? before.front().worker_id : "";
    if (experts && placed % demand.expert_group == 0) {
      count = demand.expert_group;
      if (const std::optional<size_t> worker = workers.Find(count, first)) {
        workers.Take(count, *worker, of_experts);
        continue;
      }
    }
    count = demand.group;
    if (const std::optional<size_t> worker = workers.Find(count, first)) {
      workers.Take(count, *worker, together);
      continue;
    }
    if (absl::Status status = DivideGroup(demand, second, first, workers, divided); !status.ok()) {
      return status;
    }
  }
  for (std::vector<SlotWorker>* slots : {&of_experts, &together, &divided}) MakeNeighbours(*slots);
  of_experts.insert(of_experts.end(), together.begin(), together.end());
  of_experts.insert(of_experts.end(), divided.begin(), divided.end());
  return of_experts;
}

}  // namespace

absl::Status CheckSlots(uint32_t slots, const SlotDemand& slot, const ClusterCapacity& capacity) {
  uint64_t free = 0, with_memory = 0, usable = 0, devices = 0, free_devices = 0;
  for (const WorkerCapacity& worker : capacity.workers) {
    free += FreeSlots(worker, slot);
    with_memory += SlotsWithMemory(worker, slot);
    usable += UsableSlots(worker, slot);
    if (!HasDevices(worker, slot)) continue;
    devices += worker.devices;
    free_devices += worker.free_devices;
  }
  if (usable >= slots) return absl::OkStatus();
  if (with_memory >= slots) {
    const uint64_t wanted = uint64_t{slots} * slot.devices;
    if (devices < wanted) {
      const std::string size =
          slot.device_bytes == 0 ? "" : absl::StrCat(" with ", FormatBytes(slot.device_bytes));
      return absl::ResourceExhaustedError(
          absl::StrCat("compute.device is CUDA, which takes ", wanted,
                       wanted == 1 ? " device" : " devices", size, ", and the workers offer ",
                       devices, "; waits for workers with such devices (muster-worker --devices)"));
    }
    return absl::ResourceExhaustedError(
        absl::StrCat(usable, " of ", slots, " worker slots free with a device beside them (",
                     free_devices, " of ", devices, " devices are free); waits for devices"));
  }
  if (free >= slots) {
    return absl::ResourceExhaustedError(absl::StrCat(
        with_memory, " of ", slots, " worker slots free with the ", FormatBytes(slot.bytes),
        " that each task needs; waits for memory on workers"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      free, " of ", slots, " worker slots free",
      slot.program ? " on workers that take programs (muster-worker --allow-programs)" : "",
      slot.left_workers.empty()
          ? ""
          : absl::StrCat(" beside those of ", absl::StrJoin(slot.left_workers, ", "),
                         ", which the job has left"),
      "; waits for ", slots - free, " more"));
}

absl::StatusOr<SlotWorker> PlaceSlot(const SlotDemand& slot,
                                     absl::Span<const std::string> preferred,
                                     ClusterCapacity& capacity) {
  if (absl::Status status = CheckSlots(1, slot, capacity); !status.ok()) return status;
  for (const std::string& id : preferred) {
    for (WorkerCapacity& worker : capacity.workers) {
      const bool fits = worker.id != slot.avoided && UsableSlots(worker, slot) > 0;
      if (worker.id == id && fits) return TakeSlot(slot, worker);
    }
  }
  WorkerCapacity* best = nullptr;
  for (WorkerCapacity& worker : capacity.workers) {
    if (UsableSlots(worker, slot) == 0) continue;
    if (best == nullptr || RankOf(worker, slot) < RankOf(*best, slot)) best = &worker;
  }
  return TakeSlot(slot, *best);
}

absl::StatusOr<Assignment> Place(const Demand& demand, ClusterCapacity& capacity) {
  ClusterCapacity left = capacity;
  absl::StatusOr<std::vector<SlotWorker>> slots = PlaceAllSlots(demand, left);
  if (!slots.ok()) return std::move(slots).status();
  absl::StatusOr<std::vector<ServerShare>> servers = DealServers(demand, left);
  if (!servers.ok()) return std::move(servers).status();
  capacity = std::move(left);
  return Assignment{*std::move(slots), *std::move(servers)};
}

absl::Status FitsEmpty(const Demand& demand, ClusterCapacity capacity) {
  for (WorkerCapacity& worker : capacity.workers) {
    worker.free_slots = worker.slots;
    worker.free_devices = worker.devices;
    worker.free_bytes = worker.bytes;
  }
  for (ServerCapacity& server : capacity.servers) server.free_bytes = server.bytes;
  if (!capacity.workers.empty()) {
    if (auto slots = PlaceAllSlots(demand, capacity); !slots.ok()) {
      return std::move(slots).status();
    }
  }
  if (!capacity.servers.empty()) {
    Demand anywhere = demand;
    anywhere.excluded_servers.clear();
    if (auto servers = DealServers(anywhere, capacity); !servers.ok()) {
      return std::move(servers).status();
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
