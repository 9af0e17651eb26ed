#include "worker/collectives/host/collective_run.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/machine/stream_copy.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Messages up to this size are copied once more, to leave in one Write.
constexpr size_t kSmallBytes = 8 << 10;
// Size from which a vector is gathered past the caches, which are too small to keep it until it is
// read.
constexpr size_t kStreamedBytes = 8 << 20;
// Number of looks if a look costs next to nothing.
constexpr int kLooks = 64;

// Over a socket a look is a system call, and takes the processor from a rank that may be about to
// send.
int LooksAt(Transport& transport) {
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer != transport.rank() && !transport.pipe(peer).in_memory()) return 1;
  }
  return kLooks;
}

// Returns the slice of the whole vector that the rank owns. REQUIRES: SharedVector(call) has one.
Slice SharedSlice(const CollectiveCall& call, int rank, int size) {
  if (call.kind == Collective::kAllReduce) return OwnSlice(call.count, rank, size);
  if (call.counts.empty()) return {call.count * rank, call.count};
  const auto begin = call.counts.begin();
  return {std::accumulate(begin, begin + rank, size_t{0}), call.counts[rank]};
}

}  // namespace

const void* SharedVector(const CollectiveCall& call) {
  switch (call.kind) {
    case Collective::kAllReduce:
      return call.in == call.out ? call.in : nullptr;
    case Collective::kReduceScatter:
      return call.in;
    case Collective::kAllGather:
      return call.out;
    default:
      return nullptr;
  }
}

CollectiveRun::CollectiveRun(Transport& transport)
    : transport_(transport),
      rank_(transport.rank()),
      size_(transport.size()),
      headers_alone_(Schedule(), size_),
      streams_(size_),
      inputs_(size_),
      outputs_(size_),
      message_(2 * kHeaderBytes + kSmallBytes),
      looks_(LooksAt(transport)) {}

void CollectiveRun::Begin(const CollectiveCall& call, Algorithm algorithm, const CallHeader& header,
                          const SymmetricAddress& place) {
  call_ = call;
  algorithm_ = algorithm;
  header_ = header;
  place_ = place;
  element_ = SizeOf(call.dtype);
  traffic_ = {};
  const size_t bytes = call.count * element_;
  if (place.memory != nullptr) {
    way_ = Way::kShared;
    round_ = 0;
    own_ = SharedSlice(call, rank_, size_);
    own_moved_ = 0;
    for (Streams& streams : streams_) {
      streams = Streams();
      streams.out = streams.expected = header;
    }
  } else if (call.kind == Collective::kAllReduce && algorithm == Algorithm::kExchange &&
             bytes <= kSmallBytes && size_ > 1) {
    way_ = Way::kSmall;
    message_bytes_ = 0;
    for (Streams& streams : streams_) streams.wants_room = streams.wants_bytes = false;
  } else {
    StartStreams();
  }
}

absl::StatusOr<CollectiveRun::Progress> CollectiveRun::Step() {
  switch (way_) {
    case Way::kSmall:
      return StepSmall();
    case Way::kShared:
      return StepShared();
    case Way::kStreams:
      break;
  }
  return StepStreams();
}

void CollectiveRun::AddInterests(std::vector<PipeInterest>& interests) const {
  for (int peer = 0; peer < size_; ++peer) {
    const Streams& streams = streams_[peer];
    if (peer == rank_ || (!streams.wants_room && !streams.wants_bytes)) continue;
    interests.push_back(
        {.peer = peer, .readable = streams.wants_bytes, .writable = streams.wants_room});
  }
}

absl::StatusOr<CollectiveRun::Progress> CollectiveRun::StepSmall() {
  const size_t bytes = call_.count * element_;
  const bool first = message_bytes_ == 0;
  if (first) {
    message_bytes_ = kHeaderBytes + bytes + PaddingAfter(bytes);
    std::memcpy(message_.data(), &header_, kHeaderBytes);
    if (bytes > 0) std::memcpy(message_.data() + kHeaderBytes, call_.in, bytes);
    std::memset(message_.data() + kHeaderBytes + bytes, 0, PaddingAfter(bytes));
    // If a pipe has no room for everything, the streams go on from what the pipe took.
    bool all = true;
    std::fill(outputs_.begin(), outputs_.end(), nullptr);
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      Pipe& pipe = transport_.pipe(peer);
      MUSTER_ASSIGN_OR_RETURN(const size_t taken, pipe.Write({message_.data(), message_bytes_}));
      MUSTER_RETURN_IF_ERROR(pipe.Flush());
      all &= taken == message_bytes_;
      outputs_[peer] = message_.data() + taken;
    }
    if (!all) {
      StartStreams();
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        Streams& streams = streams_[peer];
        size_t taken = static_cast<std::byte*>(outputs_[peer]) - message_.data();
        streams.header_sent = std::min(taken, kHeaderBytes);
        taken -= streams.header_sent;
        const int send = plan_->sends(peer)[0];
        moved_[send] = std::min(taken, bytes);
        taken -= moved_[send];
        streams.padding_out -= taken;
      }
      return Progress::kSome;
    }
  }
  int missing = size_ - 1;
  bool in_part = false;
  std::fill(inputs_.begin(), inputs_.end(), nullptr);
  for (int look = 0; look < looks_ && missing > 0; ++look) {
    in_part = false;
    for (int i = 1; i < size_; ++i) {
      const int peer = (rank_ + i) % size_;
      if (inputs_[peer] != nullptr) continue;
      MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> there,
                              transport_.pipe(peer).Peek(message_bytes_));
      in_part |= !there.empty() && there.size() < message_bytes_;
      streams_[peer].wants_bytes = there.size() < message_bytes_;
      if (streams_[peer].wants_bytes) continue;
      CallHeader theirs;
      std::memcpy(&theirs, there.data(), kHeaderBytes);
      if (!(theirs == header_)) {
        ContinueAsStreams();
        return Progress::kSome;
      }
      inputs_[peer] = there.data() + kHeaderBytes;
      --missing;
    }
  }
  if (missing > 0) {
    // A message is still arriving, or wraps around in the pipe's memory, or is a shorter one of
    // another call.
    if (in_part) ContinueAsStreams();
    return in_part || first ? Progress::kSome : Progress::kNone;
  }
  inputs_[rank_] = call_.in;
  const ReduceOp op = {.dtype = call_.dtype,
                       .reduction = call_.reduction,
                       .divisor = call_.reduction == Reduction::kAvg ? size_ : 1};
  if (bytes > 0) ReduceInto(op, inputs_, call_.count, call_.out);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) transport_.pipe(peer).Consume(message_bytes_);
  }
  traffic_.sent = traffic_.received = bytes * (size_ - 1);
  return Progress::kDone;
}

void CollectiveRun::ContinueAsStreams() {
  StartStreams();
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Streams& streams = streams_[peer];
    streams.header_sent = kHeaderBytes;
    moved_[plan_->sends(peer)[0]] = call_.count * element_;
    streams.padding_out = 0;
  }
}

absl::StatusOr<CollectiveRun::Progress> CollectiveRun::StepShared() {
  bool moved = false;
  bool all = true;
  for (int i = 1; i < size_; ++i) {
    const int peer = (rank_ + i) % size_;
    Streams& streams = streams_[peer];
    streams.wants_room = streams.wants_bytes = false;
    MUSTER_RETURN_IF_ERROR(SendHeader(peer, moved));
    MUSTER_RETURN_IF_ERROR(transport_.pipe(peer).Flush());
    MUSTER_RETURN_IF_ERROR(ReceiveHeader(peer, moved));
    if (differs_) return absl::FailedPreconditionError("the calls differ");
    all &= streams.header_sent == kHeaderBytes && streams.header_received == kHeaderBytes;
  }
  if (!all) return moved ? Progress::kSome : Progress::kNone;
  if (round_ == 1) {
    // Counts the traffic that kDirect would have sent and received: a rank scatters all slices
    // except its own, and gathers its own for all others.
    const bool scatters = call_.kind != Collective::kAllGather;
    const bool gathers = call_.kind != Collective::kReduceScatter;
    const size_t others = (place_.elements - own_.count) * element_;
    const size_t own_for_others = own_.count * (size_ - 1) * element_;
    traffic_.sent = (scatters ? others : 0) + (gathers ? own_for_others : 0);
    traffic_.received = (scatters ? own_for_others : 0) + (gathers ? others : 0);
    return Progress::kDone;
  }
  if (own_moved_ < own_.count) {
    // Once the group has failed, others' memory is theirs again.
    MUSTER_RETURN_IF_ERROR(transport_.health());
    MoveShared();
    return Progress::kSome;
  }
  round_ = 1;
  for (Streams& streams : streams_) streams.header_sent = streams.header_received = 0;
  return Progress::kSome;
}

void CollectiveRun::CopyShared(const std::byte* from, std::byte* to, size_t bytes) {
  if (to == from) return;
  if (place_.elements * element_ >= kStreamedBytes) {
    StreamCopy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void CollectiveRun::MoveShared() {
  const size_t count = std::min(own_.count - own_moved_, kCollectiveFragmentBytes / element_);
  for (int rank = 0; rank < size_; ++rank) {
    outputs_[rank] = place_.memory->of(rank) + place_.offset + (own_.begin + own_moved_) * element_;
    inputs_[rank] = outputs_[rank];
  }
  const ReduceOp op = {.dtype = call_.dtype,
                       .reduction = call_.reduction,
                       .divisor = call_.reduction == Reduction::kAvg ? size_ : 1};
  switch (call_.kind) {
    case Collective::kReduceScatter:
      ReduceInto(op, inputs_, count, static_cast<std::byte*>(call_.out) + own_moved_ * element_);
      break;
    case Collective::kAllGather:
      for (void* const to : outputs_) {
        CopyShared(static_cast<const std::byte*>(call_.in) + own_moved_ * element_,
                   static_cast<std::byte*>(to), count * element_);
      }
      StreamFence();
      break;
    default:
      ReduceIntoAll(op, inputs_, count, absl::MakeSpan(outputs_));
  }
  own_moved_ += count;
}

}  // namespace muster
