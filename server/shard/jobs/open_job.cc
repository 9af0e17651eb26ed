#include "server/shard/jobs/open_job.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/checkpoint/partition_checkpoint.h"
#include "server/shard/jobs/partition_start.h"
#include "server/shard/jobs/stored_job.h"
#include "server/shard/jobs/takeover.h"
#include "server/shard/partition/journal/partition_journal.h"

namespace muster {
namespace {

// Says how much of a budget is left.
std::string Available(const MemoryBudget& budget) {
  const uint64_t used = std::min(budget.used(), budget.limit());
  return absl::StrCat(budget.limit() - used, " of the server's ", budget.limit(),
                      " bytes are available");
}

}  // namespace

absl::Status StandsStillError(const std::string& job_id, uint32_t partition) {
  return absl::ResourceExhaustedError(absl::StrCat("partition ", partition, " of job ", job_id,
                                                   " is on its way to another server; try again"));
}

absl::Status FailedError(const std::string& job_id, uint32_t partition) {
  return absl::UnavailableError(
      absl::StrCat("partition ", partition, " of job ", job_id,
                   " has failed; open the job's tables again, which reads it back from its files"));
}

absl::Status GenerationFenced(const std::string& job_id, uint64_t asked, uint64_t current) {
  return absl::AbortedError(absl::StrCat("job ", job_id, " has generation ", current,
                                         " here, the request has ", asked,
                                         "; it was restarted, rejoin before going on"));
}

absl::Status UnwantedError(const std::string& job_id, uint64_t generation) {
  return absl::AbortedError(
      absl::StrCat("the tables of job ", job_id, " under generation ", generation,
                   " were dropped, or replaced by a later generation's, before they were open; "
                   "rejoin the job before opening its tables"));
}

OpenJob::OpenJob(std::shared_ptr<const JobTables> tables, const ShardResources& resources)
    : tables_(std::move(tables)), resources_(resources), memory_(*resources.budget) {}

OpenJob::~OpenJob() = default;

std::shared_ptr<PartitionExecutor> OpenJob::partition(uint32_t partition) const {
  return Find(partition).partition;
}

OpenJob::Found OpenJob::Find(uint32_t partition) const {
  absl::ReaderMutexLock lock(&mutex_);
  if (const auto open = partitions_.find(partition); open != partitions_.end()) {
    return {.partition = open->second};
  }
  const auto absent = absent_.find(partition);
  return {.absence = absent == absent_.end() ? Absence::kNotHere : absent->second};
}

OpenJob::Partitions OpenJob::partitions() const {
  absl::ReaderMutexLock lock(&mutex_);
  return partitions_;
}

void OpenJob::TakeOut(uint32_t partition, Absence absence) {
  std::shared_ptr<PartitionExecutor> taken;
  // Whatever needs memory comes first: what is taken out is closed.
  const absl::Status status = absence == Absence::kFailed
                                  ? FailedError(tables_->job_id(), partition)
                                  : StandsStillError(tables_->job_id(), partition);
  {
    absl::MutexLock lock(&mutex_);
    if (absence == Absence::kNotHere) {
      absent_.erase(partition);
    } else {
      absent_[partition] = absence;
    }
    if (auto node = partitions_.extract(partition); !node.empty()) taken = std::move(node.mapped());
  }
  if (taken == nullptr) return;
  taken->Close(status);
  const uint64_t bytes = Partition::PredictedBytes(*tables_, partition);
  memory_.Set(memory_.bytes() - std::min(memory_.bytes(), bytes));
}

absl::Status OpenJob::Reopen(uint32_t partition) {
  TakeOut(partition, Absence::kFailed);
  absl::Status status = AddPartition(partition);
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::UnavailableError(status.message());
}

absl::Status OpenJob::AddPartition(uint32_t partition) {
  const uint64_t bytes = Partition::PredictedBytes(*tables_, partition);
  if (!memory_.TryGrow(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("partition ", partition, " of job ",
                                                     tables_->job_id(), " needs ", bytes,
                                                     " bytes; ", Available(*resources_.budget)));
  }
  absl::StatusOr<std::shared_ptr<PartitionExecutor>> added = PartitionExecutor::Create(
      [&](std::shared_ptr<Executor> strand) -> absl::StatusOr<std::unique_ptr<Partition>> {
        MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Partition> continued,
                                Continue(partition, std::move(strand)));
        if (continued == nullptr) {
          return absl::FailedPreconditionError(
              absl::StrCat("partition ", partition, " of job ", tables_->job_id(),
                           " is not on this server; refresh the shard map"));
        }
        return continued;
      },
      *resources_.executor, resources_.queue_bytes);
  if (!added.ok()) {
    memory_.Set(memory_.bytes() - bytes);
    return NamingThisServer(DataLossIs(added.status(), LostState::kServerState));
  }
  absl::MutexLock lock(&mutex_);
  absent_.erase(partition);
  partitions_[partition] = *std::move(added);
  return absl::OkStatus();
}

std::shared_ptr<PartitionExecutor> OpenJob::GiveAway(uint32_t partition) {
  gave_away_ = true;
  absl::MutexLock lock(&mutex_);
  return std::move(partitions_.extract(partition).mapped());
}

void OpenJob::Close(const absl::Status& status) {
  for (auto& [index, partition] : partitions()) partition->Close(status);
  memory_.Set(0);
}

absl::StatusOr<std::shared_ptr<OpenJob>> OpenJob::Open(std::shared_ptr<const JobTables> tables,
                                                       const ShardResources& resources,
                                                       OpenJob* ended) {
  std::shared_ptr<OpenJob> job(new OpenJob(std::move(tables), resources));
  if (job->tables_->durable() && resources.store == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->tables_->job_id(),
                     " asks for durability EVERY_PUSH, but this server stores nothing; start it "
                     "with a data folder"));
  }
  if (job->tables_->cache_bytes() > 0 && resources.store == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job->tables_->job_id(),
                     " has sparse_tables.cache_bytes, so that rows must go to disk, but this "
                     "server stores nothing; start it with a data folder"));
  }
  // First, whatever then fails: a drop of older generations counts on it.
  if (resources.store != nullptr) MUSTER_RETURN_IF_ERROR(job->DropOlderGenerations());
  MUSTER_RETURN_IF_ERROR(job->CheckRoot());
  MUSTER_RETURN_IF_ERROR(job->TakeMemory(ended));
  std::optional<Takeover> takeover;
  if (job->tables_->request().takes_over_generation() > 0) {
    takeover.emplace(job->tables_, ended, resources);
  }
  const absl::Status status =
      CatchOutOfMemory(absl::StrCat("opening the tables of job ", job->tables_->job_id()),
                       [&] { return job->OpenAll(takeover ? &*takeover : nullptr); });
  if (!status.ok()) {
    job->Close(status);
    return job->NamingThisServer(status);
  }
  // Where the ended job's share went on to be used.
  job->memory_.Set(job->PredictedBytes());
  return job;
}

absl::Status OpenJob::CheckRoot() const {
  const std::string& root = tables_->request().checkpoint_root();
  if (root.empty()) return absl::OkStatus();
  const absl::Status status =
      CheckCheckpointRoot(*resources_.checkpoint_storage, root, resources_.root_check);
  if (status.ok()) return status;
  absl::StatusCode code = status.code();
  if (code == absl::StatusCode::kPermissionDenied) {
    // If the job has run, the root has become read-only since. That ends no job, here as while a
    // job goes on.
    const bool has_run = tables_->generation() > 1 || tables_->request().expect_state();
    code = has_run ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition;
  }
  return absl::Status(code, absl::StrCat("job ", tables_->job_id(), " does not start on ",
                                         resources_.server_name, ": ", status.message()));
}

absl::Status OpenJob::NamingThisServer(const absl::Status& status) const {
  const LostState lost = LostStateOf(status);
  if (lost == LostState::kNone) return status;
  return WithLostState(
      absl::Status(status.code(), absl::StrCat(resources_.server_name, ": ", status.message())),
      lost);
}

absl::Status OpenJob::CheckWanted() const {
  if (!resources_.unwanted(tables_->job_id(), tables_->generation())) return absl::OkStatus();
  return UnwantedError(tables_->job_id(), tables_->generation());
}

uint64_t OpenJob::PredictedBytes() const {
  uint64_t bytes = 0;
  for (const v1::PartitionTerm& term : tables_->request().partitions()) {
    bytes += Partition::PredictedBytes(*tables_, term.partition());
  }
  return bytes;
}

absl::Status OpenJob::TakeMemory(const OpenJob* ended) {
  const uint64_t bytes = PredictedBytes();
  const uint64_t held = ended == nullptr ? 0 : ended->memory_.bytes();
  if (memory_.TryGrow(bytes - std::min(bytes, held))) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("job ", tables_->job_id(), " needs ", bytes, " bytes for the dense blocks, ",
                   tables_->tables().sparse.size(), " sparse tables and ", tables_->slots(),
                   " slots of ", tables_->request().partitions_size(), " partitions; ",
                   Available(*resources_.budget), "; add servers or raise the budget"));
}

absl::Status OpenJob::DropOlderGenerations() {
  const std::string& job_id = tables_->job_id();
  const bool takes_over = tables_->request().takes_over_generation() > 0;
  const absl::StatusOr<std::optional<uint64_t>> read = StoredGeneration(job_id, *resources_.store);
  if (absl::IsDataLoss(read.status())) {
    // Who begins a generation needs nothing of what is stored, and all others have lost it.
    if (!tables_->request().expect_state() && !takes_over) {
      return DeleteStoredGenerations(job_id, kEveryGeneration, resources_);
    }
    return NamingThisServer(WithLostState(read.status(), LostState::kServerState));
  }
  MUSTER_RETURN_IF_ERROR(read.status());
  const std::optional<uint64_t> stored = *read;
  if (!stored.has_value() && !tables_->durable()) {
    return takes_over ? absl::OkStatus() : DropScratch();
  }
  if (!stored.has_value() || *stored == tables_->generation()) return absl::OkStatus();
  if (*stored < tables_->generation()) {
    return takes_over ? absl::OkStatus()
                      : DeleteStoredGenerations(job_id, kEveryGeneration, resources_);
  }
  return absl::AbortedError(absl::StrCat("job ", job_id, " has generation ", tables_->generation(),
                                         ", but this server stores generation ", *stored,
                                         "; rejoin the job before opening its tables"));
}

absl::Status OpenJob::DropScratch() {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, resources_.store->Jobs());
  if (!std::binary_search(jobs.begin(), jobs.end(), tables_->job_id())) return absl::OkStatus();
  return resources_.store->DropJob(tables_->job_id());
}

absl::Status OpenJob::ForEachTerm(absl::FunctionRef<absl::Status(int)> work) const {
  const int terms = tables_->request().partitions_size();
  absl::Mutex mutex;
  absl::Status failed;
  int next = 0;
  const auto run = [&] {
    for (;;) {
      int index = 0;
      {
        absl::MutexLock lock(&mutex);
        if (next == terms || !failed.ok()) return;
        index = next++;
      }
      const absl::Status status = DataLossIs(work(index), LostState::kServerState);
      absl::MutexLock lock(&mutex);
      failed.Update(status);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min(resources_.open_threads, terms); ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  return failed;
}

absl::Status OpenJob::ContinueOne(uint32_t partition,
                                  std::shared_ptr<PartitionExecutor>& opened) const {
  bool stored = true;
  absl::StatusOr<std::shared_ptr<PartitionExecutor>> made = PartitionExecutor::Create(
      [&](std::shared_ptr<Executor> strand) -> absl::StatusOr<std::unique_ptr<Partition>> {
        MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Partition> continued,
                                Continue(partition, std::move(strand)));
        stored = continued != nullptr;
        if (!stored) return absl::NotFoundError("nothing is stored");
        return continued;
      },
      *resources_.executor, resources_.queue_bytes);
  if (!made.ok()) return stored ? made.status() : absl::OkStatus();
  opened = *std::move(made);
  return absl::OkStatus();
}

absl::Status OpenJob::OpenAll(Takeover* takeover) {
  const auto& terms = tables_->request().partitions();
  std::vector<std::shared_ptr<PartitionExecutor>> opened(terms.size());
  absl::Status status;
  if (tables_->durable()) {
    status = ForEachTerm([&](int i) { return ContinueOne(terms[i].partition(), opened[i]); });
  }
  if (takeover != nullptr && status.ok()) {
    status = ForEachTerm([&](int i) {
      if (opened[i] != nullptr) return absl::OkStatus();
      return CatchOutOfMemory("a partition that is taken over",
                              [&] { return takeover->Prepare(terms[i].partition()); });
    });
  }
  for (int i = 0; i < terms.size(); ++i) {
    const uint32_t partition = terms[i].partition();
    if (opened[i] == nullptr && status.ok()) {
      absl::StatusOr<std::shared_ptr<PartitionExecutor>> made = PartitionExecutor::Create(
          [&](std::shared_ptr<Executor> strand) {
            return takeover != nullptr ? takeover->Take(partition, std::move(strand))
                                       : OpenPartition(partition, std::move(strand));
          },
          *resources_.executor, resources_.queue_bytes);
      if (made.ok()) {
        opened[i] = *std::move(made);
      } else {
        status = made.status();
      }
    }
    // Also after an error: whoever closes the job closes them.
    if (opened[i] == nullptr) continue;
    absl::MutexLock lock(&mutex_);
    partitions_.emplace(partition, std::move(opened[i]));
  }
  checkpoint_.reset();
  if (takeover != nullptr && status.ok() && tables_->durable()) status = DropLeftBehind();
  return status;
}

absl::Status OpenJob::DropLeftBehind() const {
  const std::string& job_id = tables_->job_id();
  MUSTER_ASSIGN_OR_RETURN(const std::vector<uint32_t> stored, resources_.store->Partitions(job_id));
  for (const uint32_t partition : stored) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                            ReadPartitionState(*resources_.store, job_id, partition));
    if (state == nullptr || state->generation() >= tables_->generation()) continue;
    MUSTER_RETURN_IF_ERROR(DeleteValues(partition));
    v1::PartitionState gone;
    gone.set_format_version(1);
    gone.set_generation(tables_->generation());
    gone.set_left(true);
    MUSTER_RETURN_IF_ERROR(PutPartitionState(job_id, partition, gone, *resources_.store));
  }
  return absl::OkStatus();
}

absl::Status OpenJob::Restore(MemoryShare& memory, PartitionTables& tables) {
  const v1::OpenTablesRequest& request = tables_->request();
  if (checkpoint_ == nullptr) {
    absl::StatusOr<std::unique_ptr<CheckpointReader>> opened =
        CheckpointReader::Open(*resources_.checkpoint_storage, request.restore_uri());
    if (absl::IsNotFound(opened.status()))
      return WithLostState(opened.status(), LostState::kCheckpoint);
    MUSTER_RETURN_IF_ERROR(DataLossIs(opened.status(), LostState::kCheckpoint));
    checkpoint_ = *std::move(opened);
    const uint64_t clock = checkpoint_->manifest().clock();
    if (!request.restore_weights_only() && clock != request.start_clock()) {
      return absl::InvalidArgumentError(absl::StrCat("start_clock is ", request.start_clock(),
                                                     ", but the checkpoint ", request.restore_uri(),
                                                     " was taken at clock ", clock));
    }
  }
  const RestoreExtent weights =
      request.restore_averages() ? RestoreExtent::kAverages : RestoreExtent::kWeights;
  return DataLossIs(
      RestorePartition(
          *checkpoint_, request.restore_weights_only() ? weights : RestoreExtent::kAll, memory,
          [this] { return CheckWanted(); }, tables),
      LostState::kCheckpoint);
}

absl::StatusOr<std::unique_ptr<Partition>> OpenJob::OpenPartition(
    uint32_t partition, std::shared_ptr<Executor> strand) {
  MUSTER_RETURN_IF_ERROR(CheckWanted());
  const v1::OpenTablesRequest& request = tables_->request();
  // What is stored was continued before; what is in memory alone is not opened twice.
  if (request.expect_state()) {
    return WithLostState(
        absl::FailedPreconditionError(absl::StrCat(
            "generation ", request.generation(), " of job ", request.job_id(),
            " has run before, but ",
            tables_->durable() ? "the log and values of partition " : "the values of partition ",
            partition, " are not on this server: ",
            tables_->durable() ? "its data folder was lost or replaced, and with it"
                               : "they were dropped, and with them",
            " every push since the last checkpoint (or a program told of a step before it had "
            "opened its tables, and nothing is lost); go back to a checkpoint under a new "
            "generation")),
        LostState::kServerState);
  }
  std::unique_ptr<PartitionJournal> journal;
  if (tables_->durable()) {
    MUSTER_ASSIGN_OR_RETURN(journal, NewJournal(partition));
  }
  auto tables =
      std::make_unique<PartitionTables>(tables_, partition, resources_.pool, resources_.store);
  const bool restores = !request.restore_uri().empty();
  // Until the partition accounts for its rows itself.
  MemoryShare restoring(*resources_.budget);
  if (restores) MUSTER_RETURN_IF_ERROR(Restore(restoring, *tables));
  std::unique_ptr<Partition> made =
      MakePartition(std::move(tables), std::move(journal), std::move(strand), resources_);
  if (!tables_->durable()) return made;
  // Initial values can be made again; what came from a checkpoint may be deleted there while it is
  // needed here.
  MUSTER_RETURN_IF_ERROR(made->StartJournal(restores ? PartitionJournal::Extent::kAll
                                                     : PartitionJournal::Extent::kChanged));
  return made;
}

absl::StatusOr<std::unique_ptr<Partition>> OpenJob::Continue(
    uint32_t partition, std::shared_ptr<Executor> strand) const {
  MUSTER_RETURN_IF_ERROR(CheckWanted());
  const std::string& job_id = tables_->job_id();
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                          ReadPartitionState(*resources_.store, job_id, partition));
  // What an earlier generation left is not this one's.
  if (state == nullptr || state->generation() != tables_->generation()) {
    return std::unique_ptr<Partition>();
  }
  if (state->left()) {
    return absl::FailedPreconditionError(absl::StrCat("partition ", partition, " of job ", job_id,
                                                      " has moved to another server; refresh the "
                                                      "shard map"));
  }
  if (state->leaving_term() > 0) {
    return absl::UnavailableError(StandsStillError(job_id, partition).message());
  }
  return RecoverPartition(tables_, partition, *state, std::move(strand), resources_,
                          [this] { return CheckWanted(); });
}

absl::Status OpenJob::DeleteValues(uint32_t partition) const {
  const std::string& job_id = tables_->job_id();
  StoreBatch batch(job_id);
  for (uint32_t table = 0; table <= tables_->tables().sparse.size(); ++table) {
    batch.DeletePartition(table, partition);
  }
  batch.DeletePartition(kTierTable, partition);
  MUSTER_RETURN_IF_ERROR(resources_.store->Write(batch, ParameterStore::Durability::kBuffered));
  return MutationLog::Destroy(LogDirectory(resources_, job_id, partition),
                              resources_.log.file_system);
}

absl::StatusOr<std::unique_ptr<PartitionJournal>> OpenJob::NewJournal(uint32_t partition) {
  MUSTER_RETURN_IF_ERROR(DeleteValues(partition));
  return PartitionJournal::Open(
      *resources_.store, LogDirectory(resources_, tables_->job_id(), partition), resources_.log);
}

}  // namespace muster
