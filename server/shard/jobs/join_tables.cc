#include "server/shard/jobs/join_tables.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/jobs/shard_map_checks.h"

namespace muster {
namespace {

// Lets the task that the request names, if any, fence those before it, and returns what it learns
// of the partition.
absl::StatusOr<Partition::Entry> Enter(const v1::OpenTablesRequest& request,
                                       PartitionExecutor& partition) {
  if (request.incarnation() == 0) return Partition::Entry{.closed = partition.closed_clocks()};
  return partition.EnterTask(request.slot(), request.incarnation());
}

}  // namespace

absl::StatusOr<v1::OpenTablesReply> JoinTables(const OpenJob& job, const JobTables& tables) {
  if (job.tables().fingerprint() != tables.fingerprint()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the tables of job ", tables.job_id(), " are open under generation ", tables.generation(),
        " with another schema, update or number of slots; a changed job needs a new generation"));
  }
  v1::OpenTablesReply reply;
  for (const v1::PartitionTerm& term : tables.request().partitions()) {
    const OpenJob::Found found = job.Find(term.partition());
    const auto stands_still = [&] {
      return absl::UnavailableError(StandsStillError(tables.job_id(), term.partition()).message());
    };
    if (found.absence == OpenJob::Absence::kStandsStill) return stands_still();
    if (found.absence == OpenJob::Absence::kFailed) {
      return FailedError(tables.job_id(), term.partition());
    }
    if (found.partition == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("partition ", term.partition(), " of job ", tables.job_id(),
                       " is not on this server; refresh the shard map"));
    }
    MUSTER_RETURN_IF_ERROR(
        CheckTerm(found.partition->adopted_term(), tables.job_id(), term.partition(), term.term()));
    v1::PartitionClocks& clocks = *reply.add_partitions();
    clocks.set_partition(term.partition());
    const absl::StatusOr<Partition::Entry> entry = Enter(tables.request(), *found.partition);
    // Whoever waited for its turn may find the partition closed for a move.
    if (absl::IsResourceExhausted(entry.status()) &&
        job.partition(term.partition()) != found.partition) {
      return stands_still();
    }
    MUSTER_RETURN_IF_ERROR(entry.status());
    clocks.mutable_closed()->Assign(entry->closed.begin(), entry->closed.end());
    clocks.set_withdrawn(entry->withdrawn);
    clocks.set_closed_withdrawn(entry->closed_withdrawn);
  }
  return reply;
}

}  // namespace muster
