#include "server/coordinator/placement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

// Free slots that a task of this size can use.
uint32_t UsableSlots(const WorkerRoom& worker, uint64_t bytes_per_slot) {
  if (bytes_per_slot == 0 || worker.free_bytes == kUnlimitedBytes) return worker.free_slots;
  return std::min<uint64_t>(worker.free_slots, worker.free_bytes / bytes_per_slot);
}

absl::Status MissingSlots(uint32_t slots, uint64_t bytes_per_slot, const ClusterRoom& room) {
  uint64_t free = 0, usable = 0;
  for (const WorkerRoom& worker : room.workers) {
    free += worker.free_slots;
    usable += UsableSlots(worker, bytes_per_slot);
  }
  if (usable >= slots) return absl::OkStatus();
  if (free >= slots) {
    return absl::ResourceExhaustedError(absl::StrCat(
        usable, " of ", slots, " worker slots free with the ", FormatBytes(bytes_per_slot),
        " that each task needs; waits for memory on workers"));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(free, " of ", slots, " worker slots free; waits for ", slots - free, " more"));
}

// Whether `count` servers, those with the most free bytes first, hold the dealt partitions.
absl::StatusOr<std::vector<ServerShare>> DealServers(const Demand& demand, ClusterRoom& room) {
  if (demand.partitions == 0) return std::vector<ServerShare>();
  std::vector<ServerRoom*> live;
  for (ServerRoom& server : room.servers) {
    if (!demand.excluded_servers.contains(server.id)) live.push_back(&server);
  }
  const size_t wanted = demand.servers == 0 ? std::max<size_t>(live.size(), 1) : demand.servers;
  const size_t count = std::min<size_t>(wanted, demand.partitions);
  if (live.size() < count) {
    return absl::ResourceExhaustedError(absl::StrCat(
        live.size(), " of ", count, " servers live; waits for ", count - live.size(), " more"));
  }
  std::stable_sort(live.begin(), live.end(), [](const ServerRoom* a, const ServerRoom* b) {
    return a->free_bytes > b->free_bytes;
  });
  live.resize(count);
  std::sort(live.begin(), live.end(),
            [](const ServerRoom* a, const ServerRoom* b) { return a->id < b->id; });

  std::vector<ServerShare> shares(count);
  const uint64_t partition_bytes =
      (demand.server_bytes + demand.partitions - 1) / demand.partitions;
  for (uint32_t p = 0; p < demand.partitions; ++p) {
    shares[p % count].partitions.push_back(p);
    shares[p % count].bytes += partition_bytes;
  }
  for (size_t i = 0; i < count; ++i) {
    if (shares[i].bytes > live[i]->free_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("server ", live[i]->id, " has ", FormatBytes(live[i]->free_bytes),
                       " free of the ", FormatBytes(shares[i].bytes),
                       " that its share of the tables needs; waits for ", "memory on servers"));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    shares[i].id = live[i]->id;
    shares[i].incarnation = live[i]->incarnation;
    shares[i].address = live[i]->address;
    if (live[i]->free_bytes != kUnlimitedBytes) live[i]->free_bytes -= shares[i].bytes;
  }
  return shares;
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) return absl::StrFormat("%.1f GiB", bytes / 1073741824.0);
  if (bytes >= 1 << 20) return absl::StrFormat("%.1f MiB", bytes / 1048576.0);
  return absl::StrCat(bytes, " bytes");
}

absl::StatusOr<std::vector<SlotPlace>> PlaceSlots(uint32_t slots, uint64_t bytes_per_slot,
                                                  ClusterRoom& room) {
  if (absl::Status status = MissingSlots(slots, bytes_per_slot, room); !status.ok()) return status;
  std::vector<SlotPlace> places;
  places.reserve(slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    WorkerRoom* best = nullptr;
    for (WorkerRoom& worker : room.workers) {
      if (UsableSlots(worker, bytes_per_slot) == 0) continue;
      if (best == nullptr || worker.free_slots > best->free_slots) best = &worker;
    }
    --best->free_slots;
    if (best->free_bytes != kUnlimitedBytes) best->free_bytes -= bytes_per_slot;
    places.push_back({best->id, best->incarnation});
  }
  return places;
}

absl::StatusOr<Assignment> Place(const Demand& demand, ClusterRoom& room) {
  ClusterRoom left = room;
  absl::StatusOr<std::vector<SlotPlace>> slots =
      PlaceSlots(demand.slots, demand.bytes_per_slot, left);
  if (!slots.ok()) return std::move(slots).status();
  absl::StatusOr<std::vector<ServerShare>> servers = DealServers(demand, left);
  if (!servers.ok()) return std::move(servers).status();
  room = std::move(left);
  return Assignment{*std::move(slots), *std::move(servers)};
}

absl::Status FitsEmpty(const Demand& demand, ClusterRoom room) {
  for (WorkerRoom& worker : room.workers) {
    worker.free_slots = worker.slots;
    worker.free_bytes = worker.bytes;
  }
  for (ServerRoom& server : room.servers) server.free_bytes = server.bytes;
  if (!room.workers.empty()) {
    if (auto slots = PlaceSlots(demand.slots, demand.bytes_per_slot, room); !slots.ok()) {
      return std::move(slots).status();
    }
  }
  if (!room.servers.empty()) {
    Demand anywhere = demand;
    anywhere.excluded_servers.clear();
    if (auto servers = DealServers(anywhere, room); !servers.ok()) {
      return std::move(servers).status();
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
