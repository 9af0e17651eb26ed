#include "worker/strategy/servers/takeover.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/lost_state.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/retry.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// A server that has just started may still replay its log.
constexpr absl::Duration kEndTimeout = absl::Minutes(5);

absl::Status LostTables(absl::string_view why) {
  return WithLostState(
      absl::AbortedError(absl::StrCat(
          "the servers' tables cannot be taken over, and the job has to go back to its last "
          "checkpoint: ",
          why)),
      LostState::kServerState);
}

// Ends earlier generations on all servers of the map once.
absl::StatusOr<std::vector<v1::PartitionClocks>> EndOn(const v1::ShardMap& map,
                                                       const v1::TaskOrder& order,
                                                       const ShardRouterDependencies& servers) {
  std::map<std::string, v1::EndGenerationRequest> requests;
  for (const v1::PartitionPlacement& placement : map.partitions()) {
    for (const v1::Replica& replica : placement.replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      v1::EndGenerationRequest& request = requests[replica.address()];
      request.set_job_id(order.job_id());
      request.set_next_generation(order.generation());
      request.set_oldest_generation(order.takes_over_generation());
      request.set_process_nonce(replica.process_nonce());
      v1::PartitionTerm& partition = *request.add_partitions();
      partition.set_partition(placement.partition());
      partition.set_term(replica.term());
    }
  }
  std::vector<v1::PartitionClocks> partitions;
  for (const auto& [address, request] : requests) {
    const std::unique_ptr<ParameterClient> client = servers.make_client(address);
    const absl::StatusOr<v1::EndGenerationReply> reply =
        client->EndGeneration(request, kEndTimeout);
    client->Abort(absl::CancelledError("the earlier generation has ended"));
    if (absl::IsFailedPrecondition(reply.status()) || absl::IsDataLoss(reply.status())) {
      return LostTables(reply.status().message());
    }
    MUSTER_RETURN_IF_ERROR(reply.status());
    partitions.insert(partitions.end(), reply->partitions().begin(), reply->partitions().end());
  }
  return partitions;
}

}  // namespace

absl::StatusOr<uint64_t> ClockToGoOnAt(const std::vector<v1::PartitionClocks>& partitions,
                                       uint32_t count) {
  std::map<uint32_t, uint64_t> completed;
  uint64_t furthest = 0;
  for (const v1::PartitionClocks& partition : partitions) {
    const auto& closed = partition.closed();
    if (closed.empty()) continue;
    const uint64_t all = *std::min_element(closed.begin(), closed.end());
    completed[partition.partition()] = all;
    furthest = std::max(furthest, all);
  }
  if (completed.size() < count) {
    return LostTables(
        absl::StrCat("servers have ", completed.size(), " of its ", count, " partitions"));
  }
  for (const auto& [partition, all] : completed) {
    if (all + 1 >= furthest) continue;
    return LostTables(absl::StrCat("partition ", partition, " has completed ", all,
                                   " clocks, and another one ", furthest));
  }
  return furthest;
}

absl::StatusOr<uint64_t> EndEarlierGenerations(const v1::TaskOrder& order,
                                               const ShardRouterDependencies& servers) {
  v1::ShardMap map = order.shard_map();
  std::vector<v1::PartitionClocks> partitions;
  absl::Status final;
  bool refresh = false;
  const absl::Status ended =
      Retry({.give_up_after = kServersPatience}, *servers.clock, *servers.waiter,
            Philox(order.slot(), "take over", order.job_id()), [&]() -> absl::Status {
              if (refresh) {
                absl::StatusOr<v1::ShardMap> newest = servers.newest_shard_map();
                if (absl::IsAborted(newest.status()) || absl::IsNotFound(newest.status())) {
                  final = newest.status();
                  return absl::OkStatus();
                }
                if (newest.ok()) map = *std::move(newest);
              }
              refresh = true;
              absl::StatusOr<std::vector<v1::PartitionClocks>> told = EndOn(map, order, servers);
              servers.tell_wait(IsRetryable(told.status()) ? told.status().message() : "");
              MUSTER_RETURN_IF_ERROR(told.status());
              partitions = *std::move(told);
              return absl::OkStatus();
            });
  MUSTER_RETURN_IF_ERROR(final);
  MUSTER_RETURN_IF_ERROR(ended);
  return ClockToGoOnAt(partitions, static_cast<uint32_t>(map.partitions_size()));
}

v1::TaskOrder OrderOfMember(const v1::TaskOrder& order, uint64_t start_clock) {
  v1::TaskOrder member = order;
  const auto& slots = order.member_slots();
  if (!slots.empty()) {
    const auto place = std::find(slots.begin(), slots.end(), order.slot());
    member.set_slot(static_cast<uint32_t>(place - slots.begin()));
    member.mutable_spec()->set_workers(static_cast<uint32_t>(slots.size()));
  }
  if (order.takes_over_generation() > 0) {
    member.set_start_clock(start_clock);
    member.clear_restore_uri();
    member.clear_restore_weights_only();
  }
  return member;
}

}  // namespace muster
