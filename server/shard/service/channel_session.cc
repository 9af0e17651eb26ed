#include "server/shard/service/channel_session.h"

#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
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
      options_.budgets->passing.Await([weak = weak_from_this()] {
        if (const auto session = weak.lock()) session->TakeRoom();
      });
    }
    absl::MutexLock lock(&mutex_);
    if (closed_ || !waits_for_room_) return;
    waits_for_room_ = !options_.budgets->passing.TryTake(incoming_bytes_, PassingLocked());
    incoming_since_ = std::chrono::steady_clock::now();
    SetReadingLocked();
    if (!waits_for_room_) return;
  }
}

void ChannelSession::OnMessage(absl::string_view header, Payload payload) {
  int64_t arrived = 0;
  if (static_cast<int64_t>(payload.size()) > MessageBudget::kShortBytes) {
    absl::MutexLock lock(&mutex_);
    arrived = std::exchange(incoming_bytes_, 0);
  }
  // What it is from now on is counted below.
  auto give_back = absl::MakeCleanup([&] { options_.budgets->passing.Return(arrived); });
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
  const auto pending = std::make_shared<Pending>();
  pending->request_id = request->request_id();
  pending->answer_offset = request->answer_to().offset();
  pending->answer_bytes = request->answer_to().bytes();
  // Rows may have to come from the disk first.
  pending->in_place = request->has_dense_pull() && pending->answer_bytes > 0;
  // Of this connection alone: nothing to log.
  request->clear_payload_in();
  request->clear_answer_to();
  const auto bytes = static_cast<int64_t>(header.size() + payload.size());
  counters_->Count(bytes);
  const bool is_push = request->has_dense_push() || request->has_sparse_push();
  (is_push ? pending->push_bytes : pending->parked_bytes) = bytes;
  const std::shared_ptr<MessageBudget> budget(
      options_.budgets, is_push ? &options_.budgets->passing : &options_.budgets->parked);
  // Also where the payload lies in the client's memory: what has to stay as it is gets copied (for
  // the log, of rows' keys, of residuals), and the client may name one range any number of times.
  const auto budget_bytes = static_cast<int64_t>(payload.size());
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (is_push) {
      // What comes behind its header has found room before it was read.
      if (payload_memory != ExchangeCall::PayloadMemory::kRegistered) {
        budget->Take(budget_bytes);
      } else if (!budget->TryTake(budget_bytes, PassingLocked())) {
        refused = NoRoomToCopy(budget_bytes, *budget);
      }
    } else {
      refused = CheckParked(parked_bytes_, bytes, options_.limits);
      if (refused.ok() && !budget->TryTake(budget_bytes, parked_bytes_)) {
        refused = NoRoomToWait(bytes, *budget);
      }
    }
    // It is counted until it is answered all the same.
    if (!refused.ok()) budget->Take(budget_bytes);
    pending->share.Keep(budget, budget_bytes);
    push_bytes_ += pending->push_bytes;
    parked_bytes_ += pending->parked_bytes;
    SetReadingLocked();
  }
  std::move(give_back).Invoke();
  if (!refused.ok()) {
    v1::ExchangeReply reply = ErrorReply(refused);
    reply.set_retry_after_ms(kParkedRetryAfterMs);
    Answer(*pending, std::move(reply), {});
    return;
  }
  ExchangeCall call;
  call.request = std::move(request);
  call.payload = std::move(payload);
  call.payload_memory = payload_memory;
  if (call.request->has_sparse_pull() || call.request->has_dense_pull()) {
    call.answer_memory = [session = shared_from_this(), pending](size_t bytes) {
      return session->AnswerMemory(*pending, bytes);
    };
  }
  call.cancelled = cancelled_;
  call.done = [session = shared_from_this(), pending](v1::ExchangeReply reply, Payload payload) {
    const absl::Status sent = CatchOutOfMemory("an answer", [&] {
      session->Answer(*pending, std::move(reply), std::move(payload));
      return absl::OkStatus();
    });
    // Its caller would wait for it.
    if (!sent.ok()) session->Close(sent);
  };
  host_.Execute(std::move(call));
}

std::shared_ptr<std::byte> ChannelSession::AnswerMemory(Pending& request, size_t bytes) {
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

bool ChannelSession::Land(const Pending& request, const Payload& payload) {
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

void ChannelSession::Answer(Pending& request, v1::ExchangeReply reply, Payload payload) {
  auto give_back = absl::MakeCleanup([&] {
    absl::MutexLock lock(&mutex_);
    push_bytes_ -= request.push_bytes;
    parked_bytes_ -= request.parked_bytes;
  });
  reply.set_request_id(request.request_id);
  if (absl::Status status = CheckAnswerBytes(reply.ByteSizeLong() + payload.size()); !status.ok()) {
    reply = ErrorReply(status);
    reply.set_request_id(request.request_id);
    payload = {};
  }
  if (Land(request, payload)) {
    reply.set_landed(true);
    counters_->bytes_sent.fetch_add(payload.size(), std::memory_order_relaxed);
    payload = {};
  }
  std::string header = reply.SerializeAsString();
  bool closed;
  {
    absl::MutexLock lock(&mutex_);
    std::move(give_back).Cancel();
    closed = closed_;
    push_bytes_ -= request.push_bytes;
    parked_bytes_ -= request.parked_bytes;
    auto bytes = static_cast<int64_t>(header.size() + payload.size());
    if (!closed && !options_.budgets->passing.TryTake(bytes, PassingLocked())) {
      reply = NoRoomReply(bytes, options_.budgets->passing);
      reply.set_request_id(request.request_id);
      header = reply.SerializeAsString();
      bytes = static_cast<int64_t>(header.size());
      payload = {};
      options_.budgets->passing.Take(bytes);
    }
    if (!closed) reply_bytes_ += bytes;
    SetReadingLocked();
  }
  request.share.GiveBack();
  if (!closed) channel_->Send(std::move(header), std::move(payload));
}

void ChannelSession::SetReadingLocked() {
  // One that holds something is called again when it holds less.
  const int64_t held = PassingLocked();
  const bool reading =
      push_bytes_ < options_.limits.push_bytes && reply_bytes_ < options_.limits.reply_bytes &&
      !waits_for_room_ &&
      (held <= MessageBudget::kShortBytes || held <= options_.budgets->passing.left());
  if (closed_ || reading == reading_) return;
  reading_ = reading;
  channel_->SetReading(reading);
}

void ChannelSession::OnSent(size_t bytes) {
  counters_->bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  {
    absl::MutexLock lock(&mutex_);
    // What was still to be sent was given back at the channel's end.
    if (closed_) return;
    reply_bytes_ -= static_cast<int64_t>(bytes);
    SetReadingLocked();
  }
  options_.budgets->passing.Return(static_cast<int64_t>(bytes));
}

void ChannelSession::OnClosed(const absl::Status&) {
  cancelled_->store(true);
  counters_->connections.fetch_sub(1);
  int64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    bytes = reply_bytes_ + (waits_for_room_ ? 0 : incoming_bytes_);
  }
  options_.budgets->passing.Return(bytes);
  if (options_.ended) options_.ended();
}

}  // namespace muster
