#include "server/shard/service/exchange_stream.h"

#include <utility>

#include "common/rpc/parameter_service/exchange_codec.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"

namespace muster {

std::shared_ptr<ExchangeStream> ExchangeStream::Start(PartitionHost& host, ExchangeLimits limits,
                                                      std::shared_ptr<MessageBudgets> budgets,
                                                      ExchangeCounters& counters) {
  std::shared_ptr<ExchangeStream> stream(
      new ExchangeStream(host, limits, std::move(budgets), counters));
  counters.connections.fetch_add(1);
  Actions actions;
  {
    absl::MutexLock lock(&stream->mutex_);
    stream->self_ = stream;
    actions = stream->NextLocked();
  }
  stream->Perform(actions);
  return stream;
}

void ExchangeStream::Close(absl::Status status) {
  cancelled_->store(true);
  Actions actions;
  int64_t dropped = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
    close_status_ = std::move(status);
    replies_.clear();
    dropped = reply_bytes_ - writing_bytes_;
    reply_bytes_ = writing_bytes_;
    actions = NextLocked();
  }
  budgets_->passing.Return(dropped);
  Perform(std::move(actions));
}

ExchangeStream::Actions ExchangeStream::NextLocked() {
  Actions actions;
  if (finished_) return actions;
  if (!closed_ && !writing_ && !replies_.empty()) {
    writing_message_ = std::move(replies_.front().message);
    writing_bytes_ = replies_.front().bytes;
    replies_.pop_front();
    writing_ = actions.write = true;
  }
  if (!closed_ && !reading_ && !starting_read_ && !half_closed_ && MayReadLocked()) {
    reading_ = starting_read_ = actions.read = true;
  }
  const bool answered = half_closed_ && calls_ == 0 && replies_.empty();
  if (!writing_ && !starting_read_ && (closed_ || answered)) {
    finished_ = actions.finish = true;
    actions.status = close_status_;
  }
  return actions;
}

void ExchangeStream::Perform(Actions actions) {
  while (true) {
    if (actions.write) StartWrite(&writing_message_);
    if (actions.finish) {
      // gRPC may end the stream, and with it this object, at any moment from here on.
      Finish(ToGrpc(actions.status));
      return;
    }
    if (!actions.read) return;
    StartRead(&reading_message_);
    absl::MutexLock lock(&mutex_);
    starting_read_ = false;
    actions = NextLocked();
  }
}

void ExchangeStream::OnReadDone(bool ok) {
  Actions actions;
  if (ok) {
    auto request = std::make_shared<v1::ExchangeRequest>();
    Payload payload;
    absl::Status status = DecodeExchange(reading_message_, request.get(), &payload);
    reading_message_.Clear();
    if (!status.ok()) {
      // What follows a message that cannot be read cannot be trusted to be in step.
      Close(std::move(status));
      return;
    }
    {
      absl::MutexLock lock(&mutex_);
      ++calls_;
    }
    const auto bytes = static_cast<int64_t>(request->ByteSizeLong() + payload.size());
    ExchangeCall call;
    call.request = std::move(request);
    call.payload = std::move(payload);
    MessageShare none;
    Dispatch(std::make_shared<Pending>(), std::move(call), {.bytes = bytes, .budget_bytes = bytes},
             none);
  }
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) half_closed_ = true;
    actions = NextLocked();
  }
  Perform(std::move(actions));
}

int64_t ExchangeStream::EncodedBytes(const v1::ExchangeReply& reply, const Payload& payload) const {
  return static_cast<int64_t>(muster::EncodedBytes(reply, payload));
}

void ExchangeStream::Send(v1::ExchangeReply reply, Payload payload) {
  Reply encoded{EncodeExchange(reply, payload), EncodedBytes(reply, payload)};
  Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    --calls_;
    // Close has given back all that was counted and not sent.
    if (closed_) return;
    replies_.push_back(std::move(encoded));
    actions = NextLocked();
  }
  Perform(std::move(actions));
}

void ExchangeStream::OnWriteDone(bool ok) {
  if (!ok) Close(absl::UnavailableError("the client went away"));
  Actions actions;
  int64_t written = 0;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    writing_message_.Clear();
    counters_.bytes_sent.fetch_add(writing_bytes_, std::memory_order_relaxed);
    reply_bytes_ -= writing_bytes_;
    written = std::exchange(writing_bytes_, 0);
    actions = NextLocked();
  }
  budgets_->passing.Return(written);
  Perform(std::move(actions));
}

void ExchangeStream::OnCancel() { Close(absl::CancelledError("the client went away")); }

void ExchangeStream::OnDone() {
  counters_.connections.fetch_sub(1);
  // Calls that are still in the host keep the stream; their answers go nowhere.
  std::shared_ptr<ExchangeStream> self;
  absl::MutexLock lock(&mutex_);
  self = std::move(self_);
}

}  // namespace muster
