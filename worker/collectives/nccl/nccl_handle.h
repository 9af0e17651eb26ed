#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_

#include <nccl.h>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

// A non-blocking ncclComm_t that one thread may end while another is inside a NCCL call with it.
// NCCL frees a communicator when it is aborted, so the end waits until nobody is inside, and nobody
// comes in after. Thread-safe. Whoever destroys it has ended it.
class NcclHandle {
 public:
  // Empty, to be filled by the first Issue.
  NcclHandle() = default;
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Calls `call`, which issues operations with the communicator, or has NCCL make it at this very
  // place, where NCCL may still write when `call` has returned; then waits until NCCL has taken
  // them: they are on the stream, or the error is known. Aborted: the handle was ended meanwhile;
  // this too ends the wait.
  absl::Status Issue(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t&)> call);

  // The same, but gives up waiting with the first error of `go_on`, which is asked again and again.
  // NCCL may still be at it then; all that can follow is Take and an abort.
  absl::Status IssueWhile(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t&)> call,
                          absl::FunctionRef<absl::Status()> go_on);

  // What NCCL noticed in the background: success while all is well or the handle is empty or ended.
  ncclResult_t AsyncError();

  // Takes the communicator out, to be aborted or destroyed by the caller: from now on Issue fails.
  // Waits for the thread that is inside, but at most `grace`: one that is stuck in NCCL comes free
  // by the abort alone. Null if it was empty or taken before.
  ncclComm_t Take(absl::Duration grace);

 private:
  // False once taken. Between Enter and Leave the communicator stays.
  bool Enter();
  void Leave();
  // NCCL stores it from a thread of its own while it makes it.
  ncclComm_t comm() const { return __atomic_load_n(&comm_, __ATOMIC_ACQUIRE); }

  ncclComm_t comm_ = nullptr;
  absl::Mutex mutex_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_NCCL_HANDLE_H_
