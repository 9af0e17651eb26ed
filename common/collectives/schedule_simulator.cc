#include "common/collectives/schedule_simulator.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"

namespace muster {
namespace {

using Kind = Transfer::Kind;

constexpr int kMostTerms = 16;

bool Reads(Kind kind) { return kind != Kind::kReceive; }
bool Writes(Kind kind) { return kind != Kind::kSend; }
bool Local(Kind kind) { return kind == Kind::kCopy || kind == Kind::kStage; }

}  // namespace

std::vector<int> SymbolicValue::Order() const {
  std::vector<int> order;
  for (int term = terms - 1; term >= 0; --term) {
    order.push_back(static_cast<int>(ranks >> (4 * term) & 15));
  }
  return order;
}

ScheduleSimulator::ScheduleSimulator(std::vector<Rank> ranks, uint32_t seed)
    : ranks_(std::move(ranks)), states_(ranks_.size()), pipes_(ranks_.size()), random_(seed) {
  const int size = static_cast<int>(ranks_.size());
  for (int r = 0; r < size; ++r) {
    const Rank& rank = ranks_[r];
    State& state = states_[r];
    pipes_[r].resize(size);
    const size_t user =
        rank.in_place ? std::max(rank.input, rank.output) : rank.input + rank.output;
    state.base[0] = rank.in_place ? rank.input_begin : 0;
    state.base[1] = rank.in_place ? rank.output_begin : rank.input;
    state.base[2] = user;
    state.size[0] = rank.input;
    state.size[1] = rank.output;
    state.size[2] = rank.schedule.scratch;
    state.memory.resize(user + rank.schedule.scratch);
    for (size_t i = 0; i < rank.input; ++i) {
      state.memory[state.base[0] + i] = SymbolicValue::Of(r, i);
    }
    state.sends.resize(size);
    state.receives.resize(size);
    state.moved.resize(rank.schedule.transfers.size());
    CheckShape(r);
    if (!error_.empty()) return;
    for (size_t i = 0; i < rank.schedule.transfers.size(); ++i) {
      const Transfer& transfer = rank.schedule.transfers[i];
      state.pending.push_back(i);
      if (transfer.kind == Kind::kSend) {
        state.sends[transfer.peer].push_back(i);
      } else if (transfer.kind == Kind::kReduceFromAll) {
        for (int peer = 0; peer < size; ++peer) {
          if (peer != r) state.receives[peer].push_back(i);
        }
      } else if (!Local(transfer.kind)) {
        state.receives[transfer.peer].push_back(i);
      }
    }
  }
  CheckPairs();
}

void ScheduleSimulator::CheckShape(int rank) {
  const State& state = states_[rank];
  const std::vector<Transfer>& transfers = ranks_[rank].schedule.transfers;
  for (int i = 0; i < static_cast<int>(transfers.size()); ++i) {
    const Transfer& t = transfers[i];
    const bool collective = t.kind == Kind::kReduceFromAll || Local(t.kind);
    const bool peer_ok =
        collective ? t.peer == -1
                   : t.peer >= 0 && t.peer < static_cast<int>(ranks_.size()) && t.peer != rank;
    if (!peer_ok) Fail(rank, i, "wrong peer");
    if (Reads(t.kind) && t.from_begin + t.count > state.size[static_cast<int>(t.from)]) {
      Fail(rank, i, "reads past its buffer");
    }
    if (Writes(t.kind) && t.to_begin + t.count > state.size[static_cast<int>(t.to)]) {
      Fail(rank, i, "writes past its buffer");
    }
    if (Writes(t.kind) && t.to == Buffer::kInput) Fail(rank, i, "writes the input");
    if (t.after_begin < 0 || t.after_begin > t.after_end || t.after_end > i) {
      Fail(rank, i, "waits for what is not before it");
    }
    if (t.kind == Kind::kStage && i > 0 && transfers[i - 1].kind != Kind::kStage) {
      Fail(rank, i, "a stage that is not first");
    }
  }
}

void ScheduleSimulator::CheckPairs() {
  const int size = static_cast<int>(ranks_.size());
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      std::vector<size_t> sent, received;
      for (int i : states_[from].sends[to]) {
        sent.push_back(ranks_[from].schedule.transfers[i].count);
      }
      for (int i : states_[to].receives[from]) {
        received.push_back(ranks_[to].schedule.transfers[i].count);
      }
      if (sent != received) Fail(from, -1, absl::StrCat("sends are not what ", to, " receives"));
    }
  }
}

void ScheduleSimulator::Fail(int rank, int index, const std::string& what) {
  if (error_.empty()) error_ = absl::StrCat("rank ", rank, ", transfer ", index, ": ", what);
}

bool ScheduleSimulator::MayMove(int rank, int index) const {
  const State& state = states_[rank];
  const std::vector<Transfer>& transfers = ranks_[rank].schedule.transfers;
  const Transfer& t = transfers[index];
  for (int i = 0; i < index && transfers[i].kind == Kind::kStage; ++i) {
    if (state.moved[i] < transfers[i].count) return false;
  }
  for (int i = t.after_begin; i < t.after_end; ++i) {
    if (state.moved[i] < transfers[i].count &&
        state.moved[i] <= state.moved[index] + t.after_offset) {
      return false;
    }
  }
  switch (t.kind) {
    case Kind::kSend:
      return state.sends[t.peer].front() == index && pipes_[rank][t.peer].empty();
    case Kind::kReceive:
    case Kind::kReceiveReduce:
      return state.receives[t.peer].front() == index && !pipes_[t.peer][rank].empty();
    case Kind::kReduceFromAll:
      for (int peer = 0; peer < static_cast<int>(ranks_.size()); ++peer) {
        if (peer == rank) continue;
        if (state.receives[peer].front() != index || pipes_[peer][rank].empty()) return false;
      }
      return true;
    case Kind::kCopy:
    case Kind::kStage:
      return true;
  }
  return false;
}

SymbolicValue ScheduleSimulator::Add(const SymbolicValue& left, const SymbolicValue& right) {
  if (left.terms == 0 || right.terms == 0 || left.index != right.index || left.completed != 0 ||
      right.completed != 0 || left.terms + right.terms > kMostTerms) {
    Fail(-1, -1,
         absl::StrCat("adds element ", left.index, " of ", left.terms, " terms and element ",
                      right.index, " of ", right.terms));
    return left;
  }
  return {.index = left.index,
          .ranks = left.ranks << (4 * right.terms) | right.ranks,
          .terms = left.terms + right.terms,
          .shape = MixBits(left.shape) * 3 + MixBits(right.shape + 1)};
}

// Returns true if a transfer that `reader` waits for has yet to write `cell`.
bool ScheduleSimulator::ReadsLater(int rank, int reader, size_t cell) const {
  const State& state = states_[rank];
  const std::vector<Transfer>& transfers = ranks_[rank].schedule.transfers;
  for (int i = transfers[reader].after_begin; i < transfers[reader].after_end; ++i) {
    const Transfer& writer = transfers[i];
    const size_t begin = state.base[static_cast<int>(writer.to)] + writer.to_begin;
    if (Writes(writer.kind) && cell >= begin + state.moved[i] && cell < begin + writer.count) {
      return true;
    }
  }
  return false;
}

void ScheduleSimulator::Write(int rank, int index, const SymbolicValue& value) {
  State& state = states_[rank];
  const std::vector<Transfer>& transfers = ranks_[rank].schedule.transfers;
  const Transfer& t = transfers[index];
  const size_t cell = state.base[static_cast<int>(t.to)] + t.to_begin + state.moved[index];
  // A copy onto itself changes nothing, and whoever else reads a stage waits for all of it.
  const bool harmless = t.kind == Kind::kStage || state.memory[cell] == value;
  for (int reader : state.pending) {
    const Transfer& other = transfers[reader];
    if (harmless || reader == index || !Reads(other.kind)) continue;
    const size_t begin = state.base[static_cast<int>(other.from)] + other.from_begin;
    const bool unread = cell >= begin + state.moved[reader] && cell < begin + other.count;
    if (unread && !ReadsLater(rank, reader, cell)) {
      Fail(rank, index, absl::StrCat("overwrites what transfer ", reader, " is yet to read"));
    }
  }
  state.memory[cell] = value;
}

bool ScheduleSimulator::Step(int rank, int index) {
  if (!MayMove(rank, index)) return false;
  State& state = states_[rank];
  const Transfer& t = ranks_[rank].schedule.transfers[index];
  const auto own = [&] {
    return state.memory[state.base[static_cast<int>(t.from)] + t.from_begin + state.moved[index]];
  };
  const auto take = [&](int peer) {
    const SymbolicValue value = pipes_[peer][rank].front();
    pipes_[peer][rank].pop_front();
    return value;
  };
  SymbolicValue value;
  switch (t.kind) {
    case Kind::kSend:
      pipes_[rank][t.peer].push_back(own());
      break;
    case Kind::kReceive:
      Write(rank, index, take(t.peer));
      break;
    case Kind::kReceiveReduce:
      value = take(t.peer);
      value = t.own_first ? Add(own(), value) : Add(value, own());
      break;
    case Kind::kReduceFromAll:
      value = rank == 0 ? own() : take(0);
      for (int peer = 1; peer < static_cast<int>(ranks_.size()); ++peer) {
        value = Add(value, peer == rank ? own() : take(peer));
      }
      break;
    case Kind::kCopy:
    case Kind::kStage:
      Write(rank, index, own());
      break;
  }
  if (t.kind == Kind::kReceiveReduce || t.kind == Kind::kReduceFromAll) {
    if (t.completes) ++value.completed;
    Write(rank, index, value);
  }
  ++state.moved[index];
  return true;
}

void ScheduleSimulator::Finish(int rank, int index) {
  State& state = states_[rank];
  const Transfer& t = ranks_[rank].schedule.transfers[index];
  if (t.kind == Kind::kSend) {
    state.sends[t.peer].pop_front();
  } else if (t.kind == Kind::kReduceFromAll) {
    for (auto& queue : state.receives) {
      if (!queue.empty()) queue.pop_front();
    }
  } else if (!Local(t.kind)) {
    state.receives[t.peer].pop_front();
  }
}

bool ScheduleSimulator::Sweep(int frozen, bool random_pauses) {
  std::vector<int> order(ranks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  bool moved = false;
  for (int rank : order) {
    if (rank == frozen || (random_pauses && random_() % 4 == 0)) continue;
    State& state = states_[rank];
    const std::vector<Transfer>& transfers = ranks_[rank].schedule.transfers;
    if (state.pending.empty()) continue;
    // Starts at a random transfer, so that none has the first claim.
    const size_t first = random_() % state.pending.size();
    std::rotate(state.pending.begin(), state.pending.begin() + first, state.pending.end());
    for (int index : state.pending) {
      const size_t most = 1 + random_() % 3;
      for (size_t n = 0; n < most && state.moved[index] < transfers[index].count; ++n) {
        if (!Step(rank, index)) break;
        moved = true;
      }
    }
    // Only the first of a queue has ended: those behind it, of no elements, follow.
    for (bool ended = true; ended;) {
      ended = false;
      for (size_t i = 0; i < state.pending.size(); ++i) {
        const int index = state.pending[i];
        const Transfer& t = transfers[index];
        if (state.moved[index] < t.count) continue;
        bool first_in_queue = true;
        if (t.kind == Kind::kSend) {
          first_in_queue = state.sends[t.peer].front() == index;
        } else if (t.kind == Kind::kReduceFromAll) {
          for (const auto& queue : state.receives) {
            first_in_queue &= queue.empty() || queue.front() == index;
          }
        } else if (!Local(t.kind)) {
          first_in_queue = state.receives[t.peer].front() == index;
        }
        if (!first_in_queue) continue;
        Finish(rank, index);
        state.pending.erase(state.pending.begin() + i);
        ended = moved = true;
        break;
      }
    }
  }
  return moved;
}

void ScheduleSimulator::Run(int frozen) {
  while (error_.empty()) {
    if (!Sweep(frozen, true) && !Sweep(frozen, false)) break;
  }
  if (frozen >= 0) return;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    if (!Done(rank)) Fail(rank, states_[rank].pending.front(), "deadlock");
  }
  for (const auto& from : pipes_) {
    for (const auto& pipe : from) {
      if (!pipe.empty()) Fail(-1, -1, "a pipe is not empty at the end");
    }
  }
}

bool ScheduleSimulator::Done(int rank) const { return states_[rank].pending.empty(); }

SymbolicValue ScheduleSimulator::output(int rank, size_t index) const {
  return states_[rank].memory[states_[rank].base[1] + index];
}

SymbolicValue ScheduleSimulator::input(int rank, size_t index) const {
  return states_[rank].memory[states_[rank].base[0] + index];
}

}  // namespace muster
