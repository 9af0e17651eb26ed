#include "common/rpc/parameter_service/channel_lane.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/parameter_service.pb.h"

namespace muster {

// The calls that wait for the window or for their answer. The channel keeps them until its end.
class ChannelLane::Calls final : public FrameChannel::Handler {
 public:
  // `channel` outlives its handler.
  Calls(FrameChannel& channel, std::string address, Limits limits)
      : channel_(channel), address_(std::move(address)), limits_(limits) {}

  void Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
            ParameterClient::Done done) ABSL_LOCKS_EXCLUDED(mutex_) {
    const uint64_t id = next_id_.fetch_add(1, std::memory_order_relaxed);
    request.set_request_id(id);
    const bool is_push = request.has_dense_push() || request.has_sparse_push();
    Unanswered unanswered;
    unanswered.landing = landing;
    const size_t payload_bytes = payload.size();
    if (const auto range = RangeOf(payload)) {
      *request.mutable_payload_in() = *range;
      unanswered.payload = std::exchange(payload, Payload());
    }
    if (const auto range = RangeOf(landing)) {
      *request.mutable_answer_to() = *range;
      unanswered.lands_there = true;
    }
    Outgoing outgoing;
    outgoing.header = request.SerializeAsString();
    outgoing.payload = std::move(payload);
    outgoing.bytes = static_cast<int64_t>(outgoing.header.size() + payload_bytes);
    outgoing.named_bytes = static_cast<int64_t>(unanswered.payload.size());
    outgoing.window_bytes = is_push ? outgoing.bytes : 0;
    unanswered.window_bytes = outgoing.window_bytes;
    absl::Status refused = CheckMessageBytes(request, outgoing.bytes);
    if (refused.ok()) {
      absl::MutexLock lock(&mutex_);
      if (!closed_.ok()) {
        refused = closed_;
      } else if (queued_bytes_ > 0 && queued_bytes_ + outgoing.bytes > limits_.max_queued_bytes) {
        refused = TooManyQueued(queued_bytes_, limits_.max_queued_bytes, address_);
      } else {
        unanswered.done = std::move(done);
        unanswered_.emplace(id, std::move(unanswered));
        if (!landing.empty()) landings_.fetch_add(1, std::memory_order_relaxed);
        queued_bytes_ += outgoing.bytes;
        queue_.push_back(std::move(outgoing));
      }
    }
    if (refused.ok()) {
      SendQueue();
    } else {
      done(std::move(refused));
    }
  }

  // Takes no more calls. Outstanding ones end with `reason`, except those whose places the channel
  // or the server may still write to: these end with the channel, or their answers.
  void Close(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Unanswered> unanswered;
    std::deque<Outgoing> queue;
    {
      absl::MutexLock lock(&mutex_);
      if (closed_.ok()) closed_ = reason;
      for (auto it = unanswered_.begin(); it != unanswered_.end();) {
        const auto one = it++;
        if (one->first == landing_id_ || one->second.lands_there) continue;
        unanswered.push_back(std::move(one->second));
        unanswered_.erase(one);
      }
      queue.swap(queue_);
      queued_bytes_ = 0;
      window_used_ = 0;
    }
    for (Unanswered& call : unanswered) call.done(reason);
  }

  std::byte* PlaceFor(absl::string_view header, size_t bytes) override {
    if (landings_.load(std::memory_order_relaxed) == 0) return nullptr;
    v1::ExchangeReply reply;
    // OnMessage reports what is wrong.
    if (!reply.ParseFromArray(header.data(), static_cast<int>(header.size()))) return nullptr;
    absl::MutexLock lock(&mutex_);
    const auto it = unanswered_.find(reply.request_id());
    if (it == unanswered_.end() || reply.code() != 0 || it->second.landing.size() != bytes) {
      return nullptr;
    }
    landing_id_ = it->first;
    return it->second.landing.data();
  }

  void OnMessage(absl::string_view header, Payload payload) override {
    auto reply = std::make_shared<v1::ExchangeReply>();
    if (!reply->ParseFromArray(header.data(), static_cast<int>(header.size()))) {
      Break(absl::InternalError(absl::StrCat("server ", address_, ": an answer does not parse")));
      return;
    }
    // Destroyed, with its payload, without the lock.
    Unanswered call;
    absl::Status closed;
    {
      absl::MutexLock lock(&mutex_);
      closed = closed_;
      landing_id_ = 0;
      if (auto it = unanswered_.find(reply->request_id()); it != unanswered_.end()) {
        call = std::move(it->second);
        if (closed.ok()) window_used_ -= call.window_bytes;
        if (!call.landing.empty()) landings_.fetch_sub(1, std::memory_order_relaxed);
        unanswered_.erase(it);
      }
    }
    // Released before `done`, which tells the caller that it may change what it sent.
    call.payload = {};
    const ParameterClient::Done& done = call.done;
    if (reply->landed() && !call.lands_there) {
      const absl::Status wrong = absl::InternalError(
          absl::StrCat("server ", address_, ": an answer has landed where request ",
                       reply->request_id(), " named no place"));
      if (done) done(wrong);
      Break(wrong);
      return;
    }
    if (reply->landed()) payload = Payload({call.landing}, nullptr);
    if (done && !closed.ok()) {
      done(closed);
    } else if (done) {
      SendQueue();
      done(ToExchangeResult(std::move(reply), std::move(payload)));
    } else if (closed.ok()) {
      Break(absl::InternalError(
          absl::StrCat("server ", address_, ": answer to unknown request ", reply->request_id())));
    }
  }

  void OnSent(size_t bytes) override {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) queued_bytes_ -= static_cast<int64_t>(bytes);
  }

  void OnClosed(const absl::Status& reason) override {
    // Whatever the reason, the channel is gone; the next one tells whether repeating helps.
    Close(absl::UnavailableError(absl::StrCat("connection to server ", address_,
                                              " ended: ", std::string(reason.message()))));
    // From here on nobody writes to any call's place.
    absl::flat_hash_map<uint64_t, Unanswered> left;
    absl::Status closed;
    {
      absl::MutexLock lock(&mutex_);
      closed = closed_;
      left.swap(unanswered_);
      landing_id_ = 0;
    }
    for (auto& [id, call] : left) call.done(closed);
  }

 private:
  struct Outgoing {
    std::string header;
    Payload payload;
    int64_t bytes = 0;
    // Bytes of these that the channel does not see, since the server reads them where they lie.
    int64_t named_bytes = 0;
    int64_t window_bytes = 0;
  };
  struct Unanswered {
    ParameterClient::Done done;
    int64_t window_bytes = 0;
    // The answer's place; empty: none.
    absl::Span<std::byte> landing;
    // True if the server may write the answer there itself.
    bool lands_there = false;
    // The payload, if the server reads it where it lies.
    Payload payload;
  };

  // Returns where the bytes lie in registered memory; nullopt: not there.
  std::optional<v1::MemoryRange> RangeOf(absl::Span<const std::byte> bytes) const {
    if (bytes.empty()) return std::nullopt;
    const std::optional<uint64_t> offset = channel_.RegisteredOffset(bytes);
    if (!offset.has_value()) return std::nullopt;
    v1::MemoryRange range;
    range.set_offset(*offset);
    range.set_bytes(bytes.size());
    return range;
  }
  std::optional<v1::MemoryRange> RangeOf(const Payload& payload) const {
    return payload.spans().size() == 1 ? RangeOf(payload.spans()[0]) : std::nullopt;
  }

  // Sends what the window lets through; one thread at a time, so that the order stays.
  void SendQueue() ABSL_LOCKS_EXCLUDED(mutex_) {
    bool mine = false;
    while (true) {
      Outgoing next;
      {
        absl::MutexLock lock(&mutex_);
        if (sending_ && !mine) return;
        // A message larger than the whole window goes alone.
        if (queue_.empty() || (queue_.front().window_bytes > 0 && window_used_ > 0 &&
                               window_used_ + queue_.front().window_bytes > limits_.window_bytes)) {
          sending_ = false;
          return;
        }
        sending_ = mine = true;
        next = std::move(queue_.front());
        queue_.pop_front();
        window_used_ += next.window_bytes;
        queued_bytes_ -= next.named_bytes;
      }
      channel_.Send(std::move(next.header), std::move(next.payload));
    }
  }

  void Break(const absl::Status& reason) {
    Close(reason);
    channel_.Close(reason);
  }

  FrameChannel& channel_;
  const std::string address_;
  const Limits limits_;
  std::atomic<uint64_t> next_id_{1};
  // Number of unanswered calls that have a place for their answers.
  std::atomic<int64_t> landings_{0};

  absl::Mutex mutex_;
  // Not OK once closed.
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // Bytes not on their way yet: in queue_, and those that the channel has not sent.
  int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t window_used_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Unanswered> unanswered_ ABSL_GUARDED_BY(mutex_);
  // The call whose answer the channel is receiving at its place; 0: none.
  uint64_t landing_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

ChannelLane::ChannelLane(std::shared_ptr<FrameChannel> channel, IoLoop& loop, std::string address,
                         Limits limits)
    : channel_(std::move(channel)),
      loop_(loop),
      calls_(std::make_shared<Calls>(*channel_, std::move(address), limits)) {
  channel_->Start(calls_);
}

ChannelLane::~ChannelLane() {
  Abort(absl::CancelledError("the client was closed"));
  loop_.Drain();
}

void ChannelLane::Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                       ParameterClient::Done done) {
  calls_->Call(std::move(request), std::move(payload), landing, std::move(done));
}

void ChannelLane::SetWaiting(bool waiting) { channel_->SetWaiting(waiting); }

void ChannelLane::Abort(absl::Status reason) {
  calls_->Close(reason);
  channel_->Close(std::move(reason));
}

}  // namespace muster
