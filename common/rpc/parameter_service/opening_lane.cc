#include "common/rpc/parameter_service/opening_lane.h"

#include <utility>

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
      lane = lane_.get();
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

void OpeningLane::Open(std::unique_ptr<ExchangeLane> lane) {
  ExchangeLane* const opened = lane.get();
  {
    absl::MutexLock lock(&mutex_);
    lane_ = std::move(lane);
  }
  while (true) {
    std::deque<Waiting> waiting;
    absl::Status aborted;
    {
      absl::MutexLock lock(&mutex_);
      aborted = aborted_;
      waiting.swap(waiting_);
      waiting_bytes_ = 0;
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

void OpeningLane::SetWaiting(bool waiting) {
  ExchangeLane* lane = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    // Before it is open, a lane takes it that somebody waits.
    if (open_) lane = lane_.get();
  }
  if (lane != nullptr) lane->SetWaiting(waiting);
}

void OpeningLane::Abort(absl::Status reason) {
  std::deque<Waiting> waiting;
  ExchangeLane* lane = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_.ok()) aborted_ = reason;
    waiting.swap(waiting_);
    waiting_bytes_ = 0;
    lane = lane_.get();
  }
  for (Waiting& call : waiting) call.done(reason);
  if (lane != nullptr) lane->Abort(std::move(reason));
}

}  // namespace muster
