#include "server/shard/partition/partition_executor.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "server/shard/calls/refusal.h"
#include "server/shard/resources/thread_time.h"

namespace muster {
namespace {

// The time that a caller that found the queue full should wait: a few batches' time.
constexpr uint32_t kRetryAfterMs = 20;

size_t QueueBytes(const ExchangeCall& call) { return kCallBytes + call.payload.size(); }

}  // namespace

class PartitionExecutor::Strand final : public Executor {
 public:
  // The partition is made before who runs it; until then there is nothing to run.
  void Open(std::weak_ptr<PartitionExecutor> executor) { executor_ = std::move(executor); }

  void Add(std::function<void()> task) override {
    if (const auto executor = executor_.lock()) executor->AddTask(std::move(task));
  }

 private:
  // Const once the partition gets operations.
  std::weak_ptr<PartitionExecutor> executor_;
};

absl::StatusOr<std::shared_ptr<PartitionExecutor>> PartitionExecutor::Create(MakePartition make,
                                                                             Executor& executor,
                                                                             size_t queue_bytes) {
  const auto strand = std::make_shared<Strand>();
  absl::StatusOr<std::unique_ptr<Partition>> partition =
      CatchOutOfMemory("a partition that is being opened", [&] { return make(strand); });
  if (!partition.ok()) return partition.status();
  std::shared_ptr<PartitionExecutor> made(
      new PartitionExecutor(*std::move(partition), executor, queue_bytes));
  strand->Open(made);
  return made;
}

PartitionExecutor::PartitionExecutor(std::unique_ptr<Partition> partition, Executor& executor,
                                     size_t queue_bytes)
    : executor_(executor),
      queue_bytes_(queue_bytes),
      partition_(std::move(partition)),
      adopted_term_(partition_->adopted_term()),
      stats_(partition_->stats()),
      closed_clocks_(partition_->closed_clocks()) {}

void PartitionExecutor::Execute(ExchangeCall call) {
  absl::Status refused;
  uint32_t retry_after_ms = 0;
  {
    absl::MutexLock lock(&mutex_);
    const size_t bytes = QueueBytes(call);
    const size_t room = call.payload.size() == 0 ? 2 * queue_bytes_ : queue_bytes_;
    if (!closed_.ok()) {
      refused = closed_;
    } else if (queued_bytes_ > 0 && queued_bytes_ + bytes > room) {
      refused = absl::ResourceExhaustedError(absl::StrCat("the queue of the partition holds ",
                                                          queued_bytes_, " bytes, at most ", room,
                                                          " may wait; try again later"));
      retry_after_ms = kRetryAfterMs;
    } else {
      queue_.push_back(std::move(call));
      queued_bytes_ += bytes;
      if (Idle()) Schedule();
      return;
    }
  }
  Refuse(call, refused, retry_after_ms);
}

void PartitionExecutor::AddTask(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (!closed_.ok()) return;
  tasks_.push_back(std::move(task));
  if (Idle()) Schedule();
}

void PartitionExecutor::Schedule() {
  executor_.Add([self = shared_from_this()] { self->RunBatch(); });
  // This is not reached without memory for the batch, or nobody would ever run anything.
  scheduled_ = true;
}

void PartitionExecutor::RunBatch() {
  std::vector<ExchangeCall> batch;
  std::vector<std::function<void()>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    batch.swap(queue_);
    tasks.swap(tasks_);
    queued_bytes_ = 0;
    running_ = true;
  }
  const absl::Duration begin = ThreadProcessorTime();
  partition_->Execute(std::move(batch));
  for (std::function<void()>& task : tasks) partition_->RunTask(std::exchange(task, nullptr));
  EndRun(ThreadProcessorTime() - begin);
}

void PartitionExecutor::EndRun(absl::Duration busy) {
  absl::MutexLock lock(&mutex_);
  busy_ += busy;
  stats_ = partition_->stats();
  failed_ = partition_->failed();
  for (size_t slot = 0; slot < closed_clocks_.size(); ++slot) {
    closed_clocks_[slot] = partition_->closed_clocks(slot);
  }
  running_ = false;
  ++batches_;
  EndTurn();
}

void PartitionExecutor::EndTurn() {
  scheduled_ = false;
  if (!closed_.ok()) tasks_.clear();
  if (entering_ == 0 && !(queue_.empty() && tasks_.empty())) Schedule();
}

absl::StatusOr<Partition::Entry> PartitionExecutor::EnterTask(uint32_t slot, uint64_t incarnation) {
  {
    absl::MutexLock lock(&mutex_);
    ++entering_;
    mutex_.Await(absl::Condition(this, &PartitionExecutor::Free));
    --entering_;
    if (!closed_.ok()) {
      EndTurn();
      return closed_;
    }
    scheduled_ = true;
    running_ = true;
  }
  auto end_run = absl::MakeCleanup([this] { EndRun(); });
  absl::StatusOr<Partition::Entry> entry = partition_->EnterTask(slot, incarnation);
  std::move(end_run).Invoke();
  return entry;
}

absl::Status PartitionExecutor::Visit(absl::FunctionRef<absl::Status(Partition&)> visit) {
  {
    absl::MutexLock lock(&mutex_);
    ++entering_;
    mutex_.Await(absl::Condition(this, &PartitionExecutor::Free));
    --entering_;
    if (!closed_.ok()) {
      EndTurn();
      return closed_;
    }
    scheduled_ = true;
    running_ = true;
  }
  auto end_run = absl::MakeCleanup([this] { EndRun(); });
  partition_->Drain();
  const absl::Status status =
      CatchOutOfMemory("what is read of a partition", [&] { return visit(*partition_); });
  std::move(end_run).Invoke();
  return status;
}

void PartitionExecutor::Close(const absl::Status& status) { Release(status).reset(); }

std::unique_ptr<Partition> PartitionExecutor::Release(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    mutex_.Await(absl::Condition(this, &PartitionExecutor::Idle));
  }
  partition_->Drain();
  partition_->Close(status);
  return std::move(partition_);
}

Partition::Stats PartitionExecutor::stats() const {
  absl::MutexLock lock(&mutex_);
  return stats_;
}

absl::Duration PartitionExecutor::busy() const {
  absl::MutexLock lock(&mutex_);
  return busy_;
}

bool PartitionExecutor::failed() const {
  absl::MutexLock lock(&mutex_);
  return failed_;
}

std::vector<uint64_t> PartitionExecutor::closed_clocks() const {
  absl::MutexLock lock(&mutex_);
  const uint64_t batch = batches_;
  const auto ended = [this, batch]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !running_ || batches_ != batch;
  };
  mutex_.Await(absl::Condition(&ended));
  return closed_clocks_;
}

}  // namespace muster
