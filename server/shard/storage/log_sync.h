#ifndef MUSTER_SERVER_SHARD_STORAGE_LOG_SYNC_H_
#define MUSTER_SERVER_SHARD_STORAGE_LOG_SYNC_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "server/shard/storage/log_file.h"
#include "server/shard/storage/log_stage.h"

namespace muster {

// One flush of a log, which any thread may carry out while the log takes more records. Thread-safe.
class LogSync {
 public:
  // Writes `stage`, if any, and flushes the file; all records up to `lsn` are then durable.
  LogSync(std::shared_ptr<LogFile> file, std::unique_ptr<LogStage> stage, uint64_t lsn)
      : file_(std::move(file)), stage_(std::move(stage)), lsn_(lsn) {}

  uint64_t lsn() const { return lsn_; }

  // Carries the flush out, or waits for the thread that does. Blocks. Returns how it ended.
  absl::Status Run() {
    {
      absl::MutexLock lock(&mutex_);
      if (state_ != State::kNew) return Await();
      state_ = State::kRunning;
    }
    const absl::Status status = CatchOutOfMemory("the write of a log", [this]() -> absl::Status {
      if (stage_ != nullptr) MUSTER_RETURN_IF_ERROR(stage_->WriteTo(*file_));
      return file_->Sync();
    });
    // Memory of which no bytes are shared goes back to its pool.
    stage_.reset();
    absl::MutexLock lock(&mutex_);
    status_ = status;
    state_ = State::kDone;
    return status;
  }

  // Waits for the thread that carries the flush out. If there is none, the flush never happens, and
  // Run returns CANCELLED. Nothing is written to the file afterwards.
  void Cancel() {
    absl::MutexLock lock(&mutex_);
    if (state_ == State::kNew) {
      status_ = absl::CancelledError("the log was closed before this sync of it began");
      state_ = State::kDone;
    }
    Await().IgnoreError();  // Nobody rests on it any more.
  }

  // Returns whether a thread waits for the one that carries the flush out.
  bool awaited() const {
    absl::MutexLock lock(&mutex_);
    return waiting_ > 0;
  }

 private:
  enum class State { kNew, kRunning, kDone };

  absl::Status Await() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++waiting_;
    mutex_.Await(absl::Condition(this, &LogSync::Done));
    --waiting_;
    return status_;
  }
  bool Done() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ == State::kDone; }

  // Used only by the thread that carries the flush out.
  const std::shared_ptr<LogFile> file_;
  std::unique_ptr<LogStage> stage_;
  const uint64_t lsn_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNew;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_STORAGE_LOG_SYNC_H_
