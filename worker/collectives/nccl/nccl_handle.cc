#include "worker/collectives/nccl/nccl_handle.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collectives/nccl/device_status.h"

namespace muster {
namespace {

// Interval between looks at a call that NCCL is still taking in; an end wakes the waiting thread at
// once.
constexpr absl::Duration kTakenLook = absl::Microseconds(20);

void AbortInOneCall(absl::Span<const ncclComm_t> comms) {
  if (comms.empty()) return;
  ncclGroupStart();
  for (ncclComm_t comm : comms) ncclCommAbort(comm);
  ncclGroupEnd();
}

}  // namespace

bool NcclHandle::BeginIssue() {
  absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_ || !issuing_; };
  mutex_.Await(absl::Condition(&due));
  if (taken_) return false;
  issuing_ = true;
  return true;
}

void NcclHandle::EndIssue() {
  absl::MutexLock lock(&mutex_);
  issuing_ = false;
}

bool NcclHandle::Enter() {
  absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_ || !inside_; };
  mutex_.Await(absl::Condition(&due));
  if (taken_) return false;
  inside_ = true;
  return true;
}

void NcclHandle::Leave() {
  absl::MutexLock lock(&mutex_);
  inside_ = false;
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
  if (!BeginIssue()) return ended();
  const absl::Cleanup issued = [this] { EndIssue(); };
  if (!Enter()) return ended();
  ncclResult_t result = call(comm_);
  while (result == ncclInProgress) {
    Leave();
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&taken_), kTakenLook);
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

absl::StatusOr<ncclComm_t> NcclHandle::SplitWhile(
    absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t, ncclComm_t* place)> call,
    absl::FunctionRef<absl::Status()> go_on) {
  ncclComm_t* place = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    place = &children_.emplace_back(nullptr);
  }
  const auto split = [&](ncclComm_t& comm) {
    const ncclResult_t begun = call(comm, place);
    // Success says that NCCL has begun; the state of the parent says when the child is there.
    return begun == ncclSuccess ? ncclInProgress : begun;
  };
  MUSTER_RETURN_IF_ERROR(IssueWhile(what, split, go_on));
  return __atomic_exchange_n(place, nullptr, __ATOMIC_ACQ_REL);
}

ncclResult_t NcclHandle::AsyncError() {
  {
    absl::MutexLock lock(&mutex_);
    if (taken_ || issuing_ || inside_) return ncclSuccess;
    inside_ = true;
  }
  ncclResult_t result = ncclSuccess;
  if (comm() != nullptr) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm(), &result);
    if (asked != ncclSuccess) result = asked;
  }
  Leave();
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclComm_t NcclHandle::Take() {
  absl::MutexLock lock(&mutex_);
  if (taken_) return nullptr;
  taken_ = true;
  const auto nobody = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !inside_; };
  mutex_.AwaitWithTimeout(absl::Condition(&nobody), kGrace);
  return comm();
}

std::vector<ncclComm_t> NcclHandle::TakeChildren() {
  std::vector<ncclComm_t> taken;
  absl::MutexLock lock(&mutex_);
  for (ncclComm_t& place : children_) {
    ncclComm_t child = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQ_REL);
    if (child != nullptr) taken.push_back(child);
  }
  return taken;
}

void AbortTogether(absl::Span<NcclHandle* const> handles) {
  std::vector<ncclComm_t> comms;
  for (NcclHandle* handle : handles) {
    if (ncclComm_t comm = handle->Take(); comm != nullptr) comms.push_back(comm);
  }
  AbortInOneCall(comms);
  // An abort waits for the split that was under way.
  std::vector<ncclComm_t> children;
  for (NcclHandle* handle : handles) {
    for (ncclComm_t child : handle->TakeChildren()) children.push_back(child);
  }
  AbortInOneCall(children);
}

}  // namespace muster
