#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_SHARD_MAP_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_SHARD_MAP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/cluster/placement.h"

namespace muster {

// A job's shard map lives in its record. Every change gives it a higher version, by which holders
// of an old one find out, and every partition that changes hands a higher term than any partition
// of the job had, by which servers tell its owners apart.

// Where a live server's tables are.
ServerIdentity IdentityOf(const v1::DaemonRecord& server);

// Gives all partitions to the servers of a new placement.
void DealShards(const std::vector<ServerShare>& servers, v1::JobRecord& record);

// A server came back, under another incarnation and perhaps address: its partitions stay with it.
void MoveShards(const ServerIdentity& server, v1::JobRecord& record);

// Gives one partition to another server, under the next term and shard map version. `bytes` are
// what it takes there. The server that loses its last one may still hold some of it.
void MovePartition(uint32_t partition, const ServerIdentity& owner, uint64_t bytes,
                   v1::JobRecord& record);

// Notes that the server holds, or may come to hold, something of the job.
void AddFormerServer(const std::string& server_id, v1::JobRecord& record);

// The server that holds a partition; empty: nobody.
std::string OwnerOf(uint32_t partition, const v1::JobRecord& record);

// Takes all partitions away and notes who held them.
void ClearShards(v1::JobRecord& record);

// As tasks get it.
v1::ShardMap ShardMapOf(const v1::JobRecord& record);

// "0, 2, 5": the partitions that a server holds.
std::string PartitionsOf(absl::string_view server_id, const v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_SHARD_MAP_H_
