#include "server/coordinator/cluster/shard_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {
namespace {

void SetHolder(const ServerIdentity& server, v1::Replica& replica) {
  replica.set_server_id(server.server_id);
  replica.set_address(server.address);
  replica.set_process_nonce(server.process_nonce);
}

}  // namespace

ServerIdentity IdentityOf(const v1::DaemonRecord& server) {
  return {.server_id = server.id(),
          .incarnation = server.incarnation(),
          .address = server.address(),
          .process_nonce = server.process_nonce()};
}

void DealShards(const std::vector<ServerShare>& servers, v1::JobRecord& record) {
  size_t partitions = 0;
  for (const ServerShare& server : servers) partitions += server.partitions.size();
  const uint64_t term = record.term() + 1;
  record.set_term(term);
  record.set_shard_map_version(record.shard_map_version() + 1);
  record.clear_servers();
  record.clear_partitions();
  for (size_t p = 0; p < partitions; ++p) record.add_partitions()->set_partition(p);
  for (const ServerShare& server : servers) {
    v1::ServerRecord* stored = record.add_servers();
    stored->set_server_id(server.identity.server_id);
    stored->set_incarnation(server.identity.incarnation);
    stored->set_reserved_bytes(server.bytes);
    for (uint32_t p : server.partitions) {
      v1::Replica* replica = record.mutable_partitions(p)->add_replicas();
      SetHolder(server.identity, *replica);
      replica->set_role(v1::Replica::PRIMARY);
      replica->set_term(term);
    }
  }
}

void MoveShards(const ServerIdentity& server, v1::JobRecord& record) {
  const uint64_t term = record.term() + 1;
  record.set_term(term);
  record.set_shard_map_version(record.shard_map_version() + 1);
  for (v1::ServerRecord& stored : *record.mutable_servers()) {
    if (stored.server_id() == server.server_id) stored.set_incarnation(server.incarnation);
  }
  for (v1::PartitionPlacement& partition : *record.mutable_partitions()) {
    for (v1::Replica& replica : *partition.mutable_replicas()) {
      if (replica.server_id() != server.server_id) continue;
      SetHolder(server, replica);
      replica.set_term(term);
    }
  }
}

void AddFormerServer(const std::string& server_id, v1::JobRecord& record) {
  const auto& former = record.former_servers();
  if (std::find(former.begin(), former.end(), server_id) == former.end()) {
    record.add_former_servers(server_id);
  }
}

std::string OwnerOf(uint32_t partition, const v1::JobRecord& record) {
  for (const v1::PartitionPlacement& placement : record.partitions()) {
    if (placement.partition() == partition && placement.replicas_size() > 0) {
      return placement.replicas(0).server_id();
    }
  }
  return "";
}

void MovePartition(uint32_t partition, const ServerIdentity& owner, uint64_t bytes,
                   v1::JobRecord& record) {
  const std::string from = OwnerOf(partition, record);
  const uint64_t term = record.term() + 1;
  record.set_term(term);
  record.set_shard_map_version(record.shard_map_version() + 1);
  for (v1::PartitionPlacement& placement : *record.mutable_partitions()) {
    if (placement.partition() != partition) continue;
    v1::Replica& replica = *placement.mutable_replicas(0);
    SetHolder(owner, replica);
    replica.set_term(term);
  }
  bool known = false;
  auto& servers = *record.mutable_servers();
  for (auto server = servers.begin(); server != servers.end();) {
    if (server->server_id() == owner.server_id) {
      known = true;
      server->set_reserved_bytes(server->reserved_bytes() + bytes);
    } else if (server->server_id() == from) {
      server->set_reserved_bytes(server->reserved_bytes() -
                                 std::min<uint64_t>(server->reserved_bytes(), bytes));
      if (PartitionsOf(from, record).empty()) {
        AddFormerServer(from, record);
        server = servers.erase(server);
        continue;
      }
    }
    ++server;
  }
  if (!known) {
    v1::ServerRecord& server = *record.add_servers();
    server.set_server_id(owner.server_id);
    server.set_incarnation(owner.incarnation);
    server.set_reserved_bytes(bytes);
  }
}

void ClearShards(v1::JobRecord& record) {
  for (const v1::ServerRecord& server : record.servers()) {
    AddFormerServer(server.server_id(), record);
  }
  record.clear_servers();
  record.clear_partitions();
}

v1::ShardMap ShardMapOf(const v1::JobRecord& record) {
  v1::ShardMap map;
  map.set_job_id(record.job_id());
  map.set_generation(record.generation());
  map.set_version(record.shard_map_version());
  *map.mutable_partitions() = record.partitions();
  return map;
}

std::string PartitionsOf(absl::string_view server_id, const v1::JobRecord& record) {
  std::vector<uint32_t> held;
  for (const v1::PartitionPlacement& partition : record.partitions()) {
    for (const v1::Replica& replica : partition.replicas()) {
      if (replica.server_id() == server_id) held.push_back(partition.partition());
    }
  }
  return absl::StrJoin(held, ", ");
}

}  // namespace muster
