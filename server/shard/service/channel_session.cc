#include "server/shard/service/channel_session.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/machine/stream_copy.h"
#include "common/transport/data_channel/frame.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// Time in which a long message comes by any connection that is of use.
constexpr std::chrono::seconds kMostIncomingTime(60);

absl::Status Malformed(const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed exchange message: ", std::string(why.message())));
}

}  // namespace

std::shared_ptr<ChannelSession> ChannelSession::Start(std::shared_ptr<FrameChannel> channel,
                                                      PartitionHost& host,
                                                      std::shared_ptr<ExchangeCounters> counters,
                                                      Options options) {
  std::shared_ptr<ChannelSession> session(
      new ChannelSession(std::move(channel), host, std::move(counters), std::move(options)));
  session->counters_.connections.fetch_add(1);
  session->channel_->Start(session);
  return session;
}

ChannelSession::ChannelSession(std::shared_ptr<FrameChannel> channel, PartitionHost& host,
                               std::shared_ptr<ExchangeCounters> counters, Options options)
    : ExchangeSession(host, options.limits, std::move(options.budgets), *counters),
      channel_(std::move(channel)),
      payload_memory_(std::string(channel_->kind()) == "shared_memory"
                          ? ExchangeCall::PayloadMemory::kShared
                          : ExchangeCall::PayloadMemory::kPrivate),
      kept_counters_(std::move(counters)),
      ended_(std::move(options.ended)) {}

void ChannelSession::Close(absl::Status status) {
  cancelled_->store(true);
  absl::MutexLock lock(&mutex_);
  if (!closed_) channel_->Close(std::move(status));
}

void ChannelSession::CloseIfStalled(std::chrono::steady_clock::time_point now) {
  int64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (waits_for_room_ || now - incoming_since_ < kMostIncomingTime) return;
    bytes = incoming_bytes_;
  }
  if (bytes == 0) return;
  Close(absl::ResourceExhaustedError(absl::StrCat(
      "a message of ", bytes, " bytes has been coming for more than ", kMostIncomingTime.count(),
      " s, and others wait for its memory; send it again")));
}

std::byte* ChannelSession::PlaceFor(absl::string_view, size_t bytes) {
  if (static_cast<int64_t>(bytes) <= MessageBudget::kShortBytes) return nullptr;
  {
    absl::MutexLock lock(&mutex_);
    incoming_bytes_ = static_cast<int64_t>(bytes);
    waits_for_room_ = true;
  }
  TakeRoom();
  return nullptr;
}

void ChannelSession::TakeRoom() {
  for (int tries = 0; tries < 2; ++tries) {
    // Room may have come before this was known to wait.
    if (tries == 1) {
      budgets_->passing.Await([weak = weak_from_this()] {
        if (const auto session = weak.lock()) {
          static_cast<ChannelSession&>(*session).TakeRoom();
        }
      });
    }
    absl::MutexLock lock(&mutex_);
    if (closed_ || !waits_for_room_) return;
    waits_for_room_ = !budgets_->passing.TryTake(incoming_bytes_, PassingLocked());
    incoming_since_ = std::chrono::steady_clock::now();
    ChangedLocked();
    if (!waits_for_room_) return;
  }
}

void ChannelSession::OnMessage(absl::string_view header, Payload payload) {
  // Its room until it is counted as a request.
  MessageShare arrived;
  if (static_cast<int64_t>(payload.size()) > MessageBudget::kShortBytes) {
    absl::MutexLock lock(&mutex_);
    arrived.Keep({budgets_, &budgets_->passing}, std::exchange(incoming_bytes_, 0));
  }
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
  ExchangeCall::PayloadMemory payload_memory = payload_memory_;
  if (request->has_payload_in()) {
    const v1::MemoryRange& range = request->payload_in();
    absl::StatusOr<Payload> registered = channel_->ReadRegistered(range.offset(), range.bytes());
    if (registered.ok() && (payload.size() > 0 || range.bytes() > kMaxFramePayloadBytes)) {
      registered = absl::InvalidArgumentError(absl::StrCat("a payload of ", range.bytes(),
                                                           " bytes in registered memory beside ",
                                                           payload.size(), " behind the header"));
    }
    if (!registered.ok()) {
      Close(Malformed(registered.status()));
      return;
    }
    payload = *std::move(registered);
    payload_memory = ExchangeCall::PayloadMemory::kRegistered;
  }
  const auto pending = std::make_shared<Addressed>();
  pending->answer_offset = request->answer_to().offset();
  pending->answer_bytes = request->answer_to().bytes();
  // Rows may have to come from the disk first.
  pending->in_place = request->has_dense_pull() && pending->answer_bytes > 0;
  // Of this connection alone: nothing to log.
  request->clear_payload_in();
  request->clear_answer_to();
  const Taking taking = {
      .bytes = static_cast<int64_t>(header.size() + payload.size()),
      // Also where the payload lies in the client's memory: what has to stay as it is gets copied
      // (for the log, of rows' keys, of residuals), and the client may name one range any number of
      // times.
      .budget_bytes = static_cast<int64_t>(payload.size()),
      // What comes behind its header has found room before it was read.
      .has_room = payload_memory != ExchangeCall::PayloadMemory::kRegistered,
  };
  ExchangeCall call;
  call.request = std::move(request);
  call.payload = std::move(payload);
  call.payload_memory = payload_memory;
  if (call.request->has_sparse_pull() || call.request->has_dense_pull()) {
    call.answer_memory = [session = shared_from_this(), pending](size_t bytes) {
      return static_cast<ChannelSession&>(*session).AnswerMemory(*pending, bytes);
    };
  }
  Dispatch(pending, std::move(call), taking, arrived);
}

std::shared_ptr<std::byte> ChannelSession::AnswerMemory(Addressed& request, size_t bytes) {
  // No other length is written there, nor anything that an element would lie across.
  if (request.in_place && request.answer_bytes == bytes &&
      request.answer_offset % sizeof(float) == 0) {
    std::shared_ptr<std::byte> room =
        channel_->WriteRegistered(request.answer_offset, bytes).value_or(nullptr);
    request.room = room.get();
    if (room != nullptr) return room;
  }
  return channel_->TakeSendMemory(bytes);
}

bool ChannelSession::Land(const Pending& pending, const Payload& payload) {
  const auto& request = static_cast<const Addressed&>(pending);
  if (payload.size() == 0 || payload.size() != request.answer_bytes) return false;
  // Made there: what holds the room is never sent, since the channel's end, which has the loop,
  // would wait for the room, and the room for the loop to send it.
  if (payload.spans()[0].data() == request.room) return true;
  // What makes no sense there is no place: the answer comes behind the reply then.
  const std::shared_ptr<std::byte> room =
      channel_->WriteRegistered(request.answer_offset, request.answer_bytes).value_or(nullptr);
  if (room == nullptr) return false;
  // The client computes with it when its turn comes; this processor does not.
  std::byte* at = room.get();
  for (const Payload::Span& span : payload.spans()) {
    StreamCopy(at, span.data(), span.size());
    at += span.size();
  }
  StreamFence();
  return true;
}

int64_t ChannelSession::EncodedBytes(const v1::ExchangeReply& reply, const Payload& payload) const {
  return static_cast<int64_t>(reply.ByteSizeLong() + payload.size());
}

void ChannelSession::Send(v1::ExchangeReply reply, Payload payload) {
  channel_->Send(reply.SerializeAsString(), std::move(payload));
}

void ChannelSession::ChangedLocked() {
  const bool reading = !waits_for_room_ && MayReadLocked();
  if (closed_ || reading == reading_) return;
  reading_ = reading;
  channel_->SetReading(reading);
}

void ChannelSession::OnSent(size_t bytes) {
  counters_.bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  {
    absl::MutexLock lock(&mutex_);
    // What was still to be sent was given back at the channel's end.
    if (closed_) return;
    reply_bytes_ -= static_cast<int64_t>(bytes);
    ChangedLocked();
  }
  budgets_->passing.Return(static_cast<int64_t>(bytes));
}

void ChannelSession::OnClosed(const absl::Status&) {
  cancelled_->store(true);
  counters_.connections.fetch_sub(1);
  int64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    bytes = reply_bytes_ + (waits_for_room_ ? 0 : incoming_bytes_);
  }
  budgets_->passing.Return(bytes);
  if (ended_) ended_();
}

}  // namespace muster
