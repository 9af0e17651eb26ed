#include "common/rpc/parameter_service/exchange_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/parameter_service/exchange_codec.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

constexpr char kMethod[] = "/muster.v1.ParameterService/Exchange";

}  // namespace

ExchangeConnection::ExchangeConnection(std::shared_ptr<grpc::Channel> channel, std::string address,
                                       Limits limits)
    : channel_(std::move(channel)),
      address_(std::move(address)),
      limits_(limits),
      stub_(channel_) {}

ExchangeConnection::~ExchangeConnection() {
  Abort(absl::CancelledError(absl::StrCat("the client of server ", address_, " was closed")));
  bool opened;
  {
    absl::MutexLock lock(&mutex_);
    opened = opened_;
  }
  if (opened) ended_.WaitForNotification();
}

void ExchangeConnection::Call(v1::ExchangeRequest request, Payload payload,
                              absl::Span<std::byte> landing, ParameterClient::Done done) {
  done = CopyInto(landing, std::move(done));
  const uint64_t id = next_id_.fetch_add(1, std::memory_order_relaxed);
  request.set_request_id(id);
  const int64_t bytes = EncodedBytes(request, payload);
  if (absl::Status status = CheckMessageBytes(request, bytes); !status.ok()) {
    done(std::move(status));
    return;
  }
  const bool is_push = request.has_dense_push() || request.has_sparse_push();
  Outgoing outgoing{EncodeExchange(request, payload), bytes, is_push ? bytes : 0};
  absl::Status refused;
  Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) {
      refused = closed_;
    } else if (queued_bytes_ > 0 && queued_bytes_ + bytes > limits_.max_queued_bytes) {
      refused = TooManyQueued(queued_bytes_, limits_.max_queued_bytes, address_);
    } else {
      unanswered_.emplace(id, Unanswered{std::move(done), outgoing.window_bytes});
      queued_bytes_ += bytes;
      queue_.push_back(std::move(outgoing));
      actions = NextLocked();
    }
  }
  if (!refused.ok()) {
    done(std::move(refused));
    return;
  }
  Perform(actions);
}

ExchangeConnection::Actions ExchangeConnection::NextLocked() {
  Actions actions;
  if (writing_) return actions;
  if (broken_ || !closed_.ok()) {
    actions.release = std::exchange(holding_, false);
    return actions;
  }
  if (queue_.empty()) return actions;
  Outgoing& next = queue_.front();
  // A message larger than the whole window goes alone.
  if (next.window_bytes > 0 && window_used_ > 0 &&
      window_used_ + next.window_bytes > limits_.window_bytes) {
    return actions;
  }
  window_used_ += next.window_bytes;
  queued_bytes_ -= next.bytes;
  writing_message_ = std::move(next.message);
  queue_.pop_front();
  writing_ = true;
  actions.write = true;
  if (!opened_) {
    opened_ = true;
    holding_ = true;
    actions.open = true;
  }
  return actions;
}

void ExchangeConnection::Perform(Actions actions) {
  if (actions.open) {
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();
    StartRead(&reading_message_);
    StartCall();
  }
  if (actions.write) StartWrite(&writing_message_);
  if (actions.release) RemoveHold();
}

void ExchangeConnection::OnWriteDone(bool ok) {
  Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    writing_message_.Clear();
    if (!ok) broken_ = true;
    actions = NextLocked();
  }
  Perform(actions);
}

void ExchangeConnection::OnReadDone(bool ok) {
  if (!ok) {
    Actions actions;
    {
      absl::MutexLock lock(&mutex_);
      broken_ = true;
      actions = NextLocked();
    }
    Perform(actions);
    return;
  }
  auto reply = std::make_shared<v1::ExchangeReply>();
  Payload payload;
  absl::Status status = DecodeExchange(reading_message_, reply.get(), &payload);
  ParameterClient::Done done;
  Actions actions;
  if (status.ok()) {
    absl::MutexLock lock(&mutex_);
    auto it = unanswered_.find(reply->request_id());
    if (it != unanswered_.end()) {
      done = std::move(it->second.done);
      window_used_ -= it->second.window_bytes;
      unanswered_.erase(it);
      actions = NextLocked();
    } else if (closed_.ok()) {
      status = absl::InternalError(absl::StrCat("answer to unknown request ", reply->request_id()));
    }
  }
  if (!status.ok()) Abort(Annotate(status, absl::StrCat("server ", address_)));
  Perform(actions);
  reading_message_.Clear();
  StartRead(&reading_message_);
  if (done) done(ToExchangeResult(std::move(reply), std::move(payload)));
}

void ExchangeConnection::OnDone(const grpc::Status& status) {
  // Whatever the reason, the stream is gone; the next one tells whether repeating helps.
  Close(absl::UnavailableError(
      absl::StrCat("connection to server ", address_,
                   " ended: ", status.ok() ? "closed by the server" : status.error_message())));
  ended_.Notify();
}

void ExchangeConnection::Abort(absl::Status reason) {
  // In this order, so that the end that follows the cancellation gives the calls no other reason.
  Close(std::move(reason));
  context_.TryCancel();
}

void ExchangeConnection::Close(absl::Status reason) {
  absl::flat_hash_map<uint64_t, Unanswered> unanswered;
  std::deque<Outgoing> queue;
  Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = reason;
    unanswered.swap(unanswered_);
    queue.swap(queue_);
    queued_bytes_ = 0;
    window_used_ = 0;
    actions = NextLocked();
  }
  for (auto& [id, call] : unanswered) call.done(reason);
  // Last: without the hold gRPC may end the stream, and with it this object, at any moment.
  Perform(actions);
}

}  // namespace muster
