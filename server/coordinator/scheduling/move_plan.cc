#include "server/coordinator/scheduling/move_plan.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/coordinator/cluster/cluster_room.h"
#include "server/coordinator/cluster/shard_map.h"

namespace muster {
namespace {

// Servers that may take a partition, the best first.
std::vector<const ServerRoom*> Takers(const v1::JobRecord& record, uint32_t partition,
                                      const ClusterRoom& room,
                                      const absl::flat_hash_set<std::string>& excluded) {
  std::vector<const ServerRoom*> takers;
  for (const ServerRoom& server : room.servers) {
    // Remains of an earlier move are to be deleted there.
    const bool has_remains =
        std::any_of(record.moves().begin(), record.moves().end(), [&](const v1::MoveRecord& move) {
          return move.partition() == partition && (move.from_server() == server.place.server_id ||
                                                   move.to_server() == server.place.server_id);
        });
    if (!has_remains && !excluded.contains(server.place.server_id)) takers.push_back(&server);
  }
  std::stable_sort(takers.begin(), takers.end(), [&](const ServerRoom* a, const ServerRoom* b) {
    const uint32_t a_has = CountPartitions(a->place.server_id, record),
                   b_has = CountPartitions(b->place.server_id, record);
    return a_has != b_has ? a_has < b_has : a->free_bytes > b->free_bytes;
  });
  return takers;
}

std::string Rooms(const std::vector<const ServerRoom*>& servers) {
  std::string text;
  for (const ServerRoom* server : servers) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", server->place.server_id, " has ",
                    FormatBytes(server->free_bytes), " free");
  }
  return text.empty() ? "there is no other live server" : text;
}

std::optional<PlannedMove> NextForBalance(const v1::JobRecord& record, const ClusterRoom& room,
                                          const absl::flat_hash_set<std::string>& excluded) {
  std::map<std::string, std::vector<uint32_t>> held;
  for (const v1::PartitionPlacement& placement : record.partitions()) {
    held[OwnerOf(placement.partition(), record)].push_back(placement.partition());
  }
  const bool more_servers = record.spec().servers() == 0 || held.size() < record.spec().servers();
  const auto most = std::max_element(held.begin(), held.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most == held.end()) return std::nullopt;
  const uint32_t partition = most->second.back();
  for (const ServerRoom* taker : Takers(record, partition, room, excluded)) {
    const uint32_t has = CountPartitions(taker->place.server_id, record);
    if (has + 1 >= most->second.size()) break;
    if (taker->free_bytes < BytesPerPartition(record)) continue;
    if (has == 0 && !more_servers) continue;
    return PlannedMove{partition, most->first, taker->place.server_id};
  }
  return std::nullopt;
}

}  // namespace

uint32_t CountPartitions(const std::string& server_id, const v1::JobRecord& record) {
  return std::count_if(record.partitions().begin(), record.partitions().end(),
                       [&](const v1::PartitionPlacement& placement) {
                         return OwnerOf(placement.partition(), record) == server_id;
                       });
}

absl::StatusOr<std::optional<PlannedMove>> NextMove(
    const v1::JobRecord& record, const ClusterRoom& room,
    const std::set<std::string, std::less<>>& draining,
    const absl::flat_hash_set<std::string>& excluded) {
  const uint64_t bytes = BytesPerPartition(record);
  for (const v1::PartitionPlacement& placement : record.partitions()) {
    const std::string owner = OwnerOf(placement.partition(), record);
    if (draining.count(owner) == 0) continue;
    const auto takers = Takers(record, placement.partition(), room, excluded);
    for (const ServerRoom* taker : takers) {
      if (taker->free_bytes < bytes) continue;
      return PlannedMove{placement.partition(), owner, taker->place.server_id};
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("partition ", placement.partition(), " of job ", record.job_id(), " needs ",
                     FormatBytes(bytes), " elsewhere: ", Rooms(takers),
                     "; start another server, or end the drain"));
  }
  if (!record.rebalance()) return std::optional<PlannedMove>();
  return NextForBalance(record, room, excluded);
}

absl::Status FitsElsewhere(const v1::JobRecord& record, const Demand& demand, ClusterRoom room) {
  for (ServerRoom& server : room.servers) {
    if (server.free_bytes == kUnlimitedBytes) continue;
    for (const v1::ServerRecord& own : record.servers()) {
      if (own.server_id() == server.place.server_id) server.free_bytes += own.reserved_bytes();
    }
  }
  Demand servers_only = demand;
  servers_only.slots = 0;
  return Place(servers_only, room).status();
}

}  // namespace muster
