#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_GROUP_HEALTH_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_GROUP_HEALTH_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/deadline.h"
#include "worker/collectives/transport/pipes/doorbell.h"

namespace muster {

// Whether a group can go on, and who has left it. Thread-safe. Every change wakes the rank that
// owns the doorbell, which must outlive this.
class GroupHealth final : public Interrupt {
 public:
  GroupHealth(Doorbell& bell, int size) : bell_(bell), left_(size) {}

  bool ok() const { return !failed_.load(std::memory_order_seq_cst); }
  absl::Status status() const override {
    if (ok()) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  // The first reason counts; returns whether this was it. REQUIRES: not OK.
  bool Fail(absl::Status reason) {
    {
      absl::MutexLock lock(&mutex_);
      if (!status_.ok()) return false;
      status_ = std::move(reason);
      failed_.store(true, std::memory_order_seq_cst);
    }
    bell_.RingAll();
    return true;
  }

  // That rank has said goodbye: what it wrote before is there.
  bool left(int rank) const { return left_[rank].load(std::memory_order_seq_cst); }
  void SetLeft(int rank) {
    left_[rank].store(true, std::memory_order_seq_cst);
    bell_.RingAll();
  }

 private:
  Doorbell& bell_;
  std::vector<std::atomic<bool>> left_;
  std::atomic<bool> failed_ = false;
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_GROUP_HEALTH_H_
