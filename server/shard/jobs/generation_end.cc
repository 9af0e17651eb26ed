#include "server/shard/jobs/generation_end.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/jobs/partition_start.h"
#include "server/shard/jobs/shard_map_checks.h"
#include "server/shard/jobs/stored_job.h"
#include "server/shard/partition/journal/partition_journal.h"

namespace muster {
namespace {

using SlotClocks = std::vector<uint64_t>;

// Ends one partition after the other.
class GenerationEnd {
 public:
  GenerationEnd(const v1::EndGenerationRequest& request, OpenJob* open,
                const ShardResources& resources)
      : request_(request), open_(open), resources_(resources) {}

  // Ends the partition, and returns how many clocks each slot had closed.
  absl::StatusOr<SlotClocks> End(const v1::PartitionTerm& term) const;

 private:
  absl::Status Lost(uint32_t partition, absl::string_view why) const;
  // Returns UNAVAILABLE unless callers with this term are served by a partition that came here.
  absl::Status CheckAdopted(uint64_t adopted, const v1::PartitionTerm& term) const;
  absl::StatusOr<SlotClocks> EndOpen(uint32_t partition, PartitionExecutor& executor,
                                     bool& failed) const;
  absl::StatusOr<SlotClocks> EndStored(const v1::PartitionTerm& term) const;
  // Returns the clocks of a stored partition, by its state and log.
  absl::StatusOr<SlotClocks> StoredClocks(uint32_t partition,
                                          const v1::PartitionState& state) const;
  // Notes in the partition's state that its generation has ended, durably.
  absl::Status Mark(uint32_t partition, v1::PartitionState& state) const;

  const v1::EndGenerationRequest& request_;
  OpenJob* const open_;
  const ShardResources& resources_;
};

absl::Status GenerationEnd::Lost(uint32_t partition, absl::string_view why) const {
  return WithLostState(
      absl::FailedPreconditionError(absl::StrCat(
          resources_.server_name, ": generation ", request_.next_generation(), " of job ",
          request_.job_id(), " goes on from generation ", request_.oldest_generation(), ", but ",
          why, " partition ", partition, "; go back to a checkpoint under a new generation")),
      LostState::kServerState);
}

absl::Status GenerationEnd::CheckAdopted(uint64_t adopted, const v1::PartitionTerm& term) const {
  const absl::Status status = CheckTerm(adopted, request_.job_id(), term.partition(), term.term());
  return status.ok() ? status : absl::UnavailableError(status.message());
}

absl::StatusOr<SlotClocks> GenerationEnd::End(const v1::PartitionTerm& term) const {
  const uint32_t partition = term.partition();
  if (open_ == nullptr) return EndStored(term);
  const JobTables& tables = open_->tables();
  const OpenJob::Found found = open_->Find(partition);
  if (found.partition != nullptr) {
    MUSTER_RETURN_IF_ERROR(CheckAdopted(found.partition->adopted_term(), term));
  }
  if (tables.generation() == request_.next_generation() &&
      (found.partition != nullptr || found.absence != OpenJob::Absence::kNotHere)) {
    return SlotClocks(tables.slots(), tables.request().start_clock());
  }
  if (tables.generation() < request_.oldest_generation()) {
    return Lost(partition, "this server has an older generation of");
  }
  if (found.partition != nullptr) {
    bool failed = false;
    absl::StatusOr<SlotClocks> clocks = EndOpen(partition, *found.partition, failed);
    if (!failed) return clocks;
    if (!tables.durable()) return Lost(partition, "there was an error in");
    // Its files are whole.
    open_->TakeOut(partition, OpenJob::Absence::kFailed);
    return EndStored(term);
  }
  if (found.absence == OpenJob::Absence::kStandsStill) {
    return absl::UnavailableError(StandsStillError(request_.job_id(), partition).message());
  }
  return EndStored(term);
}

absl::StatusOr<SlotClocks> GenerationEnd::EndOpen(uint32_t partition, PartitionExecutor& executor,
                                                  bool& failed) const {
  SlotClocks clocks;
  MUSTER_RETURN_IF_ERROR(executor.Visit([&](Partition& visited) -> absl::Status {
    failed = visited.failed() && !visited.ended();
    if (failed) return absl::OkStatus();
    if (visited.journal() != nullptr) {
      MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                              ReadPartitionState(*resources_.store, request_.job_id(), partition));
      if (state == nullptr) return Lost(partition, "nothing is stored of");
      MUSTER_RETURN_IF_ERROR(Mark(partition, *state));
    }
    clocks = visited.lasting_clocks();
    return visited.End(GenerationFenced(request_.job_id(), open_->tables().generation(),
                                        request_.next_generation()));
  }));
  return clocks;
}

absl::StatusOr<SlotClocks> GenerationEnd::EndStored(const v1::PartitionTerm& term) const {
  const uint32_t partition = term.partition();
  if (resources_.store == nullptr) return Lost(partition, "this server does not have");
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                          ReadPartitionState(*resources_.store, request_.job_id(), partition));
  if (state == nullptr) return Lost(partition, "this server does not have");
  if (state->left() || state->leaving_term() > 0) {
    return absl::UnavailableError(absl::StrCat("partition ", partition, " of job ",
                                               request_.job_id(),
                                               " has moved, or is on its way to another server; "
                                               "refresh the shard map and try again"));
  }
  MUSTER_RETURN_IF_ERROR(CheckAdopted(state->adopted_term(), term));
  if (state->generation() > request_.next_generation()) {
    return GenerationFenced(request_.job_id(), request_.next_generation(), state->generation());
  }
  if (state->generation() == request_.next_generation()) {
    return SlotClocks(state->slots_size(), state->start_clock());
  }
  if (state->generation() < request_.oldest_generation()) {
    return Lost(partition, "this server has an older generation of");
  }
  MUSTER_ASSIGN_OR_RETURN(SlotClocks clocks, StoredClocks(partition, *state));
  MUSTER_RETURN_IF_ERROR(Mark(partition, *state));
  return clocks;
}

absl::StatusOr<SlotClocks> GenerationEnd::StoredClocks(uint32_t partition,
                                                       const v1::PartitionState& state) const {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<PartitionJournal> journal,
                          OpenStoredJournal(request_.job_id(), partition, state, resources_));
  SlotClocks closed;
  for (const v1::SlotState& slot : state.slots()) closed.push_back(slot.closed_clocks());
  uint64_t completed = state.completed_clocks();
  MUSTER_RETURN_IF_ERROR(journal->Replay(
      state.lsn(), [&](uint64_t lsn, std::shared_ptr<const v1::ExchangeRequest> record, Payload) {
        if (record->has_clip()) ++completed;
        if (!record->has_close()) return absl::OkStatus();
        if (record->slot() >= closed.size()) {
          return absl::DataLossError(absl::StrCat("log record ", lsn, " names slot ",
                                                  record->slot(), " of ", closed.size()));
        }
        ++closed[record->slot()];
        return absl::OkStatus();
      }));
  if (state.clips_by_norm()) {
    for (uint64_t& clocks : closed) clocks = std::min(clocks, completed);
  }
  return closed;
}

absl::Status GenerationEnd::Mark(uint32_t partition, v1::PartitionState& state) const {
  if (state.ended_by() >= request_.next_generation()) return absl::OkStatus();
  state.set_ended_by(request_.next_generation());
  const absl::Status stored =
      PutPartitionState(request_.job_id(), partition, state, *resources_.store);
  // A full disk takes the mark later.
  if (absl::IsResourceExhausted(stored)) return absl::UnavailableError(stored.message());
  MUSTER_RETURN_IF_ERROR(stored);
  if (resources_.crash_point->Pass("generation_ended")) return absl::UnavailableError("crashed");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::EndGenerationReply> EndPartitions(const v1::EndGenerationRequest& request,
                                                     OpenJob* open,
                                                     const ShardResources& resources) {
  const GenerationEnd end(request, open, resources);
  v1::EndGenerationReply reply;
  for (const v1::PartitionTerm& term : request.partitions()) {
    const absl::StatusOr<SlotClocks> closed = end.End(term);
    if (!closed.ok()) return DataLossIs(closed.status(), LostState::kServerState);
    v1::PartitionClocks& clocks = *reply.add_partitions();
    clocks.set_partition(term.partition());
    clocks.mutable_closed()->Assign(closed->begin(), closed->end());
  }
  return reply;
}

}  // namespace muster
