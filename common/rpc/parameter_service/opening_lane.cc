#include "common/rpc/parameter_service/opening_lane.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/parameter_service.pb.h"

namespace muster {

struct OpeningLane::Waiting {
  v1::ExchangeRequest request;
  Payload payload;
  absl::Span<std::byte> landing;
  ParameterClient::Done done;
};

OpeningLane::OpeningLane(std::string address, Limits limits)
    : address_(std::move(address)), limits_(limits) {}

OpeningLane::~OpeningLane() {
  Abort(absl::CancelledError(absl::StrCat("the client of server ", address_, " was closed")));
}

void OpeningLane::Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                       ParameterClient::Done done) {
  absl::Status refused;
  ExchangeLane* lane = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (open_) {
      if (next_ != nullptr && unanswered_ == 0) {
        replaced_ = std::exchange(lane_, std::move(next_));
        makeshift_ = false;
        lane_->SetWaiting(somebody_waits_);
      }
      lane = lane_.get();
      if (makeshift_) done = CountedLocked(std::move(done));
    } else if (!aborted_.ok()) {
      refused = aborted_;
    } else {
      const auto bytes = static_cast<int64_t>(request.ByteSizeLong() + payload.size());
      refused = CheckMessageBytes(request, bytes);
      if (refused.ok() && waiting_bytes_ > 0 && waiting_bytes_ + bytes > limits_.max_queued_bytes) {
        refused = TooManyQueued(waiting_bytes_, limits_.max_queued_bytes, address_);
      }
      if (refused.ok()) {
        waiting_bytes_ += bytes;
        waiting_.push_back({std::move(request), std::move(payload), landing, std::move(done)});
        return;
      }
    }
  }
  if (lane != nullptr) {
    lane->Call(std::move(request), std::move(payload), landing, std::move(done));
  } else {
    done(std::move(refused));
  }
}

ParameterClient::Done OpeningLane::CountedLocked(ParameterClient::Done done) {
  ++unanswered_;
  return [this, done = std::move(done)](absl::StatusOr<ExchangeResult> result) {
    {
      // Before `done`, which may make the next call.
      absl::MutexLock lock(&mutex_);
      --unanswered_;
    }
    done(std::move(result));
  };
}

void OpeningLane::Open(std::unique_ptr<ExchangeLane> lane, Stay stay) {
  ExchangeLane* const opened = lane.get();
  {
    absl::MutexLock lock(&mutex_);
    lane_ = std::move(lane);
    makeshift_ = stay == Stay::kAsMakeshift;
  }
  while (true) {
    std::deque<Waiting> waiting;
    absl::Status aborted;
    {
      absl::MutexLock lock(&mutex_);
      aborted = aborted_;
      waiting.swap(waiting_);
      waiting_bytes_ = 0;
      if (makeshift_) {
        for (Waiting& call : waiting) call.done = CountedLocked(std::move(call.done));
      }
      // Opened only now, so that calls that come meanwhile do not overtake.
      if (waiting.empty()) open_ = true;
    }
    if (!aborted.ok()) opened->Abort(aborted);
    if (waiting.empty()) return;
    for (Waiting& call : waiting) {
      opened->Call(std::move(call.request), std::move(call.payload), call.landing,
                   std::move(call.done));
    }
  }
}

void OpeningLane::Replace(std::unique_ptr<ExchangeLane> lane) {
  absl::Status aborted;
  ExchangeLane* const replacing = lane.get();
  {
    absl::MutexLock lock(&mutex_);
    aborted = aborted_;
    next_ = std::move(lane);
  }
  if (!aborted.ok()) replacing->Abort(aborted);
}

void OpeningLane::SetWaiting(bool waiting) {
  ExchangeLane* lane = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    somebody_waits_ = waiting;
    // Before it is open, a lane takes it that somebody waits.
    if (open_) lane = lane_.get();
  }
  if (lane != nullptr) lane->SetWaiting(waiting);
}

void OpeningLane::Abort(absl::Status reason) {
  std::deque<Waiting> waiting;
  std::vector<ExchangeLane*> lanes;
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_.ok()) aborted_ = reason;
    waiting.swap(waiting_);
    waiting_bytes_ = 0;
    for (ExchangeLane* lane : {replaced_.get(), lane_.get(), next_.get()}) {
      if (lane != nullptr) lanes.push_back(lane);
    }
  }
  for (Waiting& call : waiting) call.done(reason);
  for (ExchangeLane* lane : lanes) lane->Abort(reason);
}

}  // namespace muster
