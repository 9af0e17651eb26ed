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

// The health of a group: whether it can go on, and who has left. Every change wakes the owner of
// the doorbell, which must outlive this object. Thread-safe.
class GroupHealth final : public Interrupt {
 public:
  GroupHealth(Doorbell& bell, int size) : bell_(bell), left_(size) {}

  bool ok() const { return !failed_.load(std::memory_order_seq_cst); }
  absl::Status status() const override {
    if (ok()) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    return status_;
  }

  // Fails the group. Returns true for the first reason, which counts. REQUIRES: not OK.
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

  // Returns true if the rank has said goodbye. What it wrote before has then arrived.
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
