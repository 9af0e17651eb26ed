#include "server/coordinator/scheduling/move_plan.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/text/format_bytes.h"
#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/shard_map.h"

namespace muster {
namespace {

// Returns the servers that may take a partition, the best first.
std::vector<const ServerCapacity*> Receivers(const v1::JobRecord& record, uint32_t partition,
                                             const ClusterCapacity& capacity,
                                             const absl::flat_hash_set<std::string>& excluded) {
  std::vector<const ServerCapacity*> receivers;
  for (const ServerCapacity& server : capacity.servers) {
    // The server is still to delete what an earlier move left there.
    const bool has_remains =
        std::any_of(record.moves().begin(), record.moves().end(), [&](const v1::MoveRecord& move) {
          return move.partition() == partition &&
                 (move.from_server() == server.identity.server_id ||
                  move.to_server() == server.identity.server_id);
        });
    if (!has_remains && !excluded.contains(server.identity.server_id)) receivers.push_back(&server);
  }
  std::stable_sort(receivers.begin(), receivers.end(),
                   [&](const ServerCapacity* a, const ServerCapacity* b) {
                     const uint32_t a_has = CountPartitions(a->identity.server_id, record),
                                    b_has = CountPartitions(b->identity.server_id, record);
                     return a_has != b_has ? a_has < b_has : a->free_bytes > b->free_bytes;
                   });
  return receivers;
}

std::string FreeBytes(const std::vector<const ServerCapacity*>& servers) {
  std::string text;
  for (const ServerCapacity* server : servers) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", server->identity.server_id, " has ",
                    FormatBytes(server->free_bytes), " free");
  }
  return text.empty() ? "there is no other live server" : text;
}

std::optional<PlannedMove> NextForBalance(const v1::JobRecord& record,
                                          const ClusterCapacity& capacity,
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
  for (const ServerCapacity* receiver : Receivers(record, partition, capacity, excluded)) {
    const uint32_t has = CountPartitions(receiver->identity.server_id, record);
    if (has + 1 >= most->second.size()) break;
    if (receiver->free_bytes < BytesPerPartition(record)) continue;
    if (has == 0 && !more_servers) continue;
    return PlannedMove{partition, most->first, receiver->identity.server_id};
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
    const v1::JobRecord& record, const ClusterCapacity& capacity,
    const std::set<std::string, std::less<>>& draining,
    const absl::flat_hash_set<std::string>& excluded) {
  const uint64_t bytes = BytesPerPartition(record);
  for (const v1::PartitionPlacement& placement : record.partitions()) {
    const std::string owner = OwnerOf(placement.partition(), record);
    if (draining.count(owner) == 0) continue;
    const auto receivers = Receivers(record, placement.partition(), capacity, excluded);
    for (const ServerCapacity* receiver : receivers) {
      if (receiver->free_bytes < bytes) continue;
      return PlannedMove{placement.partition(), owner, receiver->identity.server_id};
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("partition ", placement.partition(), " of job ", record.job_id(), " needs ",
                     FormatBytes(bytes), " elsewhere: ", FreeBytes(receivers),
                     "; start another server, or end the drain"));
  }
  if (!record.rebalance()) return std::optional<PlannedMove>();
  return NextForBalance(record, capacity, excluded);
}

absl::Status FitsElsewhere(const v1::JobRecord& record, const Demand& demand,
                           ClusterCapacity capacity) {
  for (ServerCapacity& server : capacity.servers) {
    if (server.free_bytes == kUnlimitedBytes) continue;
    for (const v1::ServerRecord& own : record.servers()) {
      if (own.server_id() == server.identity.server_id) server.free_bytes += own.reserved_bytes();
    }
  }
  Demand servers_only = demand;
  servers_only.slots = 0;
  return Place(servers_only, capacity).status();
}

}  // namespace muster
