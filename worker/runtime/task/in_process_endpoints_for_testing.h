#ifndef MUSTER_WORKER_RUNTIME_TASK_IN_PROCESS_ENDPOINTS_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_TASK_IN_PROCESS_ENDPOINTS_FOR_TESTING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/host/live_communicators.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {

// Makes endpoints whose ranks are threads of this process and can be killed. Thread-safe.
class InProcessEndpoints {
 public:
  // Sees every call before it is made, on the thread that makes it, and may change it.
  using CallHook = std::function<void(const std::string& name, CollectiveCall& call)>;

  explicit InProcessEndpoints(CallHook hook = nullptr) : hook_(std::move(hook)) {}

  // Makes the endpoint of a new task. `name` becomes its address; each name is used once.
  std::unique_ptr<CollectiveEndpoint> Make(const std::string& name);

  // Acts like SIGKILL of the task's process: its group sees it die, and it never connects again.
  void Kill(const std::string& name);

 private:
  class Endpoint;
  struct Group {
    std::unique_ptr<InProcessGroup> ranks;
    std::map<std::string, int> rank_of;
    int joined = 0;
    int size = 0;
  };

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string& name,
                                                        const CollectiveEndpoint::Group& group,
                                                        absl::Duration timeout,
                                                        std::shared_ptr<LiveCommunicators> live);

  const CallHook hook_;
  absl::Mutex mutex_;
  // Groups by round.
  std::map<uint64_t, Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> dead_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TASK_IN_PROCESS_ENDPOINTS_FOR_TESTING_H_
