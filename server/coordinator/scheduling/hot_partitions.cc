#include "server/coordinator/scheduling/hot_partitions.h"

#include <algorithm>

#include "server/coordinator/cluster/cluster_capacity.h"
#include "server/coordinator/cluster/shard_map.h"

namespace muster {
namespace {

// The busiest server exceeds the mean by this factor and by so many cores.
constexpr double kAboveMean = 1.25;
constexpr double kCoresAboveMean = 0.1;
// Most that is left on the busier of the two servers, as a part of the busiest one's load.
constexpr double kMostLeft = 0.9;

// Returns whether the job may have a partition on the server: one that numbers its servers takes no
// others in.
bool MayHold(const v1::JobRecord& record, const std::string& server) {
  if (record.spec().servers() == 0 || CountPartitions(server, record) > 0) return true;
  absl::flat_hash_set<std::string> holders;
  for (const v1::PartitionPlacement& placement : record.partitions()) {
    holders.insert(OwnerOf(placement.partition(), record));
  }
  return holders.size() < record.spec().servers();
}

// Returns whether a server is still to delete what an earlier move left of the partition there.
bool HasRemains(const v1::JobRecord& record, uint32_t partition, const std::string& server) {
  return std::any_of(record.moves().begin(), record.moves().end(), [&](const v1::MoveRecord& move) {
    return move.partition() == partition &&
           (move.from_server() == server || move.to_server() == server);
  });
}

}  // namespace

std::optional<HotMove> NextHotMove(const v1::JobRecord& record, const MeasuredLoads& loads,
                                   const ClusterCapacity& capacity,
                                   const absl::flat_hash_set<std::string>& excluded) {
  if (loads.servers.size() < 2) return std::nullopt;
  double sum = 0;
  auto busiest = loads.servers.begin();
  for (auto it = loads.servers.begin(); it != loads.servers.end(); ++it) {
    sum += it->second;
    if (it->second > busiest->second) busiest = it;
  }
  const double mean = sum / static_cast<double>(loads.servers.size());
  const auto& [from, load] = *busiest;
  if (load < kAboveMean * mean || load < mean + kCoresAboveMean) return std::nullopt;
  // A job that numbers its servers leaves none of them empty.
  if (record.spec().servers() > 0 && CountPartitions(from, record) == 1) return std::nullopt;

  std::optional<HotMove> best;
  double least_left = kMostLeft * load;
  for (const ServerCapacity& server : capacity.servers) {
    const std::string& to = server.identity.server_id;
    const auto target = loads.servers.find(to);
    if (to == from || target == loads.servers.end() || excluded.contains(to) ||
        server.free_bytes < BytesPerPartition(record) || !MayHold(record, to)) {
      continue;
    }
    for (const auto& [partition, cores] : loads.partitions) {
      if (OwnerOf(partition, record) != from || HasRemains(record, partition, to)) continue;
      const double left = std::max(load - cores, target->second + cores);
      if (left > least_left || (best.has_value() && left == least_left)) continue;
      least_left = left;
      best = {
          .move = {partition, from, to}, .partition = cores, .from = load, .to = target->second};
    }
  }
  return best;
}

}  // namespace muster
