#include "common/rpc/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kRegisterTimeout = absl::Seconds(5);

template <typename Callback, typename... Arguments>
void CallIfSet(const Callback& callback, Arguments&&... arguments) {
  if (callback) callback(std::forward<Arguments>(arguments)...);
}

}  // namespace

MembershipLoop::MembershipLoop(ClusterClient& cluster, MembershipOptions options,
                               const Clock& clock, Waiter& waiter, MembershipCallbacks callbacks)
    : cluster_(cluster),
      options_(std::move(options)),
      clock_(clock),
      waiter_(waiter),
      callbacks_(std::move(callbacks)),
      thread_([this] { Run(); }) {}

MembershipLoop::~MembershipLoop() { Leave(absl::ZeroDuration()); }

void MembershipLoop::ReportSoon() { cluster_.Interrupt(); }

void MembershipLoop::Leave(absl::Duration timeout) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  waiter_.Stop();
  cluster_.Interrupt();
  thread_.join();
  if (!lease_held_ || timeout <= absl::ZeroDuration()) return;
  v1::HeartbeatRequest request;
  request.set_id(options_.daemon.id);
  request.set_incarnation(incarnation_);
  request.set_leaving(true);
  CallIfSet(callbacks_.report, request);
  // The interruption above may have come between two calls; then it ends this one, and the next
  // goes through. If the coordinator is gone, the lease expires instead.
  if (absl::IsCancelled(cluster_.Heartbeat(request, timeout).status())) {
    cluster_.Heartbeat(request, timeout).IgnoreError();
  }
}

bool MembershipLoop::stopping() const {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void MembershipLoop::Run() {
  while (Register() && Serve()) {
  }
}

bool MembershipLoop::Register() {
  Backoff backoff(options_.backoff, Philox(options_.daemon.process_nonce, "backoff", "register"));
  while (!stopping()) {
    const absl::Duration sent = clock_.Monotonic();
    const auto registration = cluster_.Register(options_.daemon, kRegisterTimeout);
    if (registration.ok()) {
      incarnation_ = registration->incarnation;
      lease_ = registration->lease;
      renewed_ = sent;
      lease_held_ = true;
      last_trouble_.clear();
      CallIfSet(callbacks_.registered, incarnation_);
      return true;
    }
    const absl::Status& status = registration.status();
    if (absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) {
      CallIfSet(callbacks_.refused, status);
      return false;
    }
    if (!absl::IsCancelled(status) && !Pause(backoff, status)) return false;
  }
  return false;
}

bool MembershipLoop::Serve() {
  Backoff backoff(options_.backoff, Philox(options_.daemon.process_nonce, "backoff", "heartbeat"));
  const absl::Duration poll = lease_ / 3;
  bool first = true;
  uint64_t seen_orders = 0;
  while (!stopping()) {
    v1::HeartbeatRequest request;
    request.set_id(options_.daemon.id);
    request.set_incarnation(incarnation_);
    request.set_seen_orders_version(seen_orders);
    request.set_poll_ms(first ? 0 : absl::ToInt64Milliseconds(poll));
    CallIfSet(callbacks_.report, request);
    const absl::Duration sent = clock_.Monotonic();
    const auto reply = cluster_.Heartbeat(request, poll + lease_ / 3);
    if (reply.ok()) {
      renewed_ = sent;
      backoff.Reset();
      last_trouble_.clear();
      if (first || reply->orders_version() != seen_orders) CallIfSet(callbacks_.orders, *reply);
      first = false;
      seen_orders = reply->orders_version();
      continue;
    }
    if (absl::IsCancelled(reply.status())) continue;
    if (absl::IsAborted(reply.status())) {
      lease_held_ = false;
      CallIfSet(callbacks_.lease_lost, reply.status());
      return true;
    }
    if (clock_.Monotonic() - renewed_ > lease_) {
      lease_held_ = false;
      CallIfSet(callbacks_.lease_lost,
                absl::UnavailableError(absl::StrCat("the lease of ", absl::FormatDuration(lease_),
                                                    " ran out: ", reply.status().message())));
      return true;
    }
    if (!Pause(backoff, reply.status())) return false;
  }
  return false;
}

bool MembershipLoop::Pause(Backoff& backoff, const absl::Status& failure) {
  if (last_trouble_ != failure.message()) {
    last_trouble_ = std::string(failure.message());
    CallIfSet(callbacks_.trouble, failure);
  }
  CallIfSet(callbacks_.failed);
  return waiter_.Wait(backoff.Next());
}

}  // namespace muster
