#include "server/shard/shard_engine.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"
#include "server/shard/calls/refusal.h"
#include "server/shard/jobs/join_tables.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/jobs/shard_map_checks.h"
#include "server/shard/moves/partition_move.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/resources/thread_pool.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

class ShardEngine::Impl final : private OpenJobs {
 public:
  explicit Impl(Options options);
  ~Impl();

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request);
  absl::Status DropTables(const v1::DropTablesRequest& request);
  absl::StatusOr<std::vector<std::string>> HeldJobs() const;
  void Execute(ExchangeCall call);
  v1::GetServerStatsReply Stats() const;
  std::vector<v1::ReplayStatus> Replays() const { return replays_.Replays(); }
  PartitionMover& mover() { return moves_; }

 private:
  void TellReplayed(const JobTables& tables) const;

  // For those who change which partitions a job has.
  Turn Take(const std::string& job_id) override;
  void GiveBack(const std::string& job_id, Turn turn) override;
  // Opens those of the partitions asked for that are stored here, but are not open: they have come
  // from other servers and have not been asked for before, or have failed.
  absl::Status OpenMissing(const OpenJob& job, const JobTables& tables);

  // A job by its id: open, about to be opened or dropped, or neither after that failed.
  struct Entry {
    // Highest generation that was opened, or that somebody tried to open.
    uint64_t generation = 0;
    // One caller opens or drops; others wait.
    bool busy = false;
    std::shared_ptr<OpenJob> job;
  };

  // Tells those who open a job's generations up to one that they are not wanted any more.
  class Unwanted;
  // Whether somebody waits to drop this generation, or to open a later one.
  bool IsUnwanted(const std::string& job_id, uint64_t generation) const
      ABSL_SHARED_LOCKS_REQUIRED(entries_mutex_);

  // Waits for the right to open or drop the job. REQUIRES: entries_mutex_ is not held by the caller
  // for long: it is released while waiting.
  Entry& AwaitEntry(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(entries_mutex_);
  // Whether a generation after this one is open, or being opened.
  bool IsPast(const std::string& job_id, uint64_t generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(entries_mutex_);
  // Drops a job's generations up to `last`, also (kClose) if they are open.
  enum class InUse { kClose, kLeave };
  absl::Status Drop(const std::string& job_id, uint64_t last, InUse in_use);
  // Tries again to drop what could not be dropped.
  void DropLeft();
  void NoteLeft(const std::string& job_id, uint64_t last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(entries_mutex_);
  absl::Status CheckExchange(const v1::ExchangeRequest& request,
                             std::shared_ptr<OpenJob>& job) const;

  const Options options_;
  CrashPoint crash_point_;
  const RealClock clock_;
  ReplayMeter replays_{clock_};
  ServedBytes served_;
  MemoryBudget budget_;
  // Null when the options bring an executor.
  std::unique_ptr<ThreadPool> threads_;
  ShardResources resources_;
  PartitionMoves moves_{resources_, *this};

  // Held for look-ups alone: shared by all operations, exclusively when a job is opened or dropped.
  mutable absl::Mutex entries_mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(entries_mutex_);
  // Jobs of whose generations, up to this one, something may be left on the disk that was to be
  // dropped.
  std::map<std::string, uint64_t> left_ ABSL_GUARDED_BY(entries_mutex_);
  // By job: generations up to which nobody is to go on opening.
  std::multimap<std::string, uint64_t> unwanted_ ABSL_GUARDED_BY(entries_mutex_);
};

// As long as it lives, openings of a job's generations up to `last` end soon, and nobody waits for
// their turn to begin one.
class ShardEngine::Impl::Unwanted {
 public:
  Unwanted(Impl& engine, const std::string& job_id, uint64_t last) : engine_(engine) {
    absl::MutexLock lock(&engine_.entries_mutex_);
    place_ = engine_.unwanted_.emplace(job_id, last);
  }
  ~Unwanted() {
    absl::MutexLock lock(&engine_.entries_mutex_);
    engine_.unwanted_.erase(place_);
  }
  Unwanted(const Unwanted&) = delete;
  Unwanted& operator=(const Unwanted&) = delete;

 private:
  Impl& engine_;
  std::multimap<std::string, uint64_t>::iterator place_;
};

namespace {

// What a caller of a partition on its way to another server should wait.
constexpr uint32_t kRetryAfterMs = 20;

absl::Status GenerationFenced(const std::string& job_id, uint64_t asked, uint64_t current) {
  return absl::AbortedError(absl::StrCat("job ", job_id, " has generation ", current,
                                         " here, the request has ", asked,
                                         "; it was restarted, rejoin before going on"));
}

// Drops what an earlier process has left, and nobody goes on from: without a partition's state,
// neither values (rows evicted for jobs that are not durable) nor logs are of use.
absl::Status DropStrays(ParameterStore& store, const std::string& log_dir, LogFileSystem& files) {
  std::set<std::string> logs;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, store.Jobs());
  for (const std::string& job : jobs) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<uint32_t> partitions, store.Partitions(job));
    if (partitions.empty()) MUSTER_RETURN_IF_ERROR(store.DropJob(job));
    for (uint32_t partition : partitions) logs.insert(LogName(job, partition));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(log_dir));
  for (const std::string& name : names) {
    uint32_t partition = 0;
    const size_t dot = name.rfind('.');
    const bool is_log =
        dot != std::string::npos && absl::SimpleAtoi(name.substr(dot + 1), &partition);
    if (!is_log || logs.count(name) > 0) continue;
    MUSTER_RETURN_IF_ERROR(MutationLog::Destroy(absl::StrCat(log_dir, "/", name), &files));
  }
  return absl::OkStatus();
}

}  // namespace

ShardEngine::Impl::Impl(Options options)
    : options_(std::move(options)),
      crash_point_(options_.crash_point),
      budget_(options_.memory_budget_bytes),
      threads_(options_.executor == nullptr ? std::make_unique<ThreadPool>(options_.threads)
                                            : nullptr) {
  resources_.pool = BufferPool::Create(options_.pool_bytes);
  resources_.budget = &budget_;
  resources_.executor = threads_ == nullptr ? options_.executor : threads_.get();
  if (options_.file_executor != nullptr || options_.executor != nullptr) {
    Executor* const files =
        options_.file_executor != nullptr ? options_.file_executor : options_.executor;
    // Borrowed.
    resources_.files = std::shared_ptr<Executor>(files, [](Executor*) {});
    resources_.syncs = resources_.files;
  } else {
    resources_.files = std::make_shared<ThreadPool>(options_.file_threads);
    resources_.syncs = std::make_shared<ThreadPool>(options_.log_threads);
  }
  resources_.checkpoint_storage = options_.checkpoint_storage;
  resources_.root_check = options_.root_check;
  resources_.server_name = options_.server_name;
  resources_.crash_point = &crash_point_;
  resources_.store = options_.store.get();
  resources_.log_dir = options_.log_dir;
  resources_.log.file_system = options_.log_file_system;
  resources_.log.memory = resources_.pool;
  resources_.log.segment_bytes = options_.log_segment_bytes;
  // What a base frees is what the log needs until the next one: a file that was written before
  // takes records several times faster than a new one.
  resources_.log.spare_segments =
      static_cast<uint32_t>(std::max<uint64_t>(2, options_.log_bytes / options_.log_segment_bytes));
  resources_.queue_bytes = options_.queue_bytes;
  resources_.log_bytes = options_.log_bytes;
  resources_.open_threads = options_.executor == nullptr ? options_.threads : 1;
  resources_.unwanted = [this](const std::string& job_id, uint64_t generation) {
    absl::ReaderMutexLock lock(&entries_mutex_);
    return IsUnwanted(job_id, generation);
  };
  resources_.replays = &replays_;
  resources_.served = &served_;
}

ShardEngine::Impl::~Impl() {
  std::vector<std::shared_ptr<OpenJob>> jobs;
  {
    absl::MutexLock lock(&entries_mutex_);
    for (auto& [job_id, entry] : entries_) {
      if (entry.job != nullptr) jobs.push_back(std::move(entry.job));
    }
  }
  for (const std::shared_ptr<OpenJob>& job : jobs) {
    job->Close(absl::UnavailableError("the server is shutting down"));
  }
  threads_.reset();
  // Files that are being written use the store and the storage.
  resources_.files.reset();
  resources_.syncs.reset();
}

bool ShardEngine::Impl::IsUnwanted(const std::string& job_id, uint64_t generation) const {
  const auto [begin, end] = unwanted_.equal_range(job_id);
  return std::any_of(begin, end, [&](const auto& each) { return each.second >= generation; });
}

ShardEngine::Impl::Entry& ShardEngine::Impl::AwaitEntry(const std::string& job_id) {
  for (;;) {
    Entry& entry = entries_[job_id];
    if (!entry.busy) return entry;
    // The entry may be gone after the wait, so it is looked up again, then and while waiting.
    const auto not_busy = [this, &job_id]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto found = entries_.find(job_id);
      return found == entries_.end() || !found->second.busy;
    };
    entries_mutex_.Await(absl::Condition(&not_busy));
  }
}

absl::StatusOr<v1::OpenTablesReply> ShardEngine::Impl::OpenTables(
    const v1::OpenTablesRequest& request) {
  MUSTER_RETURN_IF_ERROR(CheckProcess(request, options_.process_nonce, options_.server_name));
  MUSTER_ASSIGN_OR_RETURN(const std::shared_ptr<const JobTables> tables,
                          JobTables::Create(request));
  const std::string& job_id = tables->job_id();
  if (tables->generation() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("generation of job ", job_id, " is 0; the coordinator counts them from 1 on"));
  }
  DropLeft();
  const Unwanted earlier(*this, job_id, tables->generation() - 1);
  std::shared_ptr<OpenJob> open;
  // With the job that is replaced, until it is closed.
  Turn turn;
  {
    absl::MutexLock lock(&entries_mutex_);
    const auto may_go = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto found = entries_.find(job_id);
      return found == entries_.end() || !found->second.busy ||
             IsUnwanted(job_id, tables->generation());
    };
    entries_mutex_.Await(absl::Condition(&may_go));
    if (IsUnwanted(job_id, tables->generation())) {
      return UnwantedError(job_id, tables->generation());
    }
    Entry& entry = AwaitEntry(job_id);
    if (tables->generation() < entry.generation) {
      return GenerationFenced(job_id, tables->generation(), entry.generation);
    }
    if (entry.job != nullptr && entry.generation == tables->generation()) {
      open = entry.job;
    } else {
      turn = {.generation = entry.generation, .job = std::move(entry.job)};
      entry.busy = true;
      entry.generation = tables->generation();
    }
  }
  if (open != nullptr) {
    MUSTER_RETURN_IF_ERROR(OpenMissing(*open, *tables));
    return JoinTables(*open, *tables);
  }

  absl::StatusOr<std::shared_ptr<OpenJob>> opened;
  {
    const auto give_back = absl::MakeCleanup([&] { GiveBack(job_id, std::move(turn)); });
    opened = CatchOutOfMemory(absl::StrCat("opening the tables of job ", job_id), [&] {
      if (turn.job != nullptr) {
        turn.job->Close(GenerationFenced(job_id, turn.generation, tables->generation()));
        turn.job.reset();
      }
      turn.generation = tables->generation();
      replays_.Forget(job_id, tables->generation() - 1);
      return OpenJob::Open(tables, resources_);
    });
    if (opened.ok()) {
      turn.job = *opened;
    } else {
      // It may have failed at dropping them.
      absl::MutexLock lock(&entries_mutex_);
      NoteLeft(job_id, tables->generation() - 1);
    }
  }
  if (!opened.ok()) return opened.status();
  TellReplayed(*tables);
  return JoinTables(**opened, *tables);
}

void ShardEngine::Impl::TellReplayed(const JobTables& tables) const {
  if (options_.replayed == nullptr) return;
  for (const v1::ReplayStatus& replay : replays_.Replays()) {
    if (replay.job_id() == tables.job_id() && replay.generation() == tables.generation() &&
        replay.records() > 0) {
      options_.replayed(replay);
    }
  }
}

OpenJobs::Turn ShardEngine::Impl::Take(const std::string& job_id) {
  absl::MutexLock lock(&entries_mutex_);
  Entry& entry = AwaitEntry(job_id);
  entry.busy = true;
  return {.generation = entry.generation, .job = entry.job};
}

void ShardEngine::Impl::GiveBack(const std::string& job_id, Turn turn) {
  absl::MutexLock lock(&entries_mutex_);
  if (turn.generation == 0) {
    entries_.erase(job_id);
    return;
  }
  Entry& entry = entries_[job_id];
  entry.busy = false;
  entry.generation = turn.generation;
  entry.job = std::move(turn.job);
}

absl::Status ShardEngine::Impl::OpenMissing(const OpenJob& job, const JobTables& tables) {
  if (!tables.durable() || job.tables().fingerprint() != tables.fingerprint()) {
    return absl::OkStatus();
  }
  const auto is_missing = [&](const v1::PartitionTerm& term) {
    const OpenJob::Found found = job.Find(term.partition());
    const bool not_here = found.partition == nullptr && found.absence == OpenJob::Absence::kNotHere;
    return not_here || found.failed();
  };
  const auto& wanted = tables.request().partitions();
  if (std::none_of(wanted.begin(), wanted.end(), is_missing)) return absl::OkStatus();
  Turn turn = Take(tables.job_id());
  const auto give_back = absl::MakeCleanup([&] { GiveBack(tables.job_id(), std::move(turn)); });
  absl::Status status;
  if (turn.job.get() != &job) {
    status = absl::UnavailableError(
        absl::StrCat("the tables of job ", tables.job_id(), " are being opened; try again"));
  }
  for (const v1::PartitionTerm& term : wanted) {
    if (!status.ok() || !is_missing(term)) continue;
    const bool failed = turn.job->Find(term.partition()).failed();
    status = failed ? turn.job->Reopen(term.partition()) : turn.job->AddPartition(term.partition());
    if (status.ok() && failed) TellReplayed(turn.job->tables());
  }
  return status;
}

bool ShardEngine::Impl::IsPast(const std::string& job_id, uint64_t generation) const {
  const auto found = entries_.find(job_id);
  return found != entries_.end() && found->second.generation > generation &&
         (found->second.busy || found->second.job != nullptr);
}

absl::Status ShardEngine::Impl::DropTables(const v1::DropTablesRequest& request) {
  const std::string& job_id = request.job_id();
  if (job_id.empty()) return absl::InvalidArgumentError("job_id is empty");
  DropLeft();
  return Drop(job_id, request.generation() == 0 ? kEveryGeneration : request.generation(),
              InUse::kClose);
}

absl::StatusOr<std::vector<std::string>> ShardEngine::Impl::HeldJobs() const {
  std::set<std::string> held;
  if (options_.store != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> stored, options_.store->Jobs());
    held.insert(stored.begin(), stored.end());
  }
  absl::ReaderMutexLock lock(&entries_mutex_);
  for (const auto& [job_id, entry] : entries_) {
    if (entry.job != nullptr) held.insert(job_id);
  }
  return std::vector<std::string>(held.begin(), held.end());
}

void ShardEngine::Impl::DropLeft() {
  std::map<std::string, uint64_t> left;
  {
    absl::ReaderMutexLock lock(&entries_mutex_);
    left = left_;
  }
  // What fails again is left again.
  for (const auto& [job_id, last] : left) Drop(job_id, last, InUse::kLeave).IgnoreError();
}

void ShardEngine::Impl::NoteLeft(const std::string& job_id, uint64_t last) {
  // Who drops generations that are yet to come is told of the failure, and may do so again.
  if (resources_.store == nullptr || last == kEveryGeneration) return;
  uint64_t& left = left_[job_id];
  left = std::max(left, last);
}

absl::Status ShardEngine::Impl::Drop(const std::string& job_id, uint64_t last, InUse in_use) {
  std::optional<Unwanted> unwanted;
  if (in_use == InUse::kClose) unwanted.emplace(*this, job_id, last);
  // With the job that is dropped, until it is closed.
  Turn turn;
  {
    absl::MutexLock lock(&entries_mutex_);
    // Whoever opens a later generation drops earlier ones, and need not be waited for.
    if (IsPast(job_id, last)) return absl::OkStatus();
    if (in_use == InUse::kLeave) {
      const auto found = entries_.find(job_id);
      const bool used = found != entries_.end() && (found->second.busy || found->second.job);
      if (used) return absl::OkStatus();
    }
    Entry& entry = AwaitEntry(job_id);
    if (IsPast(job_id, last)) return absl::OkStatus();
    entry.busy = true;
    turn = {.generation = entry.generation, .job = std::move(entry.job)};
  }
  const auto give_back = absl::MakeCleanup([&] { GiveBack(job_id, std::move(turn)); });
  const absl::Status status =
      CatchOutOfMemory(absl::StrCat("dropping the tables of job ", job_id), [&] {
        if (turn.job != nullptr) {
          turn.job->Close(
              absl::NotFoundError(absl::StrCat("the tables of job ", job_id, " were dropped")));
          turn.job.reset();
        }
        // A generation that could not be opened fences those before it.
        if (turn.generation <= last) turn.generation = 0;
        replays_.Forget(job_id, last);
        return DeleteStoredGenerations(job_id, last, resources_);
      });
  absl::MutexLock lock(&entries_mutex_);
  if (!status.ok()) {
    NoteLeft(job_id, last);
  } else if (const auto left = left_.find(job_id); left != left_.end() && left->second <= last) {
    left_.erase(left);
  }
  return status;
}

absl::Status ShardEngine::Impl::CheckExchange(const v1::ExchangeRequest& request,
                                              std::shared_ptr<OpenJob>& job) const {
  uint64_t generation = 0;
  bool busy = false;
  {
    absl::ReaderMutexLock lock(&entries_mutex_);
    const auto found = entries_.find(request.job_id());
    if (found != entries_.end()) {
      generation = found->second.generation;
      busy = found->second.busy;
      job = found->second.job;
    }
  }
  if (job == nullptr && !busy) {
    return absl::NotFoundError(absl::StrCat("job ", request.job_id(),
                                            " is not open on this server; open its tables first"));
  }
  if (request.generation() < generation) {
    return GenerationFenced(request.job_id(), request.generation(), generation);
  }
  if (request.generation() > generation) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", request.job_id(), " is open under generation ", generation,
                     ", the request has ", request.generation(), "; open tables first"));
  }
  if (job == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the tables of job ", request.job_id(), " are being opened; try again"));
  }
  return absl::OkStatus();
}

void ShardEngine::Impl::Execute(ExchangeCall call) {
  const v1::ExchangeRequest& request = *call.request;
  std::shared_ptr<OpenJob> job;
  if (absl::Status status = CheckExchange(request, job); !status.ok()) return Refuse(call, status);
  const OpenJob::Found found = job->Find(request.partition());
  if (found.partition != nullptr) {
    if (absl::Status status = CheckTerm(found.partition->adopted_term(), request.job_id(),
                                        request.partition(), request.term());
        !status.ok()) {
      return Refuse(call, status);
    }
    return found.partition->Execute(std::move(call));
  }
  if (found.absence == OpenJob::Absence::kStandsStill) {
    return Refuse(call, StandsStillError(request.job_id(), request.partition()), kRetryAfterMs);
  }
  if (found.absence == OpenJob::Absence::kFailed) {
    return Refuse(call, FailedError(request.job_id(), request.partition()));
  }
  if (request.partition() >= job->tables().partitions()) {
    return Refuse(call, absl::NotFoundError(absl::StrCat(
                            "partition is ", request.partition(), "; job ", request.job_id(),
                            " has ", job->tables().partitions(), " partitions")));
  }
  Refuse(call, absl::FailedPreconditionError(
                   absl::StrCat("partition ", request.partition(), " of job ", request.job_id(),
                                " is not on this server; refresh the shard map")));
}

v1::GetServerStatsReply ShardEngine::Impl::Stats() const {
  std::vector<std::shared_ptr<OpenJob>> jobs;
  {
    absl::ReaderMutexLock lock(&entries_mutex_);
    for (const auto& [job_id, entry] : entries_) {
      if (entry.job != nullptr) jobs.push_back(entry.job);
    }
  }
  v1::GetServerStatsReply reply;
  reply.set_bytes_pushed(served_.pushed.load(std::memory_order_relaxed));
  reply.set_bytes_pulled(served_.pulled.load(std::memory_order_relaxed));
  reply.set_dense_bytes_pulled(served_.pulled_dense.load(std::memory_order_relaxed));
  for (const std::shared_ptr<OpenJob>& job : jobs) {
    v1::TableStats& table = *reply.add_tables();
    table.set_job_id(job->tables().job_id());
    table.set_generation(job->tables().generation());
    const OpenJob::Partitions partitions = job->partitions();
    table.set_partitions(partitions.size());
    for (const auto& [index, partition] : partitions) {
      const Partition::Stats stats = partition->stats();
      table.set_dense_bytes(table.dense_bytes() + stats.dense_bytes);
      table.set_sparse_rows(table.sparse_rows() + stats.sparse_rows);
      table.set_rows_on_disk(table.rows_on_disk() + stats.rows_on_disk);
      table.set_memory_bytes(table.memory_bytes() + stats.memory_bytes);
      table.set_log_bytes(table.log_bytes() + stats.log_bytes);
    }
  }
  return reply;
}

ShardEngine::ShardEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ShardEngine::~ShardEngine() = default;

absl::StatusOr<std::unique_ptr<ShardEngine>> ShardEngine::Create(Options options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, ", expected at least 1"));
  }
  if (options.file_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("file_threads is ", options.file_threads, ", expected at least 1"));
  }
  if (options.log_threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("log_threads is ", options.log_threads, ", expected at least 1"));
  }
  if (options.checkpoint_storage == nullptr) {
    return absl::InvalidArgumentError("checkpoint_storage is missing");
  }
  if (options.store != nullptr) {
    if (options.log_dir.empty()) return absl::InvalidArgumentError("log_dir is missing");
    LogFileSystem& files =
        options.log_file_system != nullptr ? *options.log_file_system : LogFileSystem::Posix();
    MUSTER_RETURN_IF_ERROR(files.CreateDirectory(options.log_dir));
    // Also if an earlier process made it and crashed.
    MUSTER_RETURN_IF_ERROR(
        files.SyncDirectory(options.log_dir.substr(0, options.log_dir.rfind('/'))));
    MUSTER_RETURN_IF_ERROR(DropStrays(*options.store, options.log_dir, files));
  }
  return std::unique_ptr<ShardEngine>(new ShardEngine(std::make_unique<Impl>(std::move(options))));
}

absl::StatusOr<v1::OpenTablesReply> ShardEngine::OpenTables(const v1::OpenTablesRequest& request) {
  return impl_->OpenTables(request);
}

absl::Status ShardEngine::DropTables(const v1::DropTablesRequest& request) {
  return impl_->DropTables(request);
}

void ShardEngine::Execute(ExchangeCall call) { impl_->Execute(std::move(call)); }

v1::GetServerStatsReply ShardEngine::Stats() const { return impl_->Stats(); }

absl::StatusOr<std::vector<std::string>> ShardEngine::HeldJobs() const { return impl_->HeldJobs(); }

std::vector<v1::ReplayStatus> ShardEngine::Replays() const { return impl_->Replays(); }

PartitionMover& ShardEngine::mover() { return impl_->mover(); }

}  // namespace muster
