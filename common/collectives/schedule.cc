#include "common/collectives/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace muster {
namespace {

using Kind = Transfer::Kind;

// A message this short goes to all at once: one step saved is worth more than the bytes.
constexpr uint64_t kExchangeBytesSameMachine = 64 << 10;
constexpr uint64_t kExchangeBytesNetwork = 32 << 10;
// Cost in bytes of a message over a socket, and of a step that must wait for the one before it:
// both are a wake-up (docs/performance/collectives.md).
constexpr double kMessageBytes = 16 << 10;
// Slice size from which 2(W-1) steps between neighbours cost less than W-1 streams at once per
// link.
constexpr uint64_t kRingSliceBytes = 256 << 10;
// Message size from which a broadcast's root does better to send once.
constexpr uint64_t kChainBytes = 256 << 10;
constexpr int kDirectBarrierRanks = 8;

// Lists one rank's transfers. Positions in a buffer are given as slices.
class Builder {
 public:
  explicit Builder(const ScheduleRequest& request)
      : rank_(request.rank), size_(request.size), request_(request) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns the rank `distance` further; `distance` may be negative.
  int Rank(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }

  // Each adds a transfer that must not overtake transfer `after` (-1: none), and returns its index.
  int Send(int peer, Buffer from, Slice slice, int after = -1) {
    return Add({.kind = Kind::kSend, .from = from, .to = from, .peer = peer}, slice, slice, after);
  }
  int Receive(int peer, Buffer to, Slice slice, int after = -1) {
    return Add({.kind = Kind::kReceive, .from = to, .to = to, .peer = peer}, slice, slice, after);
  }
  // Adds the input at `own` to what is received; the result goes to `to_begin` of `to`.
  int ReceiveReduce(int peer, Slice own, Buffer to, size_t to_begin, int after = -1) {
    return Add({.kind = Kind::kReceiveReduce, .to = to, .peer = peer}, own, {to_begin, own.count},
               after);
  }
  int ReduceFromAll(Slice own, size_t to_begin) {
    return Add({.kind = Kind::kReduceFromAll, .completes = true}, own, {to_begin, own.count}, -1);
  }
  int Copy(Slice from, size_t to_begin) {
    return Add({.kind = Kind::kCopy}, from, {to_begin, from.count}, -1);
  }

  Transfer& at(int index) { return schedule_.transfers[index]; }
  int next_index() const { return static_cast<int>(schedule_.transfers.size()); }
  void set_scratch(size_t elements) { schedule_.scratch = elements; }
  Schedule Take() { return std::move(schedule_); }

  // Returns the slice of rank `rank` in a vector divided by `counts`, which may be empty.
  Slice SliceOf(absl::Span<const size_t> counts, int rank) const {
    if (counts.empty()) return {request_.count * rank, request_.count};
    return {std::accumulate(counts.begin(), counts.begin() + rank, size_t{0}), counts[rank]};
  }

 private:
  int Add(Transfer transfer, Slice from, Slice to, int after) {
    transfer.count = from.count;
    transfer.from_begin = from.begin;
    transfer.to_begin = to.begin;
    if (after >= 0) {
      transfer.after_begin = after;
      transfer.after_end = after + 1;
    }
    schedule_.transfers.push_back(transfer);
    return next_index() - 1;
  }

  const int rank_;
  const int size_;
  const ScheduleRequest& request_;
  Schedule schedule_;
};

// Slice c travels from rank c+1 around to its owner c, and each rank adds its part; then the owner
// sends the slice around once more. A partial sum in the output has been sent on before the final
// sum can arrive in its place, because the final sum is made of it.
void RingAllReduce(Builder& build, size_t count) {
  const int size = build.size();
  const auto slice_at = [&](int distance) { return OwnSlice(count, build.Rank(distance), size); };
  const int next = build.Rank(1);
  const int previous = build.Rank(-1);
  build.Send(next, Buffer::kInput, slice_at(-1));
  for (int step = 0; step < size - 1; ++step) {
    const Slice slice = slice_at(-2 - step);
    const int sum = build.ReceiveReduce(previous, slice, Buffer::kOutput, slice.begin);
    build.at(sum).completes = step == size - 2;
    build.Send(next, Buffer::kOutput, slice, sum);
  }
  for (int step = 0; step < size - 1; ++step) {
    const int result = build.Receive(previous, Buffer::kOutput, slice_at(-1 - step));
    if (step < size - 2) build.Send(next, Buffer::kOutput, slice_at(-1 - step), result);
  }
}

void DirectAllReduce(Builder& build, size_t count) {
  const int size = build.size();
  const Slice own = OwnSlice(count, build.rank(), size);
  for (int i = 1; i < size; ++i) {
    const int peer = build.Rank(i);
    build.Send(peer, Buffer::kInput, OwnSlice(count, peer, size));
  }
  const int sum = build.ReduceFromAll(own, own.begin);
  for (int i = 1; i < size; ++i) build.Send(build.Rank(i), Buffer::kOutput, own, sum);
  for (int i = 1; i < size; ++i) {
    const int peer = build.Rank(-i);
    build.Receive(peer, Buffer::kOutput, OwnSlice(count, peer, size));
  }
}

// In place, an element's sum must not be written before the element has been sent to all.
void ExchangeAllReduce(Builder& build, size_t count) {
  for (int i = 1; i < build.size(); ++i) build.Send(build.Rank(i), Buffer::kInput, {0, count});
  const int sum = build.ReduceFromAll({0, count}, 0);
  build.at(sum).after_begin = 0;
  build.at(sum).after_end = sum;
}

// One rank's place in a group that exchanges in pairs, for which the number of ranks, the cores,
// must be a power of two. Among the first 2·extra ranks, an odd one stands by and leaves its part
// to the one before it.
struct PairPlace {
  explicit PairPlace(const Builder& build) {
    while (2 * cores <= build.size()) {
      cores *= 2;
      ++steps;
    }
    extra = build.size() - cores;
    const bool paired = build.rank() < 2 * extra;
    stands_by = paired && build.rank() % 2 == 1;
    helped = paired && build.rank() % 2 == 0;
    core = paired ? build.rank() / 2 : build.rank() - extra;
  }
  int RankOf(int other_core) const {
    return other_core < extra ? 2 * other_core : other_core + extra;
  }

  int cores = 1;
  int steps = 0;
  int extra = 0;
  bool stands_by = false;
  bool helped = false;
  int core = 0;
};

// Adds what the rank that stands by has sent to this rank's input.
int TakeFromStandBy(Builder& build, size_t count) {
  const int sum = build.ReceiveReduce(build.Rank(1), {0, count}, Buffer::kOutput, 0);
  build.at(sum).own_first = true;
  return sum;
}

void DoublingAllReduce(Builder& build, size_t count) {
  const PairPlace place(build);
  const Slice all = {0, count};
  if (place.stands_by) {
    build.Send(build.Rank(-1), Buffer::kInput, all);
    build.Receive(build.Rank(-1), Buffer::kOutput, all);
    return;
  }
  int sum = place.helped ? TakeFromStandBy(build, count) : -1;
  for (int step = 0; step < place.steps; ++step) {
    const int distance = 1 << step;
    const int peer = place.RankOf(place.core ^ distance);
    const Buffer source = sum >= 0 ? Buffer::kOutput : Buffer::kInput;
    const int send = build.Send(peer, source, all, sum);
    // An element's sum takes its place once it has been sent.
    const int before = sum >= 0 ? sum : send;
    sum = build.ReceiveReduce(peer, all, Buffer::kOutput, 0);
    Transfer& transfer = build.at(sum);
    transfer.from = source;
    transfer.own_first = (place.core & distance) == 0;
    transfer.completes = step == place.steps - 1;
    transfer.after_begin = before;
    transfer.after_end = sum;
  }
  if (place.helped) build.Send(build.Rank(1), Buffer::kOutput, all, sum);
}

// Slices belong to the ranks in the order of their reversed bits, so that the first step, between
// neighbours, divides the vector into halves.
void HalvingAllReduce(Builder& build, size_t count) {
  const PairPlace place(build);
  const auto slices = [&](int begin, int end) {
    const size_t first = OwnSlice(count, begin, place.cores).begin;
    const Slice last = OwnSlice(count, end - 1, place.cores);
    return Slice{first, last.begin + last.count - first};
  };
  if (place.stands_by) {
    build.Send(build.Rank(-1), Buffer::kInput, {0, count});
    for (int slice = 0; slice < place.cores; ++slice) {
      build.Receive(build.Rank(-1), Buffer::kOutput, slices(slice, slice + 1));
    }
    return;
  }
  int sum = place.helped ? TakeFromStandBy(build, count) : -1;
  size_t sum_begin = 0;
  // This rank has a sum of slices [begin, end): of one slice after the steps.
  int begin = 0;
  int end = place.cores;
  for (int step = 0; step < place.steps; ++step) {
    const int distance = 1 << step;
    const int peer = place.RankOf(place.core ^ distance);
    const int middle = (begin + end) / 2;
    const bool upper = (place.core & distance) != 0;
    const Slice sent = upper ? slices(begin, middle) : slices(middle, end);
    (upper ? begin : end) = middle;
    const Slice kept = slices(begin, end);
    const Buffer source = sum >= 0 ? Buffer::kOutput : Buffer::kInput;
    const int send = build.Send(peer, source, sent, sum);
    build.at(send).after_offset = sent.begin - sum_begin;
    const int next = build.ReceiveReduce(peer, kept, Buffer::kOutput, kept.begin, sum);
    Transfer& transfer = build.at(next);
    transfer.from = source;
    transfer.own_first = !upper;
    transfer.completes = step == place.steps - 1;
    transfer.after_offset = kept.begin - sum_begin;
    sum = next;
    sum_begin = kept.begin;
  }
  // Transfer that brings a slice's sum, by slice.
  std::vector<int> source(place.cores, -1);
  source[begin] = sum;
  for (int step = place.steps - 1; step >= 0; --step) {
    const int peer = place.RankOf(place.core ^ (1 << step));
    const int width = end - begin;
    const bool upper = (place.core & (1 << step)) != 0;
    const int other = upper ? begin - width : end;
    for (int slice = begin; slice < end; ++slice) {
      build.Send(peer, Buffer::kOutput, slices(slice, slice + 1), source[slice]);
    }
    for (int slice = other; slice < other + width; ++slice) {
      source[slice] = build.Receive(peer, Buffer::kOutput, slices(slice, slice + 1));
    }
    begin = std::min(begin, other);
    end = begin + 2 * width;
  }
  for (int slice = 0; slice < place.cores && place.helped; ++slice) {
    build.Send(build.Rank(1), Buffer::kOutput, slices(slice, slice + 1), source[slice]);
  }
}

// The first half of RingAllReduce, one fragment of every slice at a time. The output has no room
// for partial sums; each of the W-2 steps keeps one fragment of them in scratch.
void RingReduceScatter(Builder& build, const ScheduleRequest& request) {
  const int size = build.size();
  size_t largest = 0;
  for (int i = 0; i < size; ++i) {
    largest = std::max(largest, build.SliceOf(request.counts, i).count);
  }
  const size_t fragment = std::max<size_t>(1, std::min(request.fragment, largest));
  build.set_scratch(fragment * (size - 2));
  const int next = build.Rank(1);
  const int previous = build.Rank(-1);
  // Send that frees a step's scratch, by step.
  std::vector<int> last_send(size, -1);
  for (size_t begin = 0; begin == 0 || begin < largest; begin += fragment) {
    const auto part = [&](int distance) {
      const Slice slice = build.SliceOf(request.counts, build.Rank(distance));
      const size_t skip = std::min(begin, slice.count);
      return Slice{slice.begin + skip, std::min(fragment, slice.count - skip)};
    };
    build.Send(next, Buffer::kInput, part(-1));
    for (int step = 0; step < size - 2; ++step) {
      const Slice own = part(-2 - step);
      const Slice scratch = {step * fragment, own.count};
      const int sum =
          build.ReceiveReduce(previous, own, Buffer::kScratch, scratch.begin, last_send[step]);
      last_send[step] = build.Send(next, Buffer::kScratch, scratch, sum);
    }
    const Slice own = part(0);
    const size_t slice_begin = build.SliceOf(request.counts, build.rank()).begin;
    const int sum = build.ReceiveReduce(previous, own, Buffer::kOutput, own.begin - slice_begin);
    build.at(sum).completes = true;
  }
}

void DirectReduceScatter(Builder& build, const ScheduleRequest& request) {
  for (int i = 1; i < build.size(); ++i) {
    const int peer = build.Rank(i);
    build.Send(peer, Buffer::kInput, build.SliceOf(request.counts, peer));
  }
  build.ReduceFromAll(build.SliceOf(request.counts, build.rank()), 0);
}

void AllGather(Builder& build, const ScheduleRequest& request) {
  const int size = build.size();
  const Slice own = build.SliceOf(request.counts, build.rank());
  const Slice input = {0, own.count};
  if (request.algorithm == Algorithm::kRing) {
    build.Send(build.Rank(1), Buffer::kInput, input);
    for (int i = 1; i < size; ++i) {
      const Slice slice = build.SliceOf(request.counts, build.Rank(-i));
      const int received = build.Receive(build.Rank(-1), Buffer::kOutput, slice);
      if (i < size - 1) build.Send(build.Rank(1), Buffer::kOutput, slice, received);
    }
  } else {
    for (int i = 1; i < size; ++i) build.Send(build.Rank(i), Buffer::kInput, input);
    for (int i = 1; i < size; ++i) {
      const int peer = build.Rank(-i);
      build.Receive(peer, Buffer::kOutput, build.SliceOf(request.counts, peer));
    }
  }
  build.Copy(input, own.begin);
}

void Broadcast(Builder& build, const ScheduleRequest& request) {
  const int size = build.size();
  const Slice all = {0, request.count};
  const bool is_root = build.rank() == request.root;
  const bool chain = request.algorithm == Algorithm::kRing;
  int received = -1;
  if (!is_root) {
    received = build.Receive(chain ? build.Rank(-1) : request.root, Buffer::kOutput, all);
  }
  const Buffer source = is_root ? Buffer::kInput : Buffer::kOutput;
  if (chain) {
    if (build.Rank(1) != request.root) build.Send(build.Rank(1), source, all, received);
  } else if (is_root) {
    for (int i = 1; i < size; ++i) build.Send(build.Rank(i), source, all);
  }
  if (is_root) build.Copy(all, 0);
}

void AllToAll(Builder& build, const ScheduleRequest& request) {
  const int size = build.size();
  const auto to = [&](int peer) { return build.SliceOf(request.send_counts, peer); };
  const auto from = [&](int peer) { return build.SliceOf(request.counts, peer); };
  bool same_places = true;
  for (int peer = 0; peer < size; ++peer) same_places &= to(peer).count == from(peer).count;
  // In place, what arrives from a peer may take the place of what went to it, if it fits there
  // exactly; else the input must be out of the way first.
  Buffer source = Buffer::kInput;
  const Slice last = to(size - 1);
  if (request.in_place && !same_places) {
    build.set_scratch(last.begin + last.count);
    const int stage = build.Copy({0, last.begin + last.count}, 0);
    build.at(stage).kind = Kind::kStage;
    build.at(stage).to = Buffer::kScratch;
    source = Buffer::kScratch;
  }
  std::vector<int> sent(size, -1);
  for (int i = 1; i < size; ++i) {
    const int peer = build.Rank(i);
    sent[peer] = build.Send(peer, source, to(peer));
  }
  for (int i = 1; i < size; ++i) {
    const int peer = build.Rank(-i);
    const bool replaces = request.in_place && same_places;
    build.Receive(peer, Buffer::kOutput, from(peer), replaces ? sent[peer] : -1);
  }
  const int own = build.Copy(to(build.rank()), from(build.rank()).begin);
  build.at(own).from = source;
}

// Scratch: element 0 is sent, element 1 received.
void Barrier(Builder& build, Algorithm algorithm) {
  const int size = build.size();
  build.set_scratch(2);
  if (algorithm == Algorithm::kDirect) {
    for (int i = 1; i < size; ++i) build.Send(build.Rank(i), Buffer::kScratch, {0, 1});
    for (int i = 1; i < size; ++i) build.Receive(build.Rank(-i), Buffer::kScratch, {1, 1});
    return;
  }
  // A rank sends in a step only once it has received in all earlier steps.
  for (int distance = 1; distance < size; distance *= 2) {
    build.Receive(build.Rank(-distance), Buffer::kScratch, {1, 1});
  }
  const int steps = build.next_index();
  for (int step = 0; step < steps; ++step) {
    const int send = build.Send(build.Rank(1 << step), Buffer::kScratch, {0, 1});
    build.at(send).after_begin = 0;
    build.at(send).after_end = step;
  }
}

// Returns what an all-reduce costs a rank, in messages over sockets. Every call sends its header to
// all: one more message for each rank that gets no data with it.
double SocketCost(Algorithm algorithm, double size, double bytes) {
  double cores = 1;
  double steps = 0;
  for (; 2 * cores <= size; cores *= 2) ++steps;
  const double others = size - 1;
  const double units = bytes / kMessageBytes;
  // Extra cost of the first ranks if the group is no power of two: the result sent back, and two
  // steps.
  const bool folds = cores < size;
  const double fold = folds ? 1 + 2 + units : 0;
  switch (algorithm) {
    case Algorithm::kExchange:
      return others + 1 + others * units;
    case Algorithm::kDirect:
      return 2 * others + 2 + 2 * others / size * units;
    case Algorithm::kDoubling:
      return others + steps + steps * units + fold;
    case Algorithm::kHalving:
      return others + steps + 2 * steps + 2 * (cores - 1) / cores * units + fold;
    case Algorithm::kRing:
    case Algorithm::kDissemination:
      break;
  }
  return std::numeric_limits<double>::infinity();
}

// Returns the cheapest algorithm besides kRing. REQUIRES: ranks on several machines.
Algorithm CheapestAllReduce(const AlgorithmRequest& request, bool may_sum_in_pairs) {
  Algorithm best = IsShort(request) ? Algorithm::kExchange : Algorithm::kDirect;
  if (!may_sum_in_pairs || request.size < 3) return best;
  for (const Algorithm other :
       {Algorithm::kExchange, Algorithm::kDirect, Algorithm::kDoubling, Algorithm::kHalving}) {
    const auto cost = [&](Algorithm algorithm) {
      return SocketCost(algorithm, request.size, static_cast<double>(request.bytes));
    };
    if (cost(other) < cost(best)) best = other;
  }
  return best;
}

// Schedules a group of one.
void Alone(Builder& build, const ScheduleRequest& request) {
  if (request.kind != Collective::kBarrier) build.Copy(build.SliceOf(request.counts, 0), 0);
}

}  // namespace

const char* Name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kExchange:
      return "exchange";
    case Algorithm::kDissemination:
      return "dissemination";
    case Algorithm::kDoubling:
      return "doubling";
    case Algorithm::kHalving:
      return "halving";
  }
  return "unknown algorithm";
}

Slice OwnSlice(size_t count, int rank, int size) {
  const size_t even = count / size;
  const size_t longer = count % size;
  const size_t index = rank;
  return {even * index + std::min(index, longer), even + (index < longer ? 1 : 0)};
}

Schedule MakeSchedule(const ScheduleRequest& request) {
  Builder build(request);
  if (request.size == 1) {
    Alone(build, request);
    return build.Take();
  }
  switch (request.kind) {
    case Collective::kAllReduce:
      if (request.algorithm == Algorithm::kRing) {
        RingAllReduce(build, request.count);
      } else if (request.algorithm == Algorithm::kExchange) {
        ExchangeAllReduce(build, request.count);
      } else if (request.algorithm == Algorithm::kDoubling) {
        DoublingAllReduce(build, request.count);
      } else if (request.algorithm == Algorithm::kHalving) {
        HalvingAllReduce(build, request.count);
      } else {
        DirectAllReduce(build, request.count);
      }
      break;
    case Collective::kReduceScatter:
      if (request.algorithm == Algorithm::kRing) {
        RingReduceScatter(build, request);
      } else {
        DirectReduceScatter(build, request);
      }
      break;
    case Collective::kAllGather:
      AllGather(build, request);
      break;
    case Collective::kBroadcast:
      Broadcast(build, request);
      break;
    case Collective::kReduce:
      if (build.rank() == request.root) {
        build.ReduceFromAll({0, request.count}, 0);
      } else {
        build.Send(request.root, Buffer::kInput, {0, request.count});
      }
      break;
    case Collective::kAllToAll:
      AllToAll(build, request);
      break;
    case Collective::kSend:
      build.Send(request.root, Buffer::kInput, {0, request.count});
      break;
    case Collective::kReceive:
      build.Receive(request.root, Buffer::kOutput, {0, request.count});
      break;
    case Collective::kBarrier:
      Barrier(build, request.algorithm);
      break;
  }
  return build.Take();
}

Algorithm ChooseAlgorithm(const AlgorithmRequest& request) {
  const bool network = !request.same_machine;
  const uint64_t size = request.size;
  const bool half = request.dtype == DType::kF16 || request.dtype == DType::kBf16;
  // Between machines a ring loads every link once, in one direction. Within one machine all memory
  // is equally near: two steps do instead of 2(W-1).
  const bool long_ring = network && size > 2 && request.bytes / size >= kRingSliceBytes;
  const bool may_sum_on_ring = !request.deterministic && !half;
  switch (request.kind) {
    case Collective::kAllReduce:
      if (long_ring && may_sum_on_ring) return Algorithm::kRing;
      if (network) return CheapestAllReduce(request, may_sum_on_ring);
      // Two ranks send the same amount either way. Adding up everything takes less memory traffic
      // than adding up a half, sending the sums and storing the other half.
      return IsShort(request) || size == 2 ? Algorithm::kExchange : Algorithm::kDirect;
    case Collective::kReduceScatter:
      return long_ring && may_sum_on_ring ? Algorithm::kRing : Algorithm::kDirect;
    case Collective::kAllGather:
      return long_ring ? Algorithm::kRing : Algorithm::kDirect;
    case Collective::kBroadcast:
      return size > 2 && request.bytes >= kChainBytes ? Algorithm::kRing : Algorithm::kDirect;
    case Collective::kBarrier:
      return size > kDirectBarrierRanks ? Algorithm::kDissemination : Algorithm::kDirect;
    case Collective::kReduce:
    case Collective::kAllToAll:
    case Collective::kSend:
    case Collective::kReceive:
      return Algorithm::kDirect;
  }
  return Algorithm::kDirect;
}

bool IsShort(const AlgorithmRequest& request) {
  return request.bytes * (request.size - 1) <=
         (request.same_machine ? kExchangeBytesSameMachine : kExchangeBytesNetwork);
}

uint64_t SentElements(const Schedule& schedule) {
  uint64_t elements = 0;
  for (const Transfer& transfer : schedule.transfers) {
    if (transfer.kind == Kind::kSend) elements += transfer.count;
  }
  return elements;
}

uint64_t ReceivedElements(const Schedule& schedule, int size) {
  uint64_t elements = 0;
  for (const Transfer& transfer : schedule.transfers) {
    if (transfer.kind == Kind::kReceive || transfer.kind == Kind::kReceiveReduce) {
      elements += transfer.count;
    } else if (transfer.kind == Kind::kReduceFromAll) {
      elements += transfer.count * (size - 1);
    }
  }
  return elements;
}

}  // namespace muster
