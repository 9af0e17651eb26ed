// The part of CollectiveRun that moves a schedule's transfers through the streams between ranks.

#include <algorithm>
#include <cstring>

#include "common/base/status_macros.h"
#include "worker/collectives/host/collective_run.h"

namespace muster {
namespace {

// A stream this short may come with its header in one call of recv, at the price of being copied
// twice.
constexpr size_t kPeekedBytes = 16 << 10;

// Returns `header` for one peer, with the counts between the two ranks.
CallHeader Between(const CallHeader& header, size_t sends, size_t expects) {
  CallHeader between = header;
  between.sends = sends;
  between.expects = expects;
  return between;
}

size_t CountOf(absl::Span<const size_t> counts, size_t count, int peer) {
  return counts.empty() ? count : counts[peer];
}

}  // namespace

void CollectiveRun::StartStreams() {
  way_ = Way::kStreams;
  const bool in_place = call_.in == call_.out;
  const bool all_to_all = call_.kind == Collective::kAllToAll;
  const ScheduleRequest request = {.kind = call_.kind,
                                   .algorithm = algorithm_,
                                   .rank = rank_,
                                   .size = size_,
                                   .count = call_.count,
                                   .counts = call_.counts,
                                   .send_counts = call_.send_counts,
                                   .root = call_.root,
                                   .in_place = all_to_all && in_place};
  // A barrier needs only the headers, which every call exchanges with all ranks.
  plan_ = call_.kind == Collective::kBarrier ? &headers_alone_ : &plans_.For(request);
  const Schedule& schedule = plan_->schedule();
  moved_.assign(schedule.transfers.size(), 0);
  if (scratch_.size() < schedule.scratch * element_) scratch_.resize(schedule.scratch * element_);
  for (int peer = 0; peer < size_; ++peer) {
    Streams& streams = streams_[peer];
    streams = Streams();
    if (all_to_all) {
      const size_t sends = CountOf(call_.send_counts, call_.count, peer);
      const size_t expects = CountOf(call_.counts, call_.count, peer);
      streams.out = Between(header_, sends, expects);
      streams.expected = Between(header_, expects, sends);
    } else {
      streams.out = streams.expected = header_;
    }
    if (peer == rank_) continue;
    streams.padding_out = PaddingAfter(plan_->elements_to(peer) * element_);
    streams.padding_in = PaddingAfter(plan_->elements_from(peer) * element_);
    streams.peeks_header = plan_->elements_from(peer) * element_ <= kPeekedBytes;
    traffic_.sent += plan_->elements_to(peer) * element_;
    traffic_.received += plan_->elements_from(peer) * element_;
  }
  for (const int copy : plan_->copies()) {
    if (schedule.transfers[copy].kind == Transfer::Kind::kStage) Copy(copy);
  }
}

absl::StatusOr<CollectiveRun::Progress> CollectiveRun::StepStreams() {
  bool moved = false;
  bool ended = true;
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    streams_[peer].wants_room = streams_[peer].wants_bytes = false;
    MUSTER_RETURN_IF_ERROR(SendTo(peer, moved));
  }
  for (int i = 1; i < size_; ++i) {
    MUSTER_RETURN_IF_ERROR(ReceiveFrom((rank_ + size_ - i) % size_, moved));
  }
  for (const int copy : plan_->copies()) {
    if (moved_[copy] < BytesOf(copy)) {
      moved |= Copy(copy);
      ended &= moved_[copy] == BytesOf(copy);
    }
  }
  for (int peer = 0; peer < size_ && ended; ++peer) {
    if (peer != rank_) ended = StreamsEnded(peer);
  }
  if (ended) return Progress::kDone;
  return moved ? Progress::kSome : Progress::kNone;
}

absl::Status CollectiveRun::SendHeader(int peer, bool& moved) {
  Streams& streams = streams_[peer];
  if (streams.header_sent == kHeaderBytes) return absl::OkStatus();
  const auto* header = reinterpret_cast<const std::byte*>(&streams.out);
  Pipe& pipe = transport_.pipe(peer);
  MUSTER_ASSIGN_OR_RETURN(const size_t taken, pipe.Write({header + streams.header_sent,
                                                          kHeaderBytes - streams.header_sent}));
  streams.header_sent += taken;
  moved |= taken > 0;
  streams.wants_room = streams.header_sent < kHeaderBytes;
  return absl::OkStatus();
}

absl::Status CollectiveRun::SendTo(int peer, bool& moved) {
  Streams& streams = streams_[peer];
  Pipe& pipe = transport_.pipe(peer);
  // A header leaves with the data behind it, where there is some.
  bool wrote = false;
  MUSTER_RETURN_IF_ERROR(SendHeader(peer, wrote));
  moved |= wrote;
  if (streams.header_sent < kHeaderBytes) return wrote ? pipe.Flush() : absl::OkStatus();
  const absl::Span<const int> sends = plan_->sends(peer);
  size_t budget = kCollectiveFragmentBytes;
  while (streams.sent < sends.size() && budget > 0) {
    const int index = sends[streams.sent];
    const Transfer& transfer = plan_->schedule().transfers[index];
    const size_t want = std::min(Allowed(index) - moved_[index], budget);
    if (want > 0) {
      MUSTER_ASSIGN_OR_RETURN(const size_t taken,
                              pipe.Write({From(transfer) + moved_[index], want}));
      moved_[index] += taken;
      budget -= taken;
      wrote |= taken > 0;
      if (taken < want) {
        streams.wants_room = true;
        break;
      }
    }
    if (moved_[index] < BytesOf(index)) break;
    ++streams.sent;
    moved = true;
  }
  if (streams.sent == sends.size() && streams.padding_out > 0) {
    static constexpr std::byte kZeros[kHeaderBytes] = {};
    MUSTER_ASSIGN_OR_RETURN(const size_t taken, pipe.Write({kZeros, streams.padding_out}));
    streams.padding_out -= taken;
    streams.wants_room = streams.padding_out > 0;
    wrote |= taken > 0;
  }
  moved |= wrote;
  return wrote ? pipe.Flush() : absl::OkStatus();
}

absl::Status CollectiveRun::ReceiveHeader(int peer, bool& moved) {
  Streams& streams = streams_[peer];
  if (streams.header_received == kHeaderBytes) return absl::OkStatus();
  auto* header = reinterpret_cast<std::byte*>(&streams.in) + streams.header_received;
  const size_t missing = kHeaderBytes - streams.header_received;
  Pipe& pipe = transport_.pipe(peer);
  size_t read = 0;
  if (streams.peeks_header) {
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> there, pipe.Peek(missing));
    read = there.size();
    std::memcpy(header, there.data(), read);
    pipe.Consume(read);
  } else {
    MUSTER_ASSIGN_OR_RETURN(read, pipe.Read(absl::MakeSpan(header, missing)));
  }
  streams.header_received += read;
  moved |= read > 0;
  streams.wants_bytes = streams.header_received < kHeaderBytes;
  if (!streams.wants_bytes && !(streams.in == streams.expected)) differs_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> CollectiveRun::GatherHeaders() {
  bool all = true;
  bool moved = false;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Streams& streams = streams_[peer];
    streams.wants_room = streams.wants_bytes = false;
    MUSTER_RETURN_IF_ERROR(SendHeader(peer, moved));
    MUSTER_RETURN_IF_ERROR(transport_.pipe(peer).Flush());
    MUSTER_RETURN_IF_ERROR(ReceiveHeader(peer, moved));
    all &= streams.header_received == kHeaderBytes && streams.header_sent == kHeaderBytes;
  }
  return all;
}

std::vector<CollectiveRun::Seen> CollectiveRun::headers() const {
  std::vector<Seen> seen;
  for (int peer = 0; peer < size_; ++peer) {
    const Streams& streams = streams_[peer];
    if (peer == rank_ || streams.header_received < kHeaderBytes) continue;
    seen.push_back({.peer = peer, .own = streams.out, .theirs = streams.in});
  }
  return seen;
}

absl::Status CollectiveRun::ReceiveFrom(int peer, bool& moved) {
  Streams& streams = streams_[peer];
  MUSTER_RETURN_IF_ERROR(ReceiveHeader(peer, moved));
  if (differs_) return absl::FailedPreconditionError("the calls differ");
  if (streams.header_received < kHeaderBytes) return absl::OkStatus();
  Pipe& pipe = transport_.pipe(peer);
  const absl::Span<const int> receives = plan_->receives(peer);
  size_t budget = kCollectiveFragmentBytes;
  while (streams.received < receives.size() && budget > 0) {
    const int index = receives[streams.received];
    const Transfer& transfer = plan_->schedule().transfers[index];
    if (transfer.kind == Transfer::Kind::kReduceFromAll) {
      MUSTER_RETURN_IF_ERROR(ReduceFromAll(index, moved));
      if (moved_[index] < BytesOf(index)) break;
      ++streams.received;
      moved = true;
      continue;
    }
    const size_t want = std::min(Allowed(index) - moved_[index], budget);
    if (want > 0) {
      std::byte* const to = To(transfer) + moved_[index];
      size_t taken = 0;
      if (transfer.kind == Transfer::Kind::kReceive) {
        MUSTER_ASSIGN_OR_RETURN(taken, pipe.Read(absl::MakeSpan(to, want)));
      } else {
        MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> there, pipe.Peek(want));
        taken = there.size() - there.size() % element_;
        if (taken > 0) {
          const void* inputs[] = {there.data(), From(transfer) + moved_[index]};
          if (transfer.own_first) std::swap(inputs[0], inputs[1]);
          ReduceInto(Op(transfer), inputs, taken / element_, to);
          pipe.Consume(taken);
        }
      }
      moved_[index] += taken;
      budget -= taken;
      moved |= taken > 0;
      if (taken < want) {
        streams.wants_bytes = true;
        break;
      }
    }
    if (moved_[index] < BytesOf(index)) break;
    ++streams.received;
    moved = true;
  }
  if (streams.received == receives.size() && streams.padding_in > 0) {
    std::byte zeros[kHeaderBytes];
    MUSTER_ASSIGN_OR_RETURN(const size_t read,
                            pipe.Read(absl::MakeSpan(zeros, streams.padding_in)));
    streams.padding_in -= read;
    streams.wants_bytes = streams.padding_in > 0;
    moved |= read > 0;
  }
  return absl::OkStatus();
}

absl::Status CollectiveRun::ReduceFromAll(int index, bool& moved) {
  const Transfer& transfer = plan_->schedule().transfers[index];
  size_t bytes = std::min(Allowed(index) - moved_[index], kCollectiveFragmentBytes);
  if (bytes == 0) return absl::OkStatus();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Streams& streams = streams_[peer];
    const absl::Span<const int> receives = plan_->receives(peer);
    // The peer's header is still to come, or what comes before this transfer in its stream.
    if (streams.header_received < kHeaderBytes || receives[streams.received] != index) {
      return absl::OkStatus();
    }
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> there,
                            transport_.pipe(peer).Peek(bytes));
    inputs_[peer] = there.data();
    streams.wants_bytes = there.size() < element_;
    bytes = std::min(bytes, there.size() - there.size() % element_);
    if (bytes == 0) return absl::OkStatus();
  }
  inputs_[rank_] = From(transfer) + moved_[index];
  ReduceInto(Op(transfer), inputs_, bytes / element_, To(transfer) + moved_[index]);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) transport_.pipe(peer).Consume(bytes);
  }
  moved_[index] += bytes;
  moved = true;
  return absl::OkStatus();
}

bool CollectiveRun::Copy(int index) {
  const Transfer& transfer = plan_->schedule().transfers[index];
  const size_t until = Allowed(index);
  const size_t bytes = until - moved_[index];
  const std::byte* const from = From(transfer) + moved_[index];
  std::byte* const to = To(transfer) + moved_[index];
  if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
  moved_[index] = until;
  return bytes > 0;
}

size_t CollectiveRun::BytesOf(int index) const {
  return plan_->schedule().transfers[index].count * element_;
}

size_t CollectiveRun::Allowed(int index) const {
  const Transfer& transfer = plan_->schedule().transfers[index];
  size_t allowed = transfer.count * element_;
  for (int i = transfer.after_begin; i < transfer.after_end; ++i) {
    if (moved_[i] == BytesOf(i)) continue;
    const size_t moved = moved_[i] - moved_[i] % element_;
    allowed = std::min(allowed, moved - std::min(moved, transfer.after_offset * element_));
  }
  return allowed;
}

const std::byte* CollectiveRun::From(const Transfer& transfer) const {
  const std::byte* start = transfer.from == Buffer::kInput ? static_cast<const std::byte*>(call_.in)
                           : transfer.from == Buffer::kOutput
                               ? static_cast<const std::byte*>(call_.out)
                               : scratch_.data();
  return start + transfer.from_begin * element_;
}

std::byte* CollectiveRun::To(const Transfer& transfer) {
  std::byte* start =
      transfer.to == Buffer::kOutput ? static_cast<std::byte*>(call_.out) : scratch_.data();
  return start + transfer.to_begin * element_;
}

ReduceOp CollectiveRun::Op(const Transfer& transfer) const {
  ReduceOp op = {.dtype = call_.dtype, .reduction = call_.reduction};
  if (call_.reduction == Reduction::kAvg && transfer.completes) op.divisor = size_;
  return op;
}

bool CollectiveRun::StreamsEnded(int peer) const {
  const Streams& streams = streams_[peer];
  return streams.header_sent == kHeaderBytes && streams.header_received == kHeaderBytes &&
         streams.sent == plan_->sends(peer).size() &&
         streams.received == plan_->receives(peer).size() && streams.padding_out == 0 &&
         streams.padding_in == 0;
}

}  // namespace muster
