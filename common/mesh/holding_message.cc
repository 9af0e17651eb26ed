#include "common/mesh/holding_message.h"

#include "proto/task_service.pb.h"

namespace muster {

void SetHolding(const RankHolding& holding, v1::RendezvousRequest& request) {
  if (holding.clock.has_value()) request.set_replica_clock(*holding.clock);
  request.set_has_sums(holding.has_sums);
  request.set_shards(holding.shards);
  request.set_shard(holding.shard);
  for (const RankHolding::Copy& held : holding.copies) {
    v1::KeptCopy& copy = *request.add_copies();
    copy.set_shard(held.shard);
    copy.set_clock(held.clock);
    copy.set_has_sums(held.has_sums);
  }
}

RankHolding HoldingOf(const v1::RendezvousRequest& request) {
  RankHolding holding;
  if (request.has_replica_clock()) holding.clock = request.replica_clock();
  holding.has_sums = request.has_sums();
  holding.shards = static_cast<int>(request.shards());
  holding.shard = static_cast<int>(request.shard());
  for (const v1::KeptCopy& copy : request.copies()) {
    holding.copies.push_back({static_cast<int>(copy.shard()), copy.clock(), copy.has_sums()});
  }
  return holding;
}

}  // namespace muster
