#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_WATCH_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_WATCH_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/collectives/nccl/nccl_group.h"

namespace muster {

// Watches all NCCL groups that one process has for one job, on a thread of its own: ends calls that
// are done, and notices deadlines and failures. The watch calls only ncclCommGetAsyncError of NCCL,
// and only while no other thread is inside the communicator or issues a call (nccl_handle.h), so
// that a call stuck in NCCL does not hold its own deadline up.
//
// When one group fails, all of them end with the same error. Their NCCL communicators are aborted
// together in one group call: one by one, each abort can wait for a kernel that waits for another
// communicator's. The aborts run on a thread of their own; handles end after at most kAbort even if
// an abort hangs. Both threads use the groups' device.
//
// One for each round of a job: takes no groups after a failure. Thread-safe. Outlives its groups.
class NcclWatch {
 public:
  static constexpr absl::Duration kAbort = absl::Seconds(10);

  NcclWatch();
  ~NcclWatch();

  // Watches the group from now on. Fails if the process's groups have failed already.
  absl::Status Add(std::shared_ptr<NcclGroup> group);
  void Remove(const NcclGroup& group);

  // Returns OK until a group has failed.
  absl::Status status() const;

  // Makes the watch look soon.
  void Wake();

 private:
  void Watch();
  void EndAll(const absl::Status& reason);

  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<NcclGroup>> groups_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Used by the watch thread until it has ended.
  std::vector<std::thread> aborts_;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_WATCH_H_
