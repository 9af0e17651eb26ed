#ifndef MUSTER_COMMON_BASE_WORK_H_
#define MUSTER_COMMON_BASE_WORK_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// Work that runs by itself and ends once, with a status. Thread-safe.
class Work {
 public:
  virtual ~Work() = default;

  // Blocks until the work has ended, and returns its status. DEADLINE_EXCEEDED: the work did not
  // end within `timeout`; the work goes on, and its result is still to come.
  virtual absl::Status Wait(absl::Duration timeout) = 0;

  // Calls `done` once the work has ended: at once if it has ended already, otherwise on the thread
  // that ends it. `done` must not block.
  virtual void OnDone(std::function<void(const absl::Status&)> done) = 0;

  // Ends the work with `reason` unless the work has ended. Effects elsewhere are not undone.
  virtual void Abort(absl::Status reason) = 0;
};

// Work that ends when somebody sets its result. Thread-safe; shared by the thread that waits and
// the thread that ends the work.
template <typename T>
class Pending final : public Work {
 public:
  // Sets the result and ends the work. Only the first result counts.
  void Finish(absl::StatusOr<T> result) {
    std::vector<std::function<void(const absl::Status&)>> callbacks;
    const absl::Status status = result.status();
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return;
      ended_ = true;
      result_ = std::move(result);
      callbacks = std::move(callbacks_);
      status_ = status;
    }
    for (auto& callback : callbacks) callback(status);
  }

  absl::Status Wait(absl::Duration timeout) override {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(&ended_), timeout)) {
      return absl::DeadlineExceededError(
          absl::StrCat("no answer within ", absl::FormatDuration(timeout)));
    }
    return status_;
  }

  void OnDone(std::function<void(const absl::Status&)> done) override {
    absl::Status status;
    {
      absl::MutexLock lock(&mutex_);
      if (!ended_) {
        callbacks_.push_back(std::move(done));
        return;
      }
      status = status_;
    }
    done(status);
  }

  void Abort(absl::Status reason) override { Finish(std::move(reason)); }

  // Waits, then moves the result out. Call this once.
  absl::StatusOr<T> Take(absl::Duration timeout) {
    if (absl::Status status = Wait(timeout); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    return std::move(result_);
  }

 private:
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<T> result_ ABSL_GUARDED_BY(mutex_) = absl::UnknownError("not ended");
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void(const absl::Status&)>> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_WORK_H_
