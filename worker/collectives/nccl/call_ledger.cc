#include "worker/collectives/nccl/call_ledger.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fingerprint.h"

namespace muster {
namespace {

constexpr uint32_t kSend = static_cast<uint32_t>(Collective::kSend);
constexpr uint32_t kReceive = static_cast<uint32_t>(Collective::kReceive);
constexpr uint32_t kAllToAll = static_cast<uint32_t>(Collective::kAllToAll);

// Number of ranks in the same place that a message names.
constexpr size_t kNamed = 4;

bool IsPair(uint32_t kind) { return kind == kSend || kind == kReceive; }

bool IsReduction(uint32_t kind) {
  return kind == static_cast<uint32_t>(Collective::kAllReduce) ||
         kind == static_cast<uint32_t>(Collective::kReduceScatter) ||
         kind == static_cast<uint32_t>(Collective::kReduce);
}

// Returns the elements of rank `i` in a call that may have counts.
size_t CountOf(absl::Span<const size_t> counts, size_t count, int i) {
  return counts.empty() ? count : counts[i];
}

uint64_t PairHash(int from, int to, uint64_t elements) {
  return MixBits(MixBits(MixBits(static_cast<uint64_t>(from) + 1) + static_cast<uint64_t>(to)) +
                 elements);
}

void CopyText(absl::string_view text, char* out, size_t room) {
  const size_t length = std::min(text.size(), room - 1);
  std::copy_n(text.begin(), length, out);
  std::memset(out + length, 0, room - length);
}

std::string TextOf(const char* text, size_t room) { return std::string(text, strnlen(text, room)); }

bool SameCall(const LedgerEntry& a, const LedgerEntry& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.reduction == b.reduction && a.root == b.root &&
         (a.kind == kAllToAll || a.count == b.count) && a.counts_hash == b.counts_hash;
}

}  // namespace

LedgerEntry EntryOf(const CollectiveCall& call, int rank, int size) {
  LedgerEntry entry;
  entry.kind = static_cast<uint32_t>(call.kind);
  CopyText(call.label, entry.label, sizeof(entry.label));
  if (call.kind == Collective::kBarrier) return entry;
  entry.dtype = static_cast<uint32_t>(call.dtype);
  if (IsReduction(entry.kind)) entry.reduction = static_cast<uint32_t>(call.reduction);
  entry.count = call.count;
  switch (call.kind) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      entry.count = 0;
      for (int i = 0; i < size; ++i) {
        const size_t count = CountOf(call.counts, call.count, i);
        entry.count += count;
        entry.counts_hash = MixBits(entry.counts_hash + count);
      }
      break;
    case Collective::kAllToAll:
      entry.count = 0;
      for (int i = 0; i < size; ++i) {
        const size_t sent = CountOf(call.send_counts, call.count, i);
        entry.count += sent;
        entry.sent_hash += PairHash(rank, i, sent);
        entry.expected_hash += PairHash(i, rank, CountOf(call.counts, call.count, i));
      }
      break;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSend:
    case Collective::kReceive:
      entry.root = call.root;
      break;
    case Collective::kAllReduce:
    case Collective::kBarrier:
      break;
  }
  return entry;
}

std::string Describe(const LedgerEntry& entry) {
  const std::string label = TextOf(entry.label, sizeof(entry.label));
  const std::string quoted = label.empty() ? "" : absl::StrCat(" '", label, "'");
  if (entry.kind == kLedgerSplit) return "split";
  if (entry.kind == kLedgerAllocate) return absl::StrCat("allocate ", entry.count, " bytes");
  const Collective kind = static_cast<Collective>(entry.kind);
  if (kind == Collective::kBarrier) return absl::StrCat("barrier", quoted);
  std::string text = absl::StrCat(Name(kind), " ", Name(static_cast<DType>(entry.dtype)));
  if (IsReduction(entry.kind)) {
    absl::StrAppend(&text, " ", Name(static_cast<Reduction>(entry.reduction)));
  }
  absl::StrAppend(&text, " x ", entry.count);
  if (entry.counts_hash != 0) {
    absl::StrAppend(&text, " in counts #", absl::Hex(entry.counts_hash >> 48));
  }
  if (kind == Collective::kBroadcast || kind == Collective::kReduce) {
    absl::StrAppend(&text, " root ", entry.root);
  } else if (kind == Collective::kSend) {
    absl::StrAppend(&text, " to ", entry.root);
  } else if (kind == Collective::kReceive) {
    absl::StrAppend(&text, " from ", entry.root);
  }
  return absl::StrCat(text, quoted);
}

CallLedger::CallLedger(std::string group, int rank, int size, std::vector<std::string> names)
    : group_(std::move(group)),
      rank_(rank),
      size_(size),
      names_(std::move(names)),
      entered_pairs_(size),
      ranks_(size),
      pairs_(static_cast<size_t>(size) * size) {}

std::string CallLedger::NameOf(int rank) const {
  return names_.empty() ? absl::StrCat("rank ", rank) : names_[rank];
}

CallLedger::Ticket CallLedger::Enter(LedgerEntry entry) {
  Ticket ticket;
  ticket.kind = entry.kind;
  if (entry.kind == kSend) {
    ticket.peer = entry.root;
    ticket.index = ++entered_pairs_[entry.root].sends;
  } else if (entry.kind == kReceive) {
    ticket.peer = entry.root;
    ticket.index = ++entered_pairs_[entry.root].receives;
  } else {
    ticket.index = ++entered_;
  }
  entry.index = ticket.index;
  untold_.push_back(entry);
  return ticket;
}

LedgerRecord CallLedger::NextRecord() {
  LedgerRecord record;
  while (!untold_.empty() && record.entries < LedgerRecord::kEntries) {
    record.entry[record.entries++] = untold_.front();
    untold_.pop_front();
  }
  return record;
}

bool CallLedger::HasUnconfirmed() const {
  if (!untold_.empty() || confirmed_ < entered_) return true;
  for (int peer = 0; peer < size_; ++peer) {
    if (PairOf(rank_, peer).matched < entered_pairs_[peer].sends) return true;
    if (PairOf(peer, rank_).matched < entered_pairs_[peer].receives) return true;
  }
  return false;
}

void CallLedger::Take(int rank, const LedgerEntry& entry) {
  Rank& from = ranks_[rank];
  from.last = entry;
  ++from.seen;
  if (entry.kind == kSend) {
    PairOf(rank, entry.root).sends.push_back(entry);
  } else if (entry.kind == kReceive) {
    PairOf(entry.root, rank).receives.push_back(entry);
  } else {
    from.calls.push_back(entry);
  }
}

absl::Status CallLedger::MatchCalls() {
  while (true) {
    for (const Rank& rank : ranks_) {
      if (rank.calls.empty()) return absl::OkStatus();
    }
    const LedgerEntry& first = ranks_[0].calls.front();
    std::vector<std::string> others;
    uint64_t sent = 0;
    uint64_t expected = 0;
    for (int r = 0; r < size_; ++r) {
      const LedgerEntry& entry = ranks_[r].calls.front();
      sent += entry.sent_hash;
      expected += entry.expected_hash;
      if (!SameCall(first, entry)) {
        others.push_back(absl::StrCat(NameOf(r), " makes ", muster::Describe(entry)));
      }
    }
    if (!others.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("group '", group_, "', call ", first.index, ": ", NameOf(0), " makes ",
                       muster::Describe(first), ", but ", absl::StrJoin(others, ", "),
                       "; every rank must make the same calls in the same order"));
    }
    if (sent != expected) {
      std::vector<std::string> counts;
      for (int r = 0; r < size_; ++r) {
        counts.push_back(absl::StrCat(NameOf(r), " sends ", ranks_[r].calls.front().count));
      }
      return absl::FailedPreconditionError(
          absl::StrCat("group '", group_, "', call ", first.index, ", ", muster::Describe(first),
                       ": what ranks send is not what others expect (", absl::StrJoin(counts, ", "),
                       "); send_counts[i] of rank r must be counts[r] of rank i"));
    }
    for (Rank& rank : ranks_) rank.calls.pop_front();
    ++confirmed_;
  }
}

absl::Status CallLedger::MatchPairs() {
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      Pair& pair = PairOf(from, to);
      while (!pair.sends.empty() && !pair.receives.empty()) {
        const LedgerEntry& send = pair.sends.front();
        const LedgerEntry& receive = pair.receives.front();
        if (send.dtype != receive.dtype || send.count != receive.count) {
          return absl::FailedPreconditionError(absl::StrCat(
              "group '", group_, "', transfer ", send.index, " from ", NameOf(from), " to ",
              NameOf(to), ": ", NameOf(from), " makes ", muster::Describe(send), ", but ",
              NameOf(to), " makes ", muster::Describe(receive)));
        }
        pair.sends.pop_front();
        pair.receives.pop_front();
        ++pair.matched;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CallLedger::Judge(absl::Span<const LedgerRecord> records) {
  for (int r = 0; r < size_; ++r) {
    const LedgerRecord& record = records[r];
    for (uint32_t i = 0; i < std::min<uint32_t>(record.entries, LedgerRecord::kEntries); ++i) {
      const LedgerEntry& entry = record.entry[i];
      if (IsPair(entry.kind) && (entry.root < 0 || entry.root >= size_)) {
        return absl::DataLossError(absl::StrCat("group '", group_, "': the record of ", NameOf(r),
                                                " names rank ", entry.root, " of ", size_));
      }
      Take(r, entry);
    }
  }
  // A disagreement comes first: it is often the cause of the deadlines that others report.
  if (absl::Status status = MatchCalls(); !status.ok()) return status;
  if (absl::Status status = MatchPairs(); !status.ok()) return status;
  for (const LedgerRecord& record : records) {
    if (record.code == 0) continue;
    return absl::Status(static_cast<absl::StatusCode>(record.code),
                        TextOf(record.message, sizeof(record.message)));
  }
  for (int r = 0; r < size_; ++r) {
    if (records[r].leaving != 0) left_.push_back(r);
  }
  if (closed() && HasUnconfirmed()) return ClosedError();
  return absl::OkStatus();
}

bool CallLedger::Confirmed(const Ticket& ticket) const {
  if (ticket.kind == kSend) return PairOf(rank_, ticket.peer).matched >= ticket.index;
  if (ticket.kind == kReceive) return PairOf(ticket.peer, rank_).matched >= ticket.index;
  return confirmed_ >= ticket.index;
}

absl::Status CallLedger::ClosedError() const {
  std::vector<std::string> names;
  for (int r : left_) names.push_back(NameOf(r));
  return absl::UnavailableError(absl::StrCat(
      absl::StrJoin(names, " and "), names.size() == 1 ? " has" : " have", " left the group '",
      group_, "', which cannot continue; make a new one (", Describe(), ")"));
}

std::string CallLedger::Describe() const {
  // Groups ranks in the same place; those behind come first.
  std::map<std::pair<uint64_t, std::string>, std::vector<int>> places;
  for (int r = 0; r < size_; ++r) {
    const Rank& rank = ranks_[r];
    // A rank knows more of itself than it has told.
    const bool more = r == rank_ && !untold_.empty();
    const uint64_t calls = rank.seen + (more ? untold_.size() : 0);
    const LedgerEntry& last = more ? untold_.back() : rank.last;
    places[{calls, calls == 0 ? "" : muster::Describe(last)}].push_back(r);
  }
  std::vector<std::string> texts;
  for (const auto& [place, ranks] : places) {
    std::vector<std::string> names;
    for (int r : ranks) {
      if (names.size() < kNamed) names.push_back(NameOf(r));
    }
    std::string who = absl::StrJoin(names, ", ");
    if (ranks.size() > kNamed) absl::StrAppend(&who, " and ", ranks.size() - kNamed, " more");
    texts.push_back(place.first == 0
                        ? absl::StrCat(who, ": no call")
                        : absl::StrCat(who, ": ", place.first, " calls, last ", place.second));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace muster
