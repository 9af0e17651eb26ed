#ifndef MUSTER_COMMON_RPC_MEMBERSHIP_MEMBERSHIP_H_
#define MUSTER_COMMON_RPC_MEMBERSHIP_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/philox.h"
#include "common/rpc/membership/cluster_client.h"
#include "common/rpc/retry.h"

namespace muster {

namespace v1 {
class HeartbeatReply;
class HeartbeatRequest;
}  // namespace v1

// Callbacks on the membership thread, one at a time. They hold up the heartbeat; keep them short.
struct MembershipCallbacks {
  // Adds task reports and metrics to a heartbeat.
  std::function<void(v1::HeartbeatRequest&)> report;
  // Takes new orders: called when their version differs from the last reply's, and after every
  // registration.
  std::function<void(const v1::HeartbeatReply&)> orders;
  // Called after every registration.
  std::function<void(uint64_t incarnation)> registered;
  // Called when the lease ran out unrenewed, or the incarnation was fenced: others may have taken
  // over what the daemon did. The loop goes on trying to register.
  std::function<void(const absl::Status&)> lease_lost;
  // Called, for the log, when a registration or heartbeat fails with another message than the last
  // attempt's. The loop tries again.
  std::function<void(const absl::Status&)> trouble;
  // Called after each failed attempt to register or to renew the lease, before it is repeated.
  std::function<void()> failed;
  // Called when the coordinator will never take this daemon (INVALID_ARGUMENT,
  // FAILED_PRECONDITION); the loop has ended.
  std::function<void(const absl::Status&)> refused;
};

struct MembershipOptions {
  DaemonIdentity daemon;
  BackoffOptions backoff;
};

// Keeps a daemon a member of the cluster: registers, renews the lease by long-polled heartbeats a
// third of its length apart, hands on orders, and registers again after the lease is lost. Runs a
// thread of its own. `clock` judges leases; `cluster`, `clock` and `waiter` outlive the loop.
class MembershipLoop {
 public:
  MembershipLoop(ClusterClient& cluster, MembershipOptions options, const Clock& clock,
                 Waiter& waiter, MembershipCallbacks callbacks);
  // Ends the loop without telling the coordinator.
  ~MembershipLoop();

  // Sends a heartbeat soon, without waiting for the poll's end, since there is something to report.
  // Thread-safe.
  void ReportSoon();

  // Tells the coordinator, within `timeout`, that the daemon leaves, and ends the loop; no callback
  // runs afterwards. Blocks. Idempotent. Not to be called from a callback.
  void Leave(absl::Duration timeout);

 private:
  void Run();
  // Tries until registered; returns false if stopped or refused.
  bool Register();
  // Sends heartbeats until the incarnation ends; returns false if stopped.
  bool Serve();
  // Notes a failed attempt and waits before the next; returns false if stopped.
  bool Pause(Backoff& backoff, const absl::Status& failure);
  bool stopping() const ABSL_LOCKS_EXCLUDED(mutex_);

  ClusterClient& cluster_;
  const MembershipOptions options_;
  const Clock& clock_;
  Waiter& waiter_;
  const MembershipCallbacks callbacks_;

  // Membership thread only, until it is joined.
  uint64_t incarnation_ = 0;
  absl::Duration lease_;
  // Sending time of the request that last renewed the lease.
  absl::Duration renewed_;
  bool lease_held_ = false;
  std::string last_trouble_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Last, since it runs from construction on.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMBERSHIP_MEMBERSHIP_H_
