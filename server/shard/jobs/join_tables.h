#ifndef MUSTER_SERVER_SHARD_JOBS_JOIN_TABLES_H_
#define MUSTER_SERVER_SHARD_JOBS_JOIN_TABLES_H_

#include "absl/status/statusor.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

namespace v1 {
class OpenTablesReply;
}  // namespace v1

// Lets a task join the open partitions that the request of `tables` names: fences the slot's
// earlier tasks, and answers how many clocks each slot has closed. Errors as the rpc OpenTables.
absl::StatusOr<v1::OpenTablesReply> JoinTables(const OpenJob& job, const JobTables& tables);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_JOIN_TABLES_H_
