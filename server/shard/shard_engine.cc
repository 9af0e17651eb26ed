#include "server/shard/shard_engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/files/parent_folder.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"
#include "server/shard/calls/refusal.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/jobs/open_jobs.h"
#include "server/shard/jobs/shard_map_checks.h"
#include "server/shard/moves/partition_move.h"
#include "server/shard/resources/ended_slots.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/resources/thread_pool.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

class ShardEngine::Impl {
 public:
  explicit Impl(Options options);
  ~Impl();

  OpenJobs& jobs() { return jobs_; }
  void Execute(ExchangeCall call);
  void TakeEndedSlots(const v1::HeartbeatReply& orders);
  v1::GetServerStatsReply Stats() const;
  std::vector<v1::ReplayStatus> Replays() const { return replays_.Replays(); }
  std::vector<v1::PartitionLoad> PartitionLoads() const;
  PartitionMover& mover() { return moves_; }

 private:
  const Options options_;
  CrashPoint crash_point_;
  const RealClock clock_;
  ReplayMeter replays_{clock_};
  ServedBytes served_;
  EndedSlots ended_slots_;
  MemoryBudget budget_;
  // Null when the options bring an executor.
  std::unique_ptr<ThreadPool> threads_;
  ShardResources resources_;
  OpenJobs jobs_;
  PartitionMoves moves_{resources_, jobs_};
};

namespace {

// What a caller of a partition on its way to another server should wait.
constexpr uint32_t kRetryAfterMs = 20;

// Bytes of unused buffers that are kept for later replies and sums.
constexpr size_t kPoolBytes = size_t{256} << 20;

// Threads that write checkpoint files, for all partitions together.
constexpr int kFileThreads = 2;

// Threads that wait for the disk on behalf of logs, for all partitions together. They take next to
// no processor time.
constexpr int kLogThreads = 4;

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
                                            : nullptr),
      jobs_(resources_, {.process_nonce = options_.process_nonce, .replayed = options_.replayed}) {
  resources_.pool = BufferPool::Create(kPoolBytes);
  resources_.budget = &budget_;
  resources_.executor = threads_ == nullptr ? options_.executor : threads_.get();
  if (options_.file_executor != nullptr || options_.executor != nullptr) {
    Executor* const files =
        options_.file_executor != nullptr ? options_.file_executor : options_.executor;
    // Borrowed.
    resources_.files = std::shared_ptr<Executor>(files, [](Executor*) {});
    resources_.syncs = resources_.files;
  } else {
    resources_.files = std::make_shared<ThreadPool>(kFileThreads);
    resources_.syncs = std::make_shared<ThreadPool>(kLogThreads);
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
  // An image frees what the log needs until the next one: a file that was written before
  // takes records several times faster than a new one.
  resources_.log.spare_segments =
      static_cast<uint32_t>(std::max<uint64_t>(2, options_.log_bytes / options_.log_segment_bytes));
  resources_.queue_bytes = options_.queue_bytes;
  resources_.log_bytes = options_.log_bytes;
  resources_.open_threads = options_.executor == nullptr ? options_.threads : 1;
  resources_.unwanted = [this](const std::string& job_id, uint64_t generation) {
    return jobs_.IsUnwanted(job_id, generation);
  };
  resources_.replays = &replays_;
  resources_.served = &served_;
  resources_.ended_slots = &ended_slots_;
  resources_.trace = options_.trace;
}

ShardEngine::Impl::~Impl() {
  jobs_.CloseAll(absl::UnavailableError("the server is shutting down"));
  threads_.reset();
  // Files that are being written use the store and the storage.
  resources_.files.reset();
  resources_.syncs.reset();
}

void ShardEngine::Impl::Execute(ExchangeCall call) {
  const v1::ExchangeRequest& request = *call.request;
  const absl::StatusOr<std::shared_ptr<OpenJob>> job = jobs_.Find(request);
  if (!job.ok()) return Refuse(call, job.status());
  const OpenJob::Found found = (*job)->Find(request.partition());
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
  if (request.partition() >= (*job)->tables().partitions()) {
    return Refuse(call, absl::NotFoundError(absl::StrCat(
                            "partition is ", request.partition(), "; job ", request.job_id(),
                            " has ", (*job)->tables().partitions(), " partitions")));
  }
  Refuse(call, absl::FailedPreconditionError(
                   absl::StrCat("partition ", request.partition(), " of job ", request.job_id(),
                                " is not on this server; refresh the shard map")));
}

void ShardEngine::Impl::TakeEndedSlots(const v1::HeartbeatReply& orders) {
  ended_slots_.Set(orders);
  if (orders.ended_slots().empty()) return;
  for (const std::shared_ptr<OpenJob>& job : jobs_.All()) {
    for (const auto& [index, partition] : job->partitions()) partition->Wake();
  }
}

v1::GetServerStatsReply ShardEngine::Impl::Stats() const {
  v1::GetServerStatsReply reply;
  reply.set_bytes_pushed(served_.pushed.load(std::memory_order_relaxed));
  reply.set_bytes_pulled(served_.pulled.load(std::memory_order_relaxed));
  reply.set_dense_bytes_pulled(served_.pulled_dense.load(std::memory_order_relaxed));
  for (const std::shared_ptr<OpenJob>& job : jobs_.All()) {
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

std::vector<v1::PartitionLoad> ShardEngine::Impl::PartitionLoads() const {
  std::vector<v1::PartitionLoad> loads;
  for (const std::shared_ptr<OpenJob>& job : jobs_.All()) {
    for (const auto& [index, partition] : job->partitions()) {
      v1::PartitionLoad& load = loads.emplace_back();
      load.set_job_id(job->tables().job_id());
      load.set_generation(job->tables().generation());
      load.set_partition(index);
      load.set_busy_seconds(absl::ToDoubleSeconds(partition->busy()));
    }
  }
  return loads;
}

ShardEngine::ShardEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ShardEngine::~ShardEngine() = default;

absl::StatusOr<std::unique_ptr<ShardEngine>> ShardEngine::Create(Options options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, ", expected at least 1"));
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
    MUSTER_RETURN_IF_ERROR(files.SyncDirectory(ParentFolder(options.log_dir)));
    MUSTER_RETURN_IF_ERROR(DropStrays(*options.store, options.log_dir, files));
  }
  return std::unique_ptr<ShardEngine>(new ShardEngine(std::make_unique<Impl>(std::move(options))));
}

absl::StatusOr<v1::OpenTablesReply> ShardEngine::OpenTables(const v1::OpenTablesRequest& request) {
  return impl_->jobs().Open(request);
}

absl::StatusOr<v1::EndGenerationReply> ShardEngine::EndGeneration(
    const v1::EndGenerationRequest&) {
  return absl::UnimplementedError("generations cannot be taken over on this server");
}

absl::Status ShardEngine::DropTables(const v1::DropTablesRequest& request) {
  return impl_->jobs().Drop(request);
}

void ShardEngine::Execute(ExchangeCall call) { impl_->Execute(std::move(call)); }

void ShardEngine::TakeEndedSlots(const v1::HeartbeatReply& orders) {
  impl_->TakeEndedSlots(orders);
}

v1::GetServerStatsReply ShardEngine::Stats() const { return impl_->Stats(); }

absl::StatusOr<std::vector<std::string>> ShardEngine::HeldJobs() const {
  return impl_->jobs().Held();
}

std::vector<v1::ReplayStatus> ShardEngine::Replays() const { return impl_->Replays(); }

std::vector<v1::PartitionLoad> ShardEngine::PartitionLoads() const {
  return impl_->PartitionLoads();
}

PartitionMover& ShardEngine::mover() { return impl_->mover(); }

}  // namespace muster
