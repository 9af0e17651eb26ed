#include "worker/collectives/host/pair_messages.h"

#include <algorithm>
#include <cstring>

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
      arrived_(transport.size()),
      arrivals_(transport.size()),
      held_up_(transport.size()) {}

void PairMessages::Begin(const CollectiveCall& call, uint64_t id) {
  Message message = {.id = id, .call = call, .data_bytes = call.count * SizeOf(call.dtype)};
  const bool sends = call.kind == Collective::kSend;
  CollectiveCall as_sent = call;
  as_sent.kind = Collective::kSend;
  as_sent.counts = {};
  message.header = MakeHeader(as_sent, Algorithm::kDirect, sends ? ++sends_[call.root] : 0,
                              /*place=*/0);
  if (!sends) {
    for (Kept& kept : kept_) {
      const bool from = call.root == kAnyRank || call.root == kept.peer;
      if (kept.receive != 0 || !from || kept.header.root != call.tag) continue;
      kept.receive = id;
      message.source = kept.peer;
      break;
    }
  }
  messages_.push_back(message);
}

absl::StatusOr<bool> PairMessages::Step() {
  bool moved = false;
  ended_.clear();
  std::fill(held_up_.begin(), held_up_.end(), false);
  for (Message& message : messages_) {
    message.waits = false;
    if (message.call.kind != Collective::kSend || held_up_[message.call.root]) continue;
    held_up_[message.call.root] = true;
    MUSTER_ASSIGN_OR_RETURN(const size_t bytes, Send(message));
    moved |= bytes > 0;
    message.waits = bytes == 0;
    message.ended =
        message.moved == kHeaderBytes + message.data_bytes + PaddingAfter(message.data_bytes);
  }
  for (int peer = 0; peer < transport_.size(); ++peer) {
    arrivals_[peer].waits = false;
    if (peer == transport_.rank()) continue;
    MUSTER_ASSIGN_OR_RETURN(const size_t bytes, Receive(peer));
    moved |= bytes > 0;
  }
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    if (kept->receive == 0 || !kept->whole) {
      ++kept;
      continue;
    }
    MUSTER_RETURN_IF_ERROR(Deliver(*kept));
    kept = kept_.erase(kept);
    moved = true;
  }
  // A receive from any rank may leave a message that another rank has begun: it is kept first.
  const bool keeping = IsKeeping();
  for (const Message& message : messages_) {
    if (!message.ended || (keeping && message.call.root == kAnyRank)) continue;
    const bool sends = message.call.kind == Collective::kSend;
    ended_.push_back({.id = message.id,
                      .traffic = {.sent = sends ? message.data_bytes : 0,
                                  .received = sends ? 0 : message.data_bytes}});
  }
  if (!ended_.empty()) {
    messages_.erase(std::remove_if(messages_.begin(), messages_.end(),
                                   [&](const Message& message) {
                                     return std::any_of(
                                         ended_.begin(), ended_.end(),
                                         [&](const Ended& each) { return each.id == message.id; });
                                   }),
                    messages_.end());
  }
  return moved;
}

void PairMessages::AddInterests(std::vector<PipeInterest>& interests) const {
  for (const Message& message : messages_) {
    if (message.waits) interests.push_back({.peer = message.call.root, .writable = true});
  }
  for (int peer = 0; peer < transport_.size(); ++peer) {
    const Arrival& arrival = arrivals_[peer];
    if (!arrival.waits) continue;
    interests.push_back({.peer = peer, .readable = true, .may_leave = arrival.may_leave});
  }
}

absl::StatusOr<size_t> PairMessages::Send(Message& message) {
  Pipe& pipe = transport_.pipe(message.call.root);
  const size_t before = message.moved;
  const size_t data_end = kHeaderBytes + message.data_bytes;
  const size_t stream_bytes = data_end + PaddingAfter(message.data_bytes);
  static constexpr std::byte kZeros[kHeaderBytes] = {};
  while (message.moved < stream_bytes && message.moved - before < kFragmentBytes) {
    const size_t at = message.moved;
    absl::Span<const std::byte> rest;
    if (at < kHeaderBytes) {
      rest = {reinterpret_cast<const std::byte*>(&message.header) + at, kHeaderBytes - at};
    } else if (at < data_end) {
      rest = {static_cast<const std::byte*>(message.call.in) + (at - kHeaderBytes),
              std::min(data_end - at, kFragmentBytes)};
    } else {
      rest = {kZeros, stream_bytes - at};
    }
    MUSTER_ASSIGN_OR_RETURN(const size_t taken, pipe.Write(rest));
    message.moved += taken;
    if (taken < rest.size()) break;
  }
  if (message.moved > before) MUSTER_RETURN_IF_ERROR(pipe.Flush());
  return message.moved - before;
}

absl::StatusOr<size_t> PairMessages::Receive(int peer) {
  Pipe& pipe = transport_.pipe(peer);
  Arrival& arrival = arrivals_[peer];
  size_t moved = 0;
  std::byte zeros[kHeaderBytes];
  while (moved < kFragmentBytes) {
    if (arrival.moved == 0) {
      MUSTER_ASSIGN_OR_RETURN(const bool begun, BeginArrival(peer));
      if (!begun) break;
      moved += kHeaderBytes;
    }
    const size_t at = arrival.moved;
    const size_t data_end = kHeaderBytes + arrival.data_bytes;
    const size_t stream_end = data_end + PaddingAfter(arrival.data_bytes);
    if (at < stream_end) {
      const absl::Span<std::byte> rest =
          at < data_end ? absl::MakeSpan(arrival.to + (at - kHeaderBytes),
                                         std::min(data_end - at, kFragmentBytes))
                        : absl::MakeSpan(zeros, stream_end - at);
      MUSTER_ASSIGN_OR_RETURN(const size_t read, pipe.Read(rest));
      arrival.moved += read;
      moved += read;
      if (read < rest.size()) {
        arrival.waits = moved == 0;
        break;
      }
    }
    if (arrival.moved == stream_end) EndArrival(peer);
  }
  return moved;
}

absl::StatusOr<bool> PairMessages::BeginArrival(int peer) {
  Arrival& arrival = arrivals_[peer];
  Message* const first = FindReceive(peer, nullptr);
  if (first == nullptr) return false;
  arrival.may_leave = first->call.root == kAnyRank;
  Pipe& pipe = transport_.pipe(peer);
  MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> there, pipe.Peek(kHeaderBytes));
  if (there.size() < kHeaderBytes) {
    arrival.waits = true;
    return false;
  }
  CallHeader header;
  std::memcpy(&header, there.data(), kHeaderBytes);
  const bool is_message = header.magic == CallHeader::kMagic &&
                          header.kind == static_cast<uint8_t>(Collective::kSend) &&
                          header.sequence == arrived_[peer] + 1;
  // A rank that has sent nothing may have gone on to a collective call.
  if (!is_message && header.magic == CallHeader::kMagic && first->call.root == kAnyRank &&
      header.kind != static_cast<uint8_t>(Collective::kSend)) {
    return false;
  }
  Message* const receive = is_message ? FindReceive(peer, &header.root) : first;
  if (receive != nullptr) {
    MUSTER_RETURN_IF_ERROR(Compare(*receive, peer, arrived_[peer] + 1, header));
  }
  pipe.Consume(kHeaderBytes);
  ++arrived_[peer];
  arrival = {.moved = kHeaderBytes,
             .data_bytes = header.count * SizeOf(static_cast<DType>(header.dtype))};
  if (receive != nullptr) {
    receive->source = peer;
    arrival.receive = receive->id;
    arrival.to = static_cast<std::byte*>(receive->call.out);
  } else {
    kept_.push_back({.peer = peer,
                     .header = header,
                     .data = std::make_unique<std::byte[]>(arrival.data_bytes)});
    arrival.kept = &kept_.back();
    arrival.to = arrival.kept->data.get();
  }
  return true;
}

void PairMessages::EndArrival(int peer) {
  Arrival& arrival = arrivals_[peer];
  if (arrival.kept != nullptr) {
    arrival.kept->whole = true;
  } else {
    EndReceive(arrival.receive);
  }
  arrival = {};
}

PairMessages::Message* PairMessages::FindReceive(int peer, const int32_t* tag) {
  // A receive from this very rank comes first, since it alone says that a message has to come.
  Message* any = nullptr;
  for (Message& message : messages_) {
    if (message.call.kind != Collective::kReceive || message.source >= 0) continue;
    if (message.call.root != peer && message.call.root != kAnyRank) continue;
    if (tag != nullptr) {
      if (message.call.tag == *tag) return &message;
    } else if (message.call.root == peer) {
      return &message;
    } else if (any == nullptr) {
      any = &message;
    }
  }
  return any;
}

void PairMessages::EndReceive(uint64_t id) {
  for (Message& message : messages_) {
    if (message.id != id) continue;
    message.ended = true;
    if (message.call.source != nullptr) *message.call.source = message.source;
  }
}

absl::Status PairMessages::Deliver(const Kept& kept) {
  for (const Message& message : messages_) {
    if (message.id != kept.receive) continue;
    MUSTER_RETURN_IF_ERROR(Compare(message, kept.peer, kept.header.sequence, kept.header));
    if (message.data_bytes > 0) {
      std::memcpy(message.call.out, kept.data.get(), message.data_bytes);
    }
  }
  EndReceive(kept.receive);
  return absl::OkStatus();
}

absl::Status PairMessages::Compare(const Message& receive, int peer, uint64_t sequence,
                                   const CallHeader& theirs) {
  CallHeader own = receive.header;
  own.sequence = sequence;
  if (own == theirs) return absl::OkStatus();
  mismatch_ = {.id = receive.id, .peer = peer, .own = own, .theirs = theirs};
  return absl::FailedPreconditionError("the calls differ");
}

bool PairMessages::IsKeeping() const {
  return std::any_of(arrivals_.begin(), arrivals_.end(), [](const Arrival& arrival) {
    return arrival.kept != nullptr && arrival.kept->receive == 0;
  });
}

}  // namespace muster
