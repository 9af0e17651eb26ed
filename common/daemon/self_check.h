#ifndef MUSTER_COMMON_DAEMON_SELF_CHECK_H_
#define MUSTER_COMMON_DAEMON_SELF_CHECK_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace muster {

struct SelfCheckOptions {
  // The address listened on.
  std::string address;
  absl::Duration interval = absl::Seconds(10);
  // Time for one call; longer than a busy machine keeps a daemon from running.
  absl::Duration timeout = absl::Seconds(10);
  // Calls in a row that fail before the daemon counts as deaf.
  int failures = 3;
};

// Calls the daemon's own rpc port again and again, each time over a new connection, as a stranger
// would. Nobody who could restart a process notices that it lives but does not answer, so the
// process has to end itself.
class SelfCheck {
 public:
  // `deaf` is called once, on the check's thread, when calls that worked before have failed several
  // times in a row. A daemon whose calls never worked, as where a firewall stops them, is left
  // alone.
  SelfCheck(SelfCheckOptions options, const RpcCredentials& credentials,
            std::function<void(const absl::Status&)> deaf);
  // Cancels the call under way.
  ~SelfCheck();

 private:
  void Run();
  absl::Status CallOnce();

  const SelfCheckOptions options_;
  const RpcCredentials credentials_;
  const std::function<void(const absl::Status&)> deaf_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Context of the call under way; null: there is none.
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_SELF_CHECK_H_
