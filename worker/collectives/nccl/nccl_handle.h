#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_

#include <nccl.h>

#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {

// A non-blocking ncclComm_t that one thread may end while another is inside a NCCL call with it.
//
// NCCL takes one thread at a time inside a communicator, even to ask for its state: the query that
// finds an operation taken in frees what NCCL kept for it. Threads therefore go in one after
// another, and only an end may come between an operation and the last look at its state. NCCL frees
// a communicator when it is aborted, so an end waits until nobody is inside; then nobody comes in.
//
// Thread-safe. Must be ended before it is destroyed.
class NcclHandle {
 public:
  // Time that an end gives a thread inside NCCL to come out by itself.
  static constexpr absl::Duration kGrace = absl::Seconds(1);

  // Makes an empty handle, to be filled by the first Issue.
  NcclHandle() = default;
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Runs `call`, then waits until NCCL has taken in its operations: they are on the stream, or the
  // error is known. `call` issues operations with the communicator, or has NCCL make it in the
  // argument, where NCCL may still write after `call` has returned. Waits for another thread's
  // Issue first. Aborted: the handle was ended meanwhile, which also ends the wait.
  absl::Status Issue(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t&)> call);

  // Does the same, but gives up waiting with the first error of `go_on`, which is asked again and
  // again. NCCL may still be at work then; only an end may follow.
  absl::Status IssueWhile(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t&)> call,
                          absl::FunctionRef<absl::Status()> go_on);

  // Does the same for ncclCommSplit, which `call` calls with a place for the new communicator.
  // Returns the new communicator, which the caller owns, or null if this rank joins none. The
  // handle keeps the place for life, as NCCL may write there after the wait was given up;
  // AbortTogether ends what NCCL wrote.
  absl::StatusOr<ncclComm_t> SplitWhile(
      absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t, ncclComm_t* place)> call,
      absl::FunctionRef<absl::Status()> go_on);

  // Returns what NCCL noticed in the background: success also if the handle is empty or ended, and
  // while another thread is inside or issues, which reports errors itself. Does not block.
  ncclResult_t AsyncError();

  // Takes the communicator out, to be aborted or destroyed by the caller; Issue fails from now on.
  // Waits at most kGrace for a thread that is inside: a thread stuck in NCCL comes free only by the
  // abort. Returns null if the handle was empty or taken before.
  ncclComm_t Take();

 private:
  friend void AbortTogether(absl::Span<NcclHandle* const> handles);

  // Enclose an Issue, for one thread at a time. BeginIssue returns false once taken.
  bool BeginIssue();
  void EndIssue();
  // Enclose a stay of the issuing thread inside NCCL, which keeps the communicator. Enter returns
  // false once taken.
  bool Enter();
  void Leave();
  // Takes the children that NCCL made in splits that were given up.
  std::vector<ncclComm_t> TakeChildren();
  // Reads atomically, as NCCL makes the communicator on a thread of its own.
  ncclComm_t comm() const { return __atomic_load_n(&comm_, __ATOMIC_ACQUIRE); }

  ncclComm_t comm_ = nullptr;
  absl::Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool issuing_ ABSL_GUARDED_BY(mutex_) = false;
  bool inside_ ABSL_GUARDED_BY(mutex_) = false;
  // The places of all splits, which NCCL writes, and the handle takes, atomically.
  std::deque<ncclComm_t> children_ ABSL_GUARDED_BY(mutex_);
};

// Takes the communicators of all handles and aborts them in one group call, then the children that
// NCCL was still making. Waits for their devices. REQUIRES: the current device is theirs.
void AbortTogether(absl::Span<NcclHandle* const> handles);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_
