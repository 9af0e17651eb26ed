#ifndef MUSTER_WORKER_RUNTIME_TASK_JOB_IN_THREADS_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_TASK_JOB_IN_THREADS_FOR_TESTING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "common/rpc/retry.h"
#include "proto/job.pb.h"
#include "worker/runtime/coordinator_client/fake_meeting.h"
#include "worker/runtime/task/in_process_endpoints_for_testing.h"

namespace muster {

class DeviceTraining;

// A waiter that does not wait.
class ImmediateWaiter final : public Waiter {
 public:
  bool Wait(absl::Duration) override { return true; }
  void Stop() override {}
};

// The tasks of a job, each in a thread, with a coordinator and endpoints in memory.
class JobInThreads {
 public:
  // Sees a slot's calls before they are made. `call` counts those of the present task from 0.
  using CallHook = std::function<void(uint32_t slot, int call, CollectiveCall& made)>;

  explicit JobInThreads(const v1::JobSpec& spec);

  ~JobInThreads();

  // May be used before the tasks are started.
  void SetHook(CallHook hook) { hook_ = std::move(hook); }
  void SetSpec(uint32_t slot, const v1::JobSpec& spec) { specs_[slot] = spec; }

  // Sets what tasks train with on devices. For calls before the tasks are started.
  void SetDevices(DeviceTraining& devices) { devices_ = &devices; }

  // Starts the slot's next task.
  void Start(uint32_t slot);
  void StartAll();

  // Waits for the end of the slot's task.
  absl::Status Wait(uint32_t slot);

  // Acts like SIGKILL of the slot's process.
  void Kill(uint32_t slot);

  // Returns the checksums of the last checkpoint's files.
  std::vector<uint64_t> Checksums() const;

  std::vector<std::string> log() const;

  FakeMeeting meeting;

 private:
  struct Task {
    std::string name;
    std::unique_ptr<CoordinatorClient> coordinator;
  };

  void RunTaskOf(uint32_t slot, const Task& task);

  void OnCall(const std::string& name, CollectiveCall& call);

  const v1::JobSpec spec_;
  std::map<uint32_t, v1::JobSpec> specs_;
  RealClock clock_;
  ImmediateWaiter waiter_;
  MemoryStorage storage_;
  CallHook hook_;
  DeviceTraining* devices_ = nullptr;
  InProcessEndpoints endpoints_;
  // Used by the test's thread only.
  std::map<uint32_t, std::thread> threads_;

  mutable absl::Mutex mutex_;
  std::map<uint32_t, int> incarnations_ ABSL_GUARDED_BY(mutex_);
  // Names of the slots' present tasks.
  std::map<uint32_t, std::string> names_ ABSL_GUARDED_BY(mutex_);
  // Number of calls by task.
  std::map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, absl::Status> ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_JOB_IN_THREADS_FOR_TESTING_H_
