#include "worker/collectives/host/call_errors.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/text/printable.h"

namespace muster {
namespace {

std::string Describe(Collective kind, DType dtype, Reduction reduction, uint64_t count,
                     absl::string_view label) {
  std::string text = Name(kind);
  if (kind != Collective::kBarrier) absl::StrAppend(&text, " ", Name(dtype));
  if (kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
      kind == Collective::kReduce) {
    absl::StrAppend(&text, " ", Name(reduction));
  }
  const bool counted = kind != Collective::kBarrier && kind != Collective::kAllToAll;
  if (counted) absl::StrAppend(&text, " x ", count);
  if (!label.empty()) absl::StrAppend(&text, " (\"", label, "\")");
  return text;
}

std::string Describe(const CallErrors::Side& side) {
  const CallHeader& header = side.header;
  const auto kind = static_cast<Collective>(header.kind);
  std::string text =
      Describe(kind, static_cast<DType>(header.dtype), static_cast<Reduction>(header.reduction),
               kind == Collective::kAllToAll ? header.sends : header.count, "");
  if (header.counts_fingerprint != 0) text += " in unequal slices";
  if (kind == Collective::kBroadcast || kind == Collective::kReduce) {
    absl::StrAppend(&text, " with root ", header.root);
  }
  if (!side.label.empty()) absl::StrAppend(&text, " (\"", side.label, "\")");
  const bool message = kind == Collective::kSend || kind == Collective::kReceive;
  if (message && header.root != 0) absl::StrAppend(&text, " with tag ", header.root);
  absl::StrAppend(&text, message ? " as message " : " as its call ", header.sequence);
  return text;
}

bool IsMessage(const CallState& call) {
  const auto kind = static_cast<Collective>(call.kind);
  return kind == Collective::kSend || kind == Collective::kReceive;
}

// Returns a text such as "call 17, all_reduce f32 sum x 1024"; messages have no number in the
// group.
std::string Numbered(const CallState& call) {
  return IsMessage(call) ? Describe(call)
                         : absl::StrCat("call ", call.sequence, ", ", Describe(call));
}

// Returns a text about a rank's last call.
std::string LastCall(const CallState& call) {
  if (call.sequence == 0 && !call.inside && !IsMessage(call)) return "it has made no call yet";
  return absl::StrCat(call.inside ? "it is in " : "its last was ", Numbered(call));
}

// Returns how two headers of one operation differ, if the description of the calls does not show
// it.
std::string Difference(const CallErrors::Side& one, const CallErrors::Side& other,
                       const std::string& one_rank, const std::string& other_rank) {
  const CallHeader& a = one.header;
  const CallHeader& b = other.header;
  if (a.kind != b.kind || a.dtype != b.dtype || a.count != b.count) return "";
  if (a.sends != b.expects) {
    return absl::StrCat(": ", one_rank, " sends ", a.sends, " elements to ", other_rank,
                        ", which expects ", b.expects);
  }
  if (a.expects != b.sends) {
    return absl::StrCat(": ", other_rank, " sends ", b.sends, " elements to ", one_rank,
                        ", which expects ", a.expects);
  }
  if (a.counts_fingerprint != b.counts_fingerprint) return ": their counts by rank differ";
  if (a.algorithm != b.algorithm) {
    return absl::StrCat(": one chose ", Name(static_cast<Algorithm>(a.algorithm)), ", the other ",
                        Name(static_cast<Algorithm>(b.algorithm)),
                        "; `deterministic` differs between them");
  }
  if (a.place != b.place) {
    const auto place = [](uint64_t place) {
      if (place == 0) return std::string("in memory of its own");
      return absl::StrCat("at byte ", place & ((uint64_t{1} << 48) - 1), " of shared buffer ",
                          place >> 48);
    };
    return absl::StrCat(": ", one_rank, " works ", place(a.place), ", ", other_rank, " ",
                        place(b.place));
  }
  return "";
}

}  // namespace

std::string Describe(const CallState& call) {
  return Describe(static_cast<Collective>(call.kind), static_cast<DType>(call.dtype),
                  static_cast<Reduction>(call.reduction), call.count,
                  // Another rank's may be any bytes.
                  PrintableLine({call.label, strnlen(call.label, sizeof(call.label))}));
}

CallErrors::CallErrors(std::string group, int size, std::vector<std::string> ranks)
    : group_(std::move(group)), ranks_(std::move(ranks)) {
  for (int rank = ranks_.size(); rank < size; ++rank) ranks_.push_back(absl::StrCat("rank ", rank));
}

bool CallErrors::IsComplete(const absl::Status& status) const {
  return absl::StartsWith(status.message(), group_ + ": ");
}

absl::Status CallErrors::Mismatch(const Side& one, const Side& other) const {
  // The text is the same, whichever of the two ranks has noticed.
  const Side& a = one.rank < other.rank ? one : other;
  const Side& b = one.rank < other.rank ? other : one;
  if (a.header.magic != b.header.magic) {
    return absl::FailedPreconditionError(
        absl::StrCat(group_, ": the bytes between ", rank(a.rank), " and ", rank(b.rank),
                     " do not begin a call; run the same release on all machines"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(group_, ": ", rank(a.rank), " calls ", Describe(a), " where ", rank(b.rank),
                   " calls ", Describe(b), Difference(a, b, rank(a.rank), rank(b.rank)),
                   "; all ranks must make the same calls in the same order"));
}

absl::Status CallErrors::Gone(absl::Span<const RankState> states) const {
  std::vector<std::string> gone;
  for (int i = 0; i < states.size(); ++i) {
    const RankState::Life life = states[i].life;
    if (life != RankState::Life::kDied && life != RankState::Life::kLeft) continue;
    gone.push_back(absl::StrCat(
        rank(i), life == RankState::Life::kDied ? " has died or is out of reach" : " has left",
        " (", LastCall(states[i].call), ")"));
  }
  if (gone.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(group_, ": ", absl::StrJoin(gone, ", "), "; the others must meet again"));
}

absl::Status CallErrors::Late(const CallState& own, int self, int peer, absl::Duration timeout,
                              absl::Span<const RankState> states) const {
  if (absl::Status gone = Gone(states); !gone.ok()) return gone;
  std::vector<std::string> culprits, inside;
  for (int i = 0; i < states.size(); ++i) {
    const CallState& call = states[i].call;
    if (i != self && peer >= 0 && i != peer) continue;
    if (i == self) {
      inside.push_back(rank(i));
    } else if (states[i].life == RankState::Life::kSilent) {
      culprits.push_back(absl::StrCat(rank(i), " does not answer, stopped or out of reach (",
                                      LastCall(call), " as far as known)"));
    } else if (IsMessage(own)) {
      culprits.push_back(absl::StrCat("of ", rank(i), ", ", LastCall(call)));
    } else if (call.sequence < own.sequence) {
      culprits.push_back(absl::StrCat(rank(i), " has not entered it (", LastCall(call), ")"));
    } else if (call.sequence > own.sequence || !call.inside || IsMessage(call)) {
      culprits.push_back(absl::StrCat(rank(i), " has ended it (", LastCall(call), ")"));
    } else {
      inside.push_back(rank(i));
    }
  }
  std::string text =
      absl::StrCat(group_, ": ", Describe(own),
                   IsMessage(own) ? std::string() : absl::StrCat(", call ", own.sequence, ","),
                   peer >= 0 ? absl::StrCat(" between ", rank(self), " and ", rank(peer)) : "",
                   " did not end within its timeout of ", absl::FormatDuration(timeout), ": ");
  if (!culprits.empty()) absl::StrAppend(&text, absl::StrJoin(culprits, "; "), "; ");
  absl::StrAppend(&text, absl::StrJoin(inside, ", "), inside.size() == 1 ? " is" : " are",
                  " in it");
  return absl::DeadlineExceededError(text);
}

absl::Status CallErrors::Lost(const CallState& own, int self, const absl::Status& cause,
                              absl::Span<const RankState> states) const {
  if (absl::Status gone = Gone(states); !gone.ok()) return gone;
  return absl::Status(cause.code(), absl::StrCat(group_, ": ", cause.message(), ", found by ",
                                                 rank(self), "; ", LastCall(own)));
}

absl::Status CallErrors::Aborted(int rank, const std::string& reason) const {
  return absl::AbortedError(absl::StrCat(group_, ": aborted by ", ranks_[rank], ": ", reason));
}

}  // namespace muster
