#include "server/shard/service/exchange_stream.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/catch_out_of_memory.h"
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
  // One that holds something is asked again when it holds less.
  const int64_t held = PassingLocked();
  const bool has_room = held <= MessageBudget::kShortBytes || held <= budgets_->passing.left();
  if (!closed_ && !reading_ && !starting_read_ && !half_closed_ && has_room &&
      push_bytes_ < limits_.push_bytes && reply_bytes_ < limits_.reply_bytes) {
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
    Dispatch(std::move(request), std::move(payload));
  }
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) half_closed_ = true;
    actions = NextLocked();
  }
  Perform(std::move(actions));
}

void ExchangeStream::Dispatch(std::shared_ptr<v1::ExchangeRequest> request, Payload payload) {
  const auto pending = std::make_shared<Pending>();
  pending->request_id = request->request_id();
  const int64_t bytes = request->ByteSizeLong() + payload.size();
  const bool is_push = request->has_dense_push() || request->has_sparse_push();
  (is_push ? pending->push_bytes : pending->parked_bytes) = bytes;
  const std::shared_ptr<MessageBudget> budget(budgets_,
                                              is_push ? &budgets_->passing : &budgets_->parked);
  counters_.Count(bytes);
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (is_push) {
      budget->Take(bytes);
    } else {
      refused = CheckParked(parked_bytes_, bytes, limits_);
      if (refused.ok() && !budget->TryTake(bytes, parked_bytes_)) {
        refused = NoRoomToWait(bytes, *budget);
      }
      // It is counted until it is answered all the same.
      if (!refused.ok()) budget->Take(bytes);
    }
    pending->share.Keep(budget, bytes);
    ++calls_;
    push_bytes_ += pending->push_bytes;
    parked_bytes_ += pending->parked_bytes;
  }
  if (!refused.ok()) {
    v1::ExchangeReply reply = ErrorReply(refused);
    reply.set_retry_after_ms(kParkedRetryAfterMs);
    Answer(*pending, std::move(reply), {});
    return;
  }
  ExchangeCall call;
  call.request = std::move(request);
  call.payload = std::move(payload);
  call.cancelled = cancelled_;
  call.done = [stream = shared_from_this(), pending](v1::ExchangeReply reply, Payload payload) {
    const absl::Status sent = CatchOutOfMemory("an answer", [&] {
      stream->Answer(*pending, std::move(reply), std::move(payload));
      return absl::OkStatus();
    });
    // Its caller would wait for it.
    if (!sent.ok()) stream->Close(sent);
  };
  host_.Execute(std::move(call));
}

void ExchangeStream::Answer(Pending& request, v1::ExchangeReply reply, Payload payload) {
  auto give_back = absl::MakeCleanup([&] {
    absl::MutexLock lock(&mutex_);
    --calls_;
    push_bytes_ -= request.push_bytes;
    parked_bytes_ -= request.parked_bytes;
  });
  reply.set_request_id(request.request_id);
  if (absl::Status status = CheckAnswerBytes(EncodedBytes(reply, payload)); !status.ok()) {
    reply = ErrorReply(status);
    reply.set_request_id(request.request_id);
    payload = {};
  }
  Reply encoded{EncodeExchange(reply, payload), static_cast<int64_t>(EncodedBytes(reply, payload))};
  Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    std::move(give_back).Cancel();
    --calls_;
    push_bytes_ -= request.push_bytes;
    parked_bytes_ -= request.parked_bytes;
    if (!closed_ && !budgets_->passing.TryTake(encoded.bytes, PassingLocked())) {
      reply = NoRoomReply(encoded.bytes, budgets_->passing);
      reply.set_request_id(request.request_id);
      encoded = {EncodeExchange(reply, {}), static_cast<int64_t>(EncodedBytes(reply, {}))};
      budgets_->passing.Take(encoded.bytes);
    }
    if (!closed_) {
      reply_bytes_ += encoded.bytes;
      replies_.push_back(std::move(encoded));
    }
    actions = NextLocked();
  }
  request.share.GiveBack();
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
