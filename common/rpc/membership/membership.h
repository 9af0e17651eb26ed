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

// All are called on the membership thread, one at a time, and hold up the heartbeat while they run;
// keep them short.
struct MembershipCallbacks {
  // Adds task reports and metrics to a heartbeat.
  std::function<void(v1::HeartbeatRequest&)> report;
  // New orders: called when their version differs from the last reply's, and after every
  // registration.
  std::function<void(const v1::HeartbeatReply&)> orders;
  // Registered, first or again.
  std::function<void(uint64_t incarnation)> registered;
  // The lease ran out unrenewed, or the incarnation was fenced: others may have taken over what the
  // daemon did. The loop goes on trying to register.
  std::function<void(const absl::Status&)> lease_lost;
  // Registration failed; it is tried again. For the log: called when the message changes, not for
  // each attempt.
  std::function<void(const absl::Status&)> trouble;
  // The coordinator will never take this daemon (INVALID_ARGUMENT, FAILED_PRECONDITION); the loop
  // has ended.
  std::function<void(const absl::Status&)> refused;
};

struct MembershipOptions {
  DaemonIdentity daemon;
  BackoffOptions backoff;
};

// Keeps a daemon a member of the cluster: registers, renews the lease by long-polled heartbeats a
// third of it apart, hands on orders, and registers again after the coordinator or the connection
// was gone. Runs a thread of its own. Leases are judged by `clock`; `cluster`, `clock` and `waiter`
// outlive the loop.
class MembershipLoop {
 public:
  MembershipLoop(ClusterClient& cluster, MembershipOptions options, const Clock& clock,
                 Waiter& waiter, MembershipCallbacks callbacks);
  // Stops.
  ~MembershipLoop();

  // Sends a heartbeat soon instead of when the poll ends, since there is something to report.
  // Thread-safe.
  void ReportSoon();

  // Tells the coordinator that the daemon leaves (within `timeout`) and ends the loop; no callback
  // runs afterwards. Blocks. Idempotent. Not to be called from a callback.
  void Leave(absl::Duration timeout);

 private:
  void Run();
  // Tries until registered; false: stopped or refused.
  bool Register();
  // Heartbeats until the incarnation ends; false: stopped.
  bool Serve();
  // Notes a failed attempt and waits before the next; false: stopped.
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
  // When the request that last renewed the lease was sent.
  absl::Duration renewed_;
  bool lease_held_ = false;
  std::string last_trouble_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: it runs from construction on.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMBERSHIP_MEMBERSHIP_H_
