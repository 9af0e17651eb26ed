#include "server/shard/service/channel_session.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/parameter_service.pb.h"

namespace muster {

std::shared_ptr<ChannelSession> ChannelSession::Start(std::shared_ptr<FrameChannel> channel,
                                                      PartitionHost& host,
                                                      std::shared_ptr<ExchangeCounters> counters,
                                                      Options options) {
  std::shared_ptr<ChannelSession> session(
      new ChannelSession(std::move(channel), host, std::move(counters), std::move(options)));
  session->counters_->connections.fetch_add(1);
  session->channel_->Start(session);
  return session;
}

ChannelSession::ChannelSession(std::shared_ptr<FrameChannel> channel, PartitionHost& host,
                               std::shared_ptr<ExchangeCounters> counters, Options options)
    : channel_(std::move(channel)),
      payload_memory_(std::string(channel_->kind()) == "shared_memory"
                          ? ExchangeCall::PayloadMemory::kShared
                          : ExchangeCall::PayloadMemory::kPrivate),
      host_(host),
      counters_(std::move(counters)),
      options_(std::move(options)) {}

void ChannelSession::Close(absl::Status status) {
  cancelled_->store(true);
  absl::MutexLock lock(&mutex_);
  if (!closed_) channel_->Close(std::move(status));
}

void ChannelSession::OnMessage(absl::string_view header, Payload payload) {
  auto request = std::make_shared<v1::ExchangeRequest>();
  if (!request->ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    // What follows a message that cannot be read cannot be trusted to be in step.
    Close(absl::InvalidArgumentError(absl::StrCat("malformed exchange message: a header of ",
                                                  header.size(),
                                                  " bytes does not parse as ExchangeRequest")));
    return;
  }
  if (!request->payload().empty()) {
    Close(absl::InvalidArgumentError(
        "malformed exchange message: on a data channel the payload lies behind the header, not in "
        "its field"));
    return;
  }
  const uint64_t id = request->request_id();
  const auto bytes = static_cast<int64_t>(header.size() + payload.size());
  counters_->Count(bytes);
  const bool is_push = request->has_dense_push() || request->has_sparse_push();
  const int64_t push_bytes = is_push ? bytes : 0;
  const int64_t parked_bytes = is_push ? 0 : bytes;
  int64_t parked;
  {
    absl::MutexLock lock(&mutex_);
    parked = parked_bytes_;
    push_bytes_ += push_bytes;
    parked_bytes_ += parked_bytes;
    SetReadingLocked();
  }
  if (absl::Status status = CheckParked(parked, parked_bytes, options_.limits);
      !status.ok() && !is_push) {
    v1::ExchangeReply reply = ErrorReply(status);
    reply.set_retry_after_ms(kParkedRetryAfterMs);
    Answer(id, push_bytes, parked_bytes, std::move(reply), {});
    return;
  }
  ExchangeCall call;
  call.request = std::move(request);
  call.payload = std::move(payload);
  call.payload_memory = payload_memory_;
  if (call.request->has_sparse_pull() || call.request->has_dense_pull()) {
    call.answer_memory = [channel = channel_](size_t floats) {
      const std::shared_ptr<std::byte> memory = channel->TakeSendMemory(floats * sizeof(float));
      return std::shared_ptr<float>(memory, reinterpret_cast<float*>(memory.get()));
    };
  }
  call.cancelled = cancelled_;
  call.done = [session = shared_from_this(), id, push_bytes, parked_bytes](v1::ExchangeReply reply,
                                                                           Payload payload) {
    session->Answer(id, push_bytes, parked_bytes, std::move(reply), std::move(payload));
  };
  host_.Execute(std::move(call));
}

void ChannelSession::Answer(uint64_t request_id, int64_t push_bytes, int64_t parked_bytes,
                            v1::ExchangeReply reply, Payload payload) {
  reply.set_request_id(request_id);
  std::string header = reply.SerializeAsString();
  if (absl::Status status = CheckAnswerBytes(header.size() + payload.size()); !status.ok()) {
    reply = ErrorReply(status);
    reply.set_request_id(request_id);
    header = reply.SerializeAsString();
    payload = {};
  }
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    push_bytes_ -= push_bytes;
    parked_bytes_ -= parked_bytes;
    reply_bytes_ += static_cast<int64_t>(header.size() + payload.size());
    SetReadingLocked();
  }
  channel_->Send(std::move(header), std::move(payload));
}

void ChannelSession::SetReadingLocked() {
  const bool reading =
      push_bytes_ < options_.limits.push_bytes && reply_bytes_ < options_.limits.reply_bytes;
  if (closed_ || reading == reading_) return;
  reading_ = reading;
  channel_->SetReading(reading);
}

void ChannelSession::OnSent(size_t bytes) {
  counters_->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  reply_bytes_ -= static_cast<int64_t>(bytes);
  SetReadingLocked();
}

void ChannelSession::OnClosed(const absl::Status&) {
  cancelled_->store(true);
  counters_->connections.fetch_sub(1);
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  if (options_.ended) options_.ended();
}

}  // namespace muster
