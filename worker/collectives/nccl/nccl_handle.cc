#include "worker/collectives/nccl/nccl_handle.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collectives/nccl/device_status.h"

namespace muster {
namespace {

// Between two looks at a call that NCCL is still taking in; an end wakes the waiting thread at
// once.
constexpr absl::Duration kLook = absl::Microseconds(20);

}  // namespace

bool NcclHandle::Enter() {
  absl::MutexLock lock(&mutex_);
  if (taken_) return false;
  ++inside_;
  return true;
}

void NcclHandle::Leave() {
  absl::MutexLock lock(&mutex_);
  --inside_;
}

absl::Status NcclHandle::Issue(absl::string_view what,
                               absl::FunctionRef<ncclResult_t(ncclComm_t&)> call) {
  return IssueWhile(what, call, [] { return absl::OkStatus(); });
}

absl::Status NcclHandle::IssueWhile(absl::string_view what,
                                    absl::FunctionRef<ncclResult_t(ncclComm_t&)> call,
                                    absl::FunctionRef<absl::Status()> go_on) {
  const auto ended = [&what] {
    return absl::AbortedError(absl::StrCat(what, ": the communicator has been ended"));
  };
  if (!Enter()) return ended();
  ncclResult_t result = call(comm_);
  while (result == ncclInProgress) {
    Leave();
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&taken_), kLook);
    }
    MUSTER_RETURN_IF_ERROR(go_on());
    if (!Enter()) return ended();
    const ncclResult_t asked = ncclCommGetAsyncError(comm(), &result);
    if (asked != ncclSuccess) result = asked;
  }
  const absl::Status status = NcclStatus(result, comm(), what);
  Leave();
  return status;
}

ncclResult_t NcclHandle::AsyncError() {
  if (!Enter()) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  if (comm() != nullptr) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm(), &result);
    if (asked != ncclSuccess) result = asked;
  }
  Leave();
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclComm_t NcclHandle::Take(absl::Duration grace) {
  absl::MutexLock lock(&mutex_);
  if (taken_) return nullptr;
  taken_ = true;
  const auto nobody = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ == 0; };
  mutex_.AwaitWithTimeout(absl::Condition(&nobody), grace);
  return comm();
}

}  // namespace muster
