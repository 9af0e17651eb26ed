#include "worker/collectives/host/call_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace muster {

// A call with copies of all that it refers to, except its memory.
class CallQueue::StartedCall final : public Work {
 public:
  StartedCall(std::shared_ptr<CallQueue> queue, const CollectiveCall& call)
      : queue_(std::move(queue)),
        counts_(call.counts.begin(), call.counts.end()),
        send_counts_(call.send_counts.begin(), call.send_counts.end()),
        label_(call.label),
        call_(call) {
    call_.counts = counts_;
    call_.send_counts = send_counts_;
    call_.label = label_;
  }

  absl::Status Wait(absl::Duration timeout) override {
    return queue_->Await(*this, MonotonicNow() + timeout);
  }

  void OnDone(std::function<void(const absl::Status&)> done) override {
    absl::Status status;
    {
      absl::MutexLock lock(&queue_->mutex_);
      if (!ended_) {
        callbacks_.push_back(std::move(done));
        return;
      }
      status = status_;
    }
    done(status);
  }

  void Abort(absl::Status reason) override {
    absl::MutexLock lock(&queue_->mutex_);
    // The queue is not closed while a call has not ended, so that what the queue uses is there.
    if (!ended_) queue_->abort_(std::string(reason.message()));
  }

 private:
  friend class CallQueue;

  const std::shared_ptr<CallQueue> queue_;
  const std::vector<size_t> counts_;
  const std::vector<size_t> send_counts_;
  const std::string label_;
  CollectiveCall call_;
  // Used by the thread that holds the engine.
  CallOutcome outcome_;
  // Guarded by the queue's mutex.
  bool ended_ = false;
  absl::Status status_;
  std::vector<std::function<void(const absl::Status&)>> callbacks_;
};

CallQueue::CallQueue(CallEngine& engine, Transport& transport,
                     std::function<void(const std::string&)> abort)
    : engine_(engine), transport_(transport), abort_(std::move(abort)) {
  thread_ = std::thread([this] { Background(); });
}

CallQueue::~CallQueue() = default;

std::shared_ptr<Work> CallQueue::Start(const CollectiveCall& call) {
  auto started = std::make_shared<StartedCall>(shared_from_this(), call);
  bool busy;
  {
    absl::MutexLock lock(&mutex_);
    queued_.push_back(started);
    busy = busy_;
    if (!busy) work_.Signal();
  }
  // The thread that holds the engine may be waiting for a peer that waits for this call.
  if (busy) transport_.Wake();
  return started;
}

absl::Status CallQueue::Run(const CollectiveCall& call) {
  bool others;
  {
    absl::MutexLock lock(&mutex_);
    others = busy_ || HasCallsLocked();
    if (!others) busy_ = true;
  }
  if (others) return Start(call)->Wait(absl::InfiniteDuration());
  CallOutcome outcome;
  engine_.Begin(call, &outcome);
  while (!outcome.ended) {
    if (!engine_.Step()) engine_.Block(absl::InfiniteDuration());
  }
  absl::MutexLock lock(&mutex_);
  Release();
  return outcome.status;
}

void CallQueue::Close() {
  bool pending;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    pending = HasCallsLocked();
    work_.Signal();
  }
  if (pending) abort_("it left the group while calls were under way");
  {
    absl::MutexLock lock(&mutex_);
    ++waiting_;
    while (busy_) changed_.Wait(&mutex_);
    --waiting_;
    busy_ = true;
  }
  Drive(nullptr, absl::InfiniteDuration());
  {
    absl::MutexLock lock(&mutex_);
    Release();
  }
  thread_.join();
}

void CallQueue::Background() {
  absl::MutexLock lock(&mutex_);
  while (!closing_) {
    if (busy_ || !HasCallsLocked()) {
      work_.Wait(&mutex_);
      continue;
    }
    busy_ = true;
    mutex_.Unlock();
    Drive(nullptr, absl::InfiniteDuration());
    mutex_.Lock();
    Release();
  }
}

absl::Status CallQueue::Await(StartedCall& call, absl::Duration until) {
  absl::MutexLock lock(&mutex_);
  while (!call.ended_) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(Name(call.call_.kind), call.label_.empty() ? "" : " \"", call.label_,
                       call.label_.empty() ? "" : "\"", " has not ended yet; it goes on"));
    }
    if (busy_) {
      ++waiting_;
      changed_.WaitWithTimeout(&mutex_, left);
      --waiting_;
      continue;
    }
    busy_ = true;
    mutex_.Unlock();
    Drive(&call, until);
    mutex_.Lock();
    Release();
  }
  return call.status_;
}

void CallQueue::Drive(const StartedCall* target, absl::Duration until) {
  while (true) {
    Admit();
    Reap();
    {
      absl::MutexLock lock(&mutex_);
      if (!HasCallsLocked()) return;
      // Another thread may have ended the call while it held the engine.
      if (target != nullptr && target->ended_) return;
    }
    // Queued calls that could not begin while others were under way can begin now.
    if (engine_.idle()) continue;
    // A call that was queued before that Step took its ticket has woken nobody.
    if (!engine_.Step() && !MayAdmit()) engine_.Block(until);
    if (until != absl::InfiniteDuration() && MonotonicNow() >= until) return;
  }
}

bool CallQueue::MayAdmit() {
  absl::MutexLock lock(&mutex_);
  return !queued_.empty() && engine_.Takes(queued_.front()->call_.kind);
}

void CallQueue::Admit() {
  while (true) {
    StartedCall* next;
    {
      absl::MutexLock lock(&mutex_);
      if (queued_.empty() || !engine_.Takes(queued_.front()->call_.kind)) return;
      running_.push_back(std::move(queued_.front()));
      queued_.pop_front();
      next = running_.back().get();
    }
    engine_.Begin(next->call_, &next->outcome_);
  }
}

void CallQueue::Reap() {
  std::vector<std::shared_ptr<StartedCall>> ended;
  std::vector<std::function<void(const absl::Status&)>> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    const auto first = std::stable_partition(
        running_.begin(), running_.end(),
        [](const std::shared_ptr<StartedCall>& call) { return !call->outcome_.ended; });
    ended.assign(first, running_.end());
    running_.erase(first, running_.end());
  }
  for (const std::shared_ptr<StartedCall>& call : ended) {
    {
      absl::MutexLock lock(&mutex_);
      call->status_ = call->outcome_.status;
      call->ended_ = true;
      callbacks = std::move(call->callbacks_);
      if (waiting_ > 0) changed_.SignalAll();
    }
    for (auto& callback : callbacks) callback(call->outcome_.status);
    callbacks.clear();
  }
}

void CallQueue::Release() {
  busy_ = false;
  if (waiting_ > 0) changed_.SignalAll();
  if (HasCallsLocked()) work_.Signal();
}

}  // namespace muster
