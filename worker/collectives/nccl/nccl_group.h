#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_GROUP_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_GROUP_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/flight_recorder.h"
#include "worker/collectives/nccl/ledger_rounds.h"
#include "worker/collectives/nccl/nccl_handle.h"
#include "worker/collectives/nccl/nccl_operations.h"

namespace muster {

class NcclGroup;

// One call under way. Callers that wait look at the device themselves.
class NcclWork final : public Work {
 public:
  NcclWork(std::weak_ptr<NcclGroup> group, uint64_t sequence, absl::Duration deadline,
           std::string description)
      : group_(std::move(group)),
        sequence_(sequence),
        deadline_(deadline),
        description_(std::move(description)) {}

  absl::Status Wait(absl::Duration timeout) override;
  void OnDone(std::function<void(const absl::Status&)> done) override;
  void Abort(absl::Status reason) override;

 private:
  friend class NcclGroup;
  void Finish(const absl::Status& status);

  const std::weak_ptr<NcclGroup> group_;
  const uint64_t sequence_;
  // Deadline on the monotonic clock.
  const absl::Duration deadline_;
  const std::string description_;
  CallLedger::Ticket ticket_;
  // Event recorded on the group's stream behind the call, once `queued_` (guarded by the group).
  cudaEvent_t done_ = nullptr;
  bool queued_ = false;
  std::atomic<bool> ended_{false};
  Pending<bool> result_;
};

// One rank's side of one group: its stream, its NCCL communicator, its ledger, and the calls under
// way. Calls are started by one thread at a time; all else is thread-safe.
class NcclGroup : public std::enable_shared_from_this<NcclGroup> {
 public:
  struct Parts {
    std::string name;
    int rank = 0;
    int size = 1;
    int device = 0;
    // The ledger; null in a group of one.
    std::unique_ptr<LedgerRounds> rounds;
  };

  // Takes a stream and scratch memory from the device, and loads the kernels: a kernel loaded at
  // its first use could wait for a collective that waits for the kernel. Errors reach all ranks.
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Create(Parts parts);
  ~NcclGroup();

  int rank() const { return parts_.rank; }
  int size() const { return parts_.size; }
  int device() const { return parts_.device; }
  const std::string& name() const { return parts_.name; }
  LedgerRounds& rounds() { return *parts_.rounds; }
  NcclHandle& handle() { return handle_; }
  const FlightRecorder& recorder() const { return recorder_; }
  CollectiveTraffic traffic() const { return {sent_.load(), received_.load()}; }
  cudaStream_t stream() const { return stream_; }

  // Puts calls on the device together; see Communicator::Start and StartMessages. REQUIRES: one
  // call, or messages.
  std::vector<std::shared_ptr<Work>> Start(absl::Span<const CollectiveCall> calls);

  // Blocks until no call is under way, or returns the group's error.
  absl::Status Drain();

  // Suggests why the group should fail; all ranks then fail, with the error of one of them. Others
  // are told of a device's fault only that this rank is gone. Does not block.
  void Suggest(const absl::Status& reason);
  // Tells only the others, before there are calls.
  void Propose(const absl::Status& reason);

  // Ends the calls that are done, and looks for failures. Returns an error if the group has to end.
  absl::Status Poll();
  bool idle() const;

  // NcclWatch calls these in turn when the process's groups end: Close refuses new calls;
  // AwaitDevice, after the abort, waits at most `grace` until the device has left the calls'
  // memory.
  void Close(const absl::Status& reason);
  void AwaitDevice(absl::Duration grace);
  void EndCalls();

  // Ends the group in order: tells the others, and lets NCCL flush.
  void Leave();

 private:
  explicit NcclGroup(Parts parts);
  absl::Status Prepare();
  // A call that the ledger has taken, and the caller's handle.
  struct Begun {
    CollectiveCall call;
    std::shared_ptr<NcclWork> work;
  };
  // Notes the call, which is under way from now on. An error is the call's result.
  absl::StatusOr<Begun> Begin(const CollectiveCall& call);
  // Puts the calls on the stream.
  absl::Status Queue(absl::Span<const Begun> calls);
  absl::StatusOr<cudaEvent_t> TakeEvent();
  // Returns the error that ends the group on the other ranks.
  absl::Status ForPeers(const absl::Status& reason) const;
  absl::Status CheckDeviceMemory(const CollectiveCall& call) const;
  absl::Status LateLocked(absl::Duration now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Parts parts_;
  NcclHandle handle_;
  FlightRecorder recorder_;
  // Const after Create.
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::byte* scratch_ = nullptr;
  // Used by the calling thread only.
  uint64_t sequence_ = 0;
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> received_{0};

  mutable absl::Mutex mutex_;
  std::deque<std::shared_ptr<NcclWork>> calls_ ABSL_GUARDED_BY(mutex_);
  std::vector<cudaEvent_t> free_events_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  // True after EndCalls.
  bool calls_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status suggested_ ABSL_GUARDED_BY(mutex_);
  absl::Duration suggested_at_ ABSL_GUARDED_BY(mutex_);
  // Time when NCCL first reported an error in the background.
  absl::Duration nccl_error_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
};

// Returns work that has ended already.
std::shared_ptr<Work> EndedWork(const absl::Status& status);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_GROUP_H_
