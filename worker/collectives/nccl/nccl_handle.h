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
// NCCL takes one thread at a time inside a communicator, also to ask for its state: the call that
// finds an operation taken in frees what NCCL kept for it. So threads go in one after another, and
// but for the end nobody comes between an operation and the last look at its state. NCCL frees a
// communicator when it is aborted, so the end waits until nobody is inside, and nobody comes in
// after.
//
// Thread-safe. Whoever destroys it has ended it.
class NcclHandle {
 public:
  // How long a thread inside NCCL may take to come out by itself before an end.
  static constexpr absl::Duration kGrace = absl::Seconds(1);

  // Empty, to be filled by the first Issue.
  NcclHandle() = default;
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Calls `call`, which issues operations with the communicator, or has NCCL make it at this very
  // place, where NCCL may still write when `call` has returned; then waits until NCCL has taken
  // them: they are on the stream, or the error is known. Waits for another thread's Issue first.
  // Aborted: the handle was ended meanwhile; this too ends the wait.
  absl::Status Issue(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t&)> call);

  // The same, but gives up waiting with the first error of `go_on`, which is asked again and again.
  // NCCL may still be at it then; all that can follow is an end.
  absl::Status IssueWhile(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t&)> call,
                          absl::FunctionRef<absl::Status()> go_on);

  // The same for ncclCommSplit, which `call` calls with a place for the new communicator: returns
  // that, the caller's from now on, or null if this rank joins none. The place is kept as long as
  // the handle, as NCCL may come to write there when the wait was given up; AbortTogether ends what
  // it wrote.
  absl::StatusOr<ncclComm_t> SplitWhile(
      absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t, ncclComm_t* place)> call,
      absl::FunctionRef<absl::Status()> go_on);

  // What NCCL noticed in the background: success while all is well or the handle is empty or ended,
  // and while another thread is inside or issues, which reports errors itself. Does not block.
  ncclResult_t AsyncError();

  // Takes the communicator out, to be aborted or destroyed by the caller: from now on Issue fails.
  // Waits for the thread that is inside, but at most kGrace: one that is stuck in NCCL comes free
  // by the abort alone. Null if it was empty or taken before.
  ncclComm_t Take();

 private:
  friend void AbortTogether(absl::Span<NcclHandle* const> handles);

  // From the first line of an Issue to its last one, one thread. False once taken.
  bool BeginIssue();
  void EndIssue();
  // By the thread that issues. False once taken. Between Enter and Leave the communicator stays.
  bool Enter();
  void Leave();
  // Children that NCCL made in splits that were given up.
  std::vector<ncclComm_t> TakeChildren();
  // NCCL stores it from a thread of its own while it makes it.
  ncclComm_t comm() const { return __atomic_load_n(&comm_, __ATOMIC_ACQUIRE); }

  ncclComm_t comm_ = nullptr;
  absl::Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool issuing_ ABSL_GUARDED_BY(mutex_) = false;
  bool inside_ ABSL_GUARDED_BY(mutex_) = false;
  // Of every split; what they hold is written by NCCL, and taken, atomically.
  std::deque<ncclComm_t> children_ ABSL_GUARDED_BY(mutex_);
};

// Takes the communicators of all handles and aborts them in one group call, then what NCCL was
// still making out of them. The current device is the communicators'. Waits for their devices.
void AbortTogether(absl::Span<NcclHandle* const> handles);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_
