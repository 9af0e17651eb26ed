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

// Watches over all NCCL groups that one process has for one job, on a thread of its own: ends calls
// that are done, notices deadlines and failures. Of NCCL it calls ncclCommGetAsyncError alone, and
// that only while no other thread is inside the communicator or issues a call (nccl_handle.h), so
// that a call stuck in NCCL does not hold its own deadline up.
//
// When one group fails, all of them end, with the same error, and their NCCL communicators are
// aborted together in one group call: aborted one by one, each can wait for a kernel that waits for
// another one's. The aborts run on a thread of their own; handles end after at most kAbort even if
// an abort hangs. Both threads have the groups' device.
//
// One for each round of a job: after a failure it takes no new groups. Thread-safe. Goes after its
// groups.
class NcclWatch {
 public:
  static constexpr absl::Duration kAbort = absl::Seconds(10);

  NcclWatch();
  ~NcclWatch();

  // From now on the group is watched. An error if the process's groups have failed already.
  absl::Status Add(std::shared_ptr<NcclGroup> group);
  void Remove(const NcclGroup& group);

  // OK until a group has failed.
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
  // The watch thread's, until it has ended.
  std::vector<std::thread> aborts_;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_WATCH_H_
