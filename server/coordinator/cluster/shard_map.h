#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_SHARD_MAP_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_SHARD_MAP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/placement.h"

namespace muster {

// A job's shard map is part of its record. Every change gives the map a higher version, by which
// holders of an old one notice. Every partition that changes hands gets a higher term than any
// partition of the job had, by which servers tell its owners apart.

// Returns where a live server's tables are.
ServerIdentity IdentityOf(const v1::DaemonRecord& server);

// Gives all partitions to the servers of a new placement.
void DealShards(const std::vector<ServerShare>& servers, v1::JobRecord& record);

// Notes a server's new incarnation and address; it keeps its partitions, under a new term.
void MoveShards(const ServerIdentity& server, v1::JobRecord& record);

// Gives one partition, which takes `bytes`, to another server, under the next term and version. A
// server that loses its last one becomes a former server: it may still hold some of it.
void MovePartition(uint32_t partition, const ServerIdentity& owner, uint64_t bytes,
                   v1::JobRecord& record);

// Notes that the server holds, or may come to hold, something of the job.
void AddFormerServer(const std::string& server_id, v1::JobRecord& record);

// Returns the id of the server that holds a partition; empty: none.
std::string OwnerOf(uint32_t partition, const v1::JobRecord& record);

// Takes all partitions away and notes who held them.
void ClearShards(v1::JobRecord& record);

// Returns the shard map as tasks get it.
v1::ShardMap ShardMapOf(const v1::JobRecord& record);

// Lists the partitions that a server holds, as "0, 2, 5".
std::string PartitionsOf(absl::string_view server_id, const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_SHARD_MAP_H_
