#include "server/shard/jobs/takeover.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/jobs/partition_start.h"
#include "server/shard/partition/journal/partition_journal.h"

namespace muster {

Takeover::Takeover(std::shared_ptr<const JobTables> next, OpenJob* ended,
                   const ShardResources& resources)
    : next_(std::move(next)), ended_(ended), resources_(resources) {}

absl::Status Takeover::Lost(uint32_t partition, absl::string_view why) const {
  return WithLostState(
      absl::FailedPreconditionError(absl::StrCat(
          "generation ", next_->generation(), " of job ", next_->job_id(),
          " goes on from generation ", next_->request().takes_over_generation(), ", but ", why,
          " partition ", partition, "; go back to a checkpoint under a new generation")),
      LostState::kServerState);
}

absl::Status Takeover::BringToStart(Partition& partition) const {
  MUSTER_RETURN_IF_ERROR(partition.End(GenerationFenced(
      next_->job_id(), partition.tables().job->generation(), next_->generation())));
  if (!partition.ended()) return absl::UnavailableError("the partition is torn");
  return partition.CompleteClocks(next_->request().start_clock());
}

absl::StatusOr<std::shared_ptr<const JobTables>> Takeover::Earlier(uint64_t generation,
                                                                   uint32_t slots) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<const JobTables>& tables = earlier_[{generation, slots}];
  if (tables == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(tables, next_->Earlier(generation, slots));
  }
  return tables;
}

absl::Status Takeover::PrepareOpen(PartitionExecutor& executor, bool& whole) {
  const JobTables& open = ended_->tables();
  MUSTER_ASSIGN_OR_RETURN(const std::shared_ptr<const JobTables> earlier,
                          Earlier(open.generation(), open.slots()));
  if (earlier->fingerprint() != open.fingerprint()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tables of job ", next_->job_id(), " under generation ",
                     next_->generation(), " differ from those of generation ", open.generation(),
                     " by more than the number of slots; they cannot be taken over"));
  }
  return executor.Visit([&](Partition& visited) {
    const absl::Status status = BringToStart(visited);
    whole = visited.ended();
    return status;
  });
}

absl::Status Takeover::Prepare(uint32_t partition) {
  const OpenJob::Found found = ended_ == nullptr ? OpenJob::Found() : ended_->Find(partition);
  if (found.partition != nullptr) {
    bool whole = true;
    const absl::Status status = PrepareOpen(*found.partition, whole);
    if (whole) return status;
    // It has failed, before or in this. Its files are whole.
    if (!next_->durable()) return Lost(partition, "there was an error in");
    absl::MutexLock lock(&mutex_);
    ended_->TakeOut(partition, OpenJob::Absence::kFailed);
  } else if (found.absence == OpenJob::Absence::kStandsStill) {
    return absl::UnavailableError(StandsStillError(next_->job_id(), partition).message());
  }
  if (!next_->durable()) return Lost(partition, "this server does not have");
  const absl::Status status = PrepareStored(partition);
  return absl::IsResourceExhausted(status) ? absl::UnavailableError(status.message()) : status;
}

absl::Status Takeover::PrepareStored(uint32_t partition) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                          ReadPartitionState(*resources_.store, next_->job_id(), partition));
  if (state == nullptr || state->left()) return Lost(partition, "this server does not have");
  if (state->leaving_term() > 0) {
    return absl::UnavailableError(StandsStillError(next_->job_id(), partition).message());
  }
  if (state->generation() < next_->request().takes_over_generation()) {
    return Lost(partition, "this server has an older generation of");
  }
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const JobTables> earlier,
                          Earlier(state->generation(), state->slots_size()));
  const auto go_on = [&]() -> absl::Status {
    if (!resources_.unwanted(next_->job_id(), next_->generation())) return absl::OkStatus();
    return UnwantedError(next_->job_id(), next_->generation());
  };
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<Partition> recovered,
      RecoverPartition(std::move(earlier), partition, *state, nullptr, resources_, go_on));
  MUSTER_RETURN_IF_ERROR(BringToStart(*recovered));
  absl::MutexLock lock(&mutex_);
  recovered_[partition] = std::move(recovered);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Partition>> Takeover::Take(uint32_t partition,
                                                          std::shared_ptr<Executor> strand) {
  std::unique_ptr<Partition> ended;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = recovered_.find(partition); found != recovered_.end()) {
      ended = std::move(found->second);
    }
  }
  if (ended == nullptr) {
    ended = ended_->GiveAway(partition)->Release(
        GenerationFenced(next_->job_id(), ended_->tables().generation(), next_->generation()));
  }
  Partition::Remains remains = Partition::TakeApart(std::move(ended));
  remains.tables->GoOnWith(next_);
  std::unique_ptr<Partition> made = MakePartition(
      std::move(remains.tables), std::move(remains.journal), std::move(strand), resources_);
  MUSTER_RETURN_IF_ERROR(made->GoOnFrom(*remains.state));
  if (made->journal() != nullptr) {
    MUSTER_RETURN_IF_ERROR(made->StartJournal(PartitionJournal::Extent::kChanged));
  }
  if (resources_.crash_point->Pass("taken_over")) return absl::UnavailableError("crashed");
  return made;
}

}  // namespace muster
