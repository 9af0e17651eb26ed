#include "worker/collectives/host/call_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/collectives/schedule.h"
#include "worker/collectives/check_call.h"

namespace muster {
namespace {

// Time that ranks have to tell what they are doing when a call has failed.
constexpr absl::Duration kGrace = absl::Milliseconds(200);
// Number of steps that move something between two looks at the clock.
constexpr uint32_t kStepsPerLook = 16;

bool IsMessage(Collective kind) {
  return kind == Collective::kSend || kind == Collective::kReceive;
}

bool TakesCounts(Collective kind) {
  return kind == Collective::kReduceScatter || kind == Collective::kAllGather ||
         kind == Collective::kAllToAll;
}

// Returns the count that other ranks are told for `call`.
uint64_t CountOf(const CollectiveCall& call, int size) {
  switch (call.kind) {
    case Collective::kBarrier:
      return 0;
    case Collective::kAllToAll:
      return SumOfCounts(call.send_counts, call.count, size);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return call.counts.empty() ? call.count : SumOfCounts(call.counts, 0, size);
    default:
      return call.count;
  }
}

std::string LabelOf(const CallState& state) {
  return std::string(state.label, strnlen(state.label, sizeof(state.label)));
}

}  // namespace

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

CallEngine::CallEngine(Transport& transport, const CallErrors& errors, SymmetricBuffers& buffers,
                       FlightRecorder& recorder, bool same_machine)
    : transport_(transport),
      errors_(errors),
      buffers_(buffers),
      recorder_(recorder),
      same_machine_(same_machine),
      collective_(transport),
      messages_(transport) {}

bool CallEngine::Takes(Collective kind) const { return IsMessage(kind) ? !in_collective_ : idle(); }

void CallEngine::Begin(const CollectiveCall& call, CallOutcome* outcome) {
  outcome->ended = false;
  outcome->status = CheckCall(call, transport_.rank(), transport_.size());
  if (outcome->status.ok() && failed_.ok()) {
    if (absl::Status health = transport_.health(); !health.ok()) FailOnTransport(health);
  }
  if (outcome->status.ok()) outcome->status = failed_;
  if (!outcome->status.ok()) {
    outcome->ended = true;
    return;
  }
  const bool message = IsMessage(call.kind);
  Active active = {.id = ++calls_,
                   .peer = message ? call.root : -1,
                   .timeout = call.timeout,
                   .outcome = outcome};
  recorder_.Begin(active.id, call);
  if (!message) ++collectives_;
  CallState& state = active.state;
  state.sequence = collectives_;
  state.inside = 1;
  state.kind = static_cast<uint32_t>(call.kind);
  state.dtype = static_cast<uint32_t>(call.dtype);
  state.reduction = static_cast<uint32_t>(call.reduction);
  state.count = CountOf(call, transport_.size());
  call.label.copy(state.label, sizeof(state.label) - 1);
  transport_.Publish(state);
  active_.push_back(active);
  if (message) {
    messages_.Begin(call, active.id);
  } else {
    BeginCollective(call, active.id);
  }
}

void CallEngine::BeginCollective(const CollectiveCall& call, uint64_t id) {
  in_collective_ = true;
  CollectiveCall own = call;
  if (!TakesCounts(call.kind)) own.counts = own.send_counts = {};
  const size_t elements =
      TakesCounts(call.kind) ? SumOfCounts(own.counts, own.count, transport_.size()) : own.count;
  const size_t bytes = elements * SizeOf(own.dtype);
  const AlgorithmRequest request = {.kind = own.kind,
                                    .dtype = own.dtype,
                                    .bytes = bytes,
                                    .size = transport_.size(),
                                    .same_machine = same_machine_,
                                    .deterministic = own.deterministic};
  const Algorithm algorithm = ChooseAlgorithm(request);
  SymmetricAddress place;
  const void* const shared = SharedVector(own);
  if (shared != nullptr && !IsShort(request) && transport_.size() > 1) {
    place = buffers_.Find(shared, bytes);
    place.elements = elements;
  }
  collective_.Begin(own, algorithm, MakeHeader(own, algorithm, collectives_, place.name), place);
}

bool CallEngine::Step() {
  ticket_ = transport_.Ticket();
  bool moved = false;
  if (in_collective_) {
    const absl::StatusOr<CollectiveRun::Progress> progress = collective_.Step();
    if (!progress.ok()) {
      if (collective_.differs()) {
        FailOnDifferentCalls();
      } else {
        FailOnTransport(progress.status());
      }
      return true;
    }
    if (*progress == CollectiveRun::Progress::kDone) {
      in_collective_ = false;
      Count(collective_.traffic());
      End(active_[0], absl::OkStatus());
      ended_ = active_[0].state;
      active_.clear();
      return true;
    }
    moved = *progress == CollectiveRun::Progress::kSome;
  } else if (!messages_.empty()) {
    const absl::StatusOr<bool> progress = messages_.Step();
    if (!progress.ok()) {
      if (messages_.mismatch().peer >= 0) {
        FailOnDifferentMessages();
      } else {
        FailOnTransport(progress.status());
      }
      return true;
    }
    for (const PairMessages::Ended& ended : messages_.ended()) {
      Count(ended.traffic);
      Active& active = Find(ended.id);
      End(active, absl::OkStatus());
      active_.erase(active_.begin() + (&active - active_.data()));
    }
    moved = *progress;
  }
  if (moved && ++steps_ % kStepsPerLook == 0) FailIfLate(MonotonicNow());
  return moved;
}

void CallEngine::Block(absl::Duration until) {
  if (absl::Status health = transport_.health(); !health.ok()) {
    FailOnTransport(health);
    return;
  }
  const absl::Duration now = MonotonicNow();
  FailIfLate(now);
  if (active_.empty()) return;
  for (const Active& active : active_) until = std::min(until, active.deadline);
  interests_.clear();
  if (in_collective_) {
    collective_.AddInterests(interests_);
  } else {
    messages_.AddInterests(interests_);
  }
  if (until > now) transport_.Wait(ticket_, interests_, until - now);
}

void CallEngine::FailIfLate(absl::Duration now) {
  for (Active& active : active_) {
    if (active.deadline == absl::InfiniteDuration()) active.deadline = now + active.timeout;
    if (now < active.deadline) continue;
    const std::vector<RankState> states = Survey();
    Fail(errors_.Late(active.state, transport_.rank(), active.peer, active.timeout, states));
    return;
  }
}

void CallEngine::FailOnTransport(const absl::Status& status) {
  if (errors_.IsComplete(status)) {
    Fail(status);
    return;
  }
  const std::vector<RankState> states = Survey();
  const CallState own = active_.empty() ? states[transport_.rank()].call : active_[0].state;
  const absl::Status error = errors_.Lost(own, transport_.rank(), status, states);
  transport_.Abort(error);
  Fail(error);
}

std::vector<RankState> CallEngine::Survey() {
  std::vector<RankState> states = transport_.Survey(kGrace);
  for (RankState& state : states) {
    if (state.call.sequence < ended_.sequence) state.call = ended_;
  }
  return states;
}

CallErrors::Side CallEngine::SideOf(int rank, const CallHeader& header,
                                    const RankState& state) const {
  CallErrors::Side side = {.rank = rank, .header = header};
  // A rank may have gone on to another call since.
  if (state.call.kind == header.kind && state.call.dtype == header.dtype) {
    side.label = LabelOf(state.call);
  }
  return side;
}

void CallEngine::FailOnDifferentCalls() {
  const absl::Duration until = MonotonicNow() + kGrace;
  while (true) {
    ticket_ = transport_.Ticket();
    const absl::StatusOr<bool> all = collective_.GatherHeaders();
    if (!all.ok()) {
      FailOnTransport(all.status());
      return;
    }
    const absl::Duration now = MonotonicNow();
    if (*all || now >= until) break;
    interests_.clear();
    collective_.AddInterests(interests_);
    transport_.Wait(ticket_, interests_, until - now);
  }
  const std::vector<CollectiveRun::Seen> headers = collective_.headers();
  const std::vector<RankState> states = Survey();
  // Calls by rank, without the counts between two ranks alone.
  std::vector<std::pair<int, CallHeader>> calls;
  const auto add = [&](int rank, CallHeader header) {
    header.sends = header.expects = 0;
    calls.emplace_back(rank, header);
  };
  const int self = transport_.rank();
  add(self, headers[0].own);
  for (const CollectiveRun::Seen& seen : headers) add(seen.peer, seen.theirs);
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  // The majority counts as right; of equal numbers, the call of the lowest rank.
  const auto votes = [&](const CallHeader& header) {
    return std::count_if(calls.begin(), calls.end(),
                         [&](const auto& call) { return call.second == header; });
  };
  const auto most = std::max_element(calls.begin(), calls.end(), [&](const auto& a, const auto& b) {
    return votes(a.second) < votes(b.second);
  });
  for (const auto& [rank, header] : calls) {
    if (header == most->second) continue;
    Fail(errors_.Mismatch(SideOf(rank, header, states[rank]),
                          SideOf(most->first, most->second, states[most->first])));
    return;
  }
  // Only counts between this rank and another differ.
  for (const CollectiveRun::Seen& seen : headers) {
    if (seen.own.sends == seen.theirs.expects && seen.own.expects == seen.theirs.sends) continue;
    Fail(errors_.Mismatch(SideOf(self, seen.own, states[self]),
                          SideOf(seen.peer, seen.theirs, states[seen.peer])));
    return;
  }
}

void CallEngine::FailOnDifferentMessages() {
  const PairMessages::Found& found = messages_.mismatch();
  const std::vector<RankState> states = Survey();
  CallHeader own = found.own;
  // `own` is the header of the expected send.
  own.kind = static_cast<uint8_t>(Collective::kReceive);
  Fail(errors_.Mismatch(SideOf(transport_.rank(), own, states[transport_.rank()]),
                        SideOf(found.peer, found.theirs, states[found.peer])));
}

void CallEngine::Fail(const absl::Status& status) {
  if (!failed_.ok()) return;
  transport_.Abort(status);
  // Another rank's reason may have come first.
  const absl::Status health = transport_.health();
  failed_ = errors_.IsComplete(health) ? health : status;
  in_collective_ = false;
  messages_.Clear();
  for (Active& active : active_) End(active, failed_);
  active_.clear();
}

void CallEngine::End(Active& active, const absl::Status& status) {
  recorder_.End(active.id, status);
  // Others can still see the call in which a rank was when the group failed.
  if (status.ok()) {
    active.state.inside = active_.size() > 1;
    transport_.Publish(active.state);
  }
  active.outcome->status = status;
  active.outcome->ended = true;
}

void CallEngine::Count(const CollectiveTraffic& traffic) {
  sent_.store(sent_.load(std::memory_order_relaxed) + traffic.sent, std::memory_order_relaxed);
  received_.store(received_.load(std::memory_order_relaxed) + traffic.received,
                  std::memory_order_relaxed);
}

CallEngine::Active& CallEngine::Find(uint64_t id) {
  return *std::find_if(active_.begin(), active_.end(),
                       [&](const Active& active) { return active.id == id; });
}

CollectiveTraffic CallEngine::traffic() const {
  return {.sent = sent_.load(std::memory_order_relaxed),
          .received = received_.load(std::memory_order_relaxed)};
}

}  // namespace muster
