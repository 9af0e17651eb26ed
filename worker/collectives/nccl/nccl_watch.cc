#include "worker/collectives/nccl/nccl_watch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "worker/collectives/nccl/nccl_handle.h"

namespace muster {
namespace {

// Intervals between looks while calls are under way, and while none are.
constexpr absl::Duration kBusy = absl::Microseconds(200);
constexpr absl::Duration kIdle = absl::Milliseconds(10);
// Time that the device may take to stop.
constexpr absl::Duration kDevice = absl::Seconds(5);

// Sets the device of a thread of our own. A thread's first device is CUDA's number 0, and almost
// any call makes a context there, which costs hundreds of MiB of a device that may be another
// rank's.
class ThreadDevice {
 public:
  void Set(int device) {
    if (device == device_) return;
    device_ = device;
    cudaSetDevice(device);
  }

 private:
  int device_ = -1;
};

void AbortGroups(const std::vector<std::shared_ptr<NcclGroup>>& groups) {
  ThreadDevice device;
  std::vector<NcclHandle*> handles;
  for (const auto& group : groups) {
    device.Set(group->device());
    handles.push_back(&group->handle());
  }
  AbortTogether(handles);
  for (const auto& group : groups) group->AwaitDevice(kDevice);
}

}  // namespace

NcclWatch::NcclWatch() {
  thread_ = std::thread([this] { Watch(); });
}

NcclWatch::~NcclWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
  for (std::thread& abort : aborts_) abort.join();
}

absl::Status NcclWatch::Add(std::shared_ptr<NcclGroup> group) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return status_;
  groups_.push_back(std::move(group));
  return absl::OkStatus();
}

void NcclWatch::Remove(const NcclGroup& group) {
  std::shared_ptr<NcclGroup> removed;
  absl::MutexLock lock(&mutex_);
  const auto at = std::find_if(groups_.begin(), groups_.end(),
                               [&](const auto& each) { return each.get() == &group; });
  if (at == groups_.end()) return;
  removed = std::move(*at);
  groups_.erase(at);
}

absl::Status NcclWatch::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void NcclWatch::Wake() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

void NcclWatch::Watch() {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || woken_; };
  bool busy = false;
  ThreadDevice device;
  while (true) {
    std::vector<std::shared_ptr<NcclGroup>> groups;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&due), busy ? kBusy : kIdle);
      woken_ = false;
      if (stopping_) return;
      if (!status_.ok()) {
        mutex_.Await(absl::Condition(&stopping_));
        return;
      }
      groups = groups_;
    }
    busy = false;
    for (const auto& group : groups) {
      device.Set(group->device());
      if (absl::Status failed = group->Poll(); !failed.ok()) {
        EndAll(failed);
        break;
      }
      busy = busy || !group->idle();
    }
  }
}

void NcclWatch::EndAll(const absl::Status& reason) {
  std::vector<std::shared_ptr<NcclGroup>> groups;
  {
    absl::MutexLock lock(&mutex_);
    status_ = reason;
    groups = groups_;
  }
  for (const auto& group : groups) group->Close(reason);
  const auto aborted = std::make_shared<absl::Notification>();
  aborts_.emplace_back([groups, aborted] {
    AbortGroups(groups);
    aborted->Notify();
  });
  aborted->WaitForNotificationWithTimeout(kAbort);
  for (const auto& group : groups) group->EndCalls();
}

}  // namespace muster
