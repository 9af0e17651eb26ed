#include "worker/collectives/host/pair_messages.h"

#include <algorithm>

#include "absl/types/span.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Bytes of one message that are moved before others have their turn.
constexpr size_t kFragmentBytes = 256 << 10;

}  // namespace

PairMessages::PairMessages(Transport& transport)
    : transport_(transport),
      sends_(transport.size()),
      receives_(transport.size()),
      held_up_(2 * transport.size()) {}

void PairMessages::Begin(const CollectiveCall& call, uint64_t id) {
  Message message = {.id = id, .call = call, .data_bytes = call.count * SizeOf(call.dtype)};
  const bool sends = call.kind == Collective::kSend;
  CollectiveCall as_sent = call;
  as_sent.kind = Collective::kSend;
  as_sent.counts = {};
  uint64_t& sequence = (sends ? sends_ : receives_)[call.root];
  message.header = MakeHeader(as_sent, Algorithm::kDirect, ++sequence, /*place=*/0);
  messages_.push_back(message);
}

absl::StatusOr<bool> PairMessages::Step() {
  bool moved = false;
  ended_.clear();
  std::fill(held_up_.begin(), held_up_.end(), false);
  for (Message& message : messages_) {
    const bool sends = message.call.kind == Collective::kSend;
    const int direction = (sends ? 0 : transport_.size()) + message.call.root;
    message.waits = false;
    if (held_up_[direction]) continue;
    held_up_[direction] = true;
    MUSTER_ASSIGN_OR_RETURN(const size_t bytes, sends ? Send(message) : Receive(message));
    moved |= bytes > 0;
    message.waits = bytes == 0;
    if (message.moved == message.stream_bytes()) {
      ended_.push_back({.id = message.id,
                        .traffic = {.sent = sends ? message.data_bytes : 0,
                                    .received = sends ? 0 : message.data_bytes}});
    }
  }
  if (!ended_.empty()) {
    messages_.erase(std::remove_if(messages_.begin(), messages_.end(),
                                   [](const Message& message) {
                                     return message.moved == message.stream_bytes();
                                   }),
                    messages_.end());
  }
  return moved;
}

void PairMessages::AddInterests(std::vector<PipeInterest>& interests) const {
  for (const Message& message : messages_) {
    if (!message.waits) continue;
    const bool sends = message.call.kind == Collective::kSend;
    interests.push_back({.peer = message.call.root, .readable = !sends, .writable = sends});
  }
}

absl::StatusOr<size_t> PairMessages::Send(Message& message) {
  Pipe& pipe = transport_.pipe(message.call.root);
  const size_t before = message.moved;
  const size_t data_end = kHeaderBytes + message.data_bytes;
  static constexpr std::byte kZeros[kHeaderBytes] = {};
  while (message.moved < message.stream_bytes() && message.moved - before < kFragmentBytes) {
    const size_t at = message.moved;
    absl::Span<const std::byte> rest;
    if (at < kHeaderBytes) {
      rest = {reinterpret_cast<const std::byte*>(&message.header) + at, kHeaderBytes - at};
    } else if (at < data_end) {
      rest = {static_cast<const std::byte*>(message.call.in) + (at - kHeaderBytes),
              std::min(data_end - at, kFragmentBytes)};
    } else {
      rest = {kZeros, message.stream_bytes() - at};
    }
    MUSTER_ASSIGN_OR_RETURN(const size_t taken, pipe.Write(rest));
    message.moved += taken;
    if (taken < rest.size()) break;
  }
  if (message.moved > before) MUSTER_RETURN_IF_ERROR(pipe.Flush());
  return message.moved - before;
}

absl::StatusOr<size_t> PairMessages::Receive(Message& message) {
  Pipe& pipe = transport_.pipe(message.call.root);
  const size_t before = message.moved;
  const size_t data_end = kHeaderBytes + message.data_bytes;
  std::byte zeros[kHeaderBytes];
  while (message.moved < message.stream_bytes() && message.moved - before < kFragmentBytes) {
    const size_t at = message.moved;
    absl::Span<std::byte> rest;
    if (at < kHeaderBytes) {
      rest = {reinterpret_cast<std::byte*>(&message.theirs) + at, kHeaderBytes - at};
    } else if (at < data_end) {
      rest = {static_cast<std::byte*>(message.call.out) + (at - kHeaderBytes),
              std::min(data_end - at, kFragmentBytes)};
    } else {
      rest = {zeros, message.stream_bytes() - at};
    }
    MUSTER_ASSIGN_OR_RETURN(const size_t read, pipe.Read(rest));
    message.moved += read;
    if (at < kHeaderBytes && message.moved == kHeaderBytes && !(message.theirs == message.header)) {
      mismatch_ = {.id = message.id,
                   .peer = message.call.root,
                   .own = message.header,
                   .theirs = message.theirs};
      return absl::FailedPreconditionError("the calls differ");
    }
    if (read < rest.size()) break;
  }
  return message.moved - before;
}

}  // namespace muster
