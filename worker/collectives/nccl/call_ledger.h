#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_CALL_LEDGER_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_CALL_LEDGER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/collectives/collective_call.h"

namespace muster {

// Checks that the ranks of a group make the same calls, apart from the network that moves the data.
// NCCL does not check: ranks that disagree hang, or write nonsense.
//
// Every rank notes its calls. The ranks exchange their notes in rounds of one fixed-size record
// from each. Every rank draws the same conclusion from a round, since Judge is a pure function of
// all rounds so far. A round never waits for a call: a rank that has none to tell sends an empty
// record. Rounds therefore also carry failures (a deadline that passed on one rank is the same
// error on all) and show who is late.

// One call, as ranks compare it.
struct LedgerEntry {
  // Number of the call, from 1: among the group's calls or, for a send or receive, among the sends
  // to (or receives from) that peer.
  uint64_t index = 0;
  // Collective, kLedgerSplit or kLedgerAllocate.
  uint32_t kind = 0;
  uint32_t dtype = 0;
  uint32_t reduction = 0;
  // The root, or the peer of a send or receive.
  int32_t root = 0;
  // Elements in total. All-to-all: those that this rank sends, not compared.
  uint64_t count = 0;
  // Hash of the counts by rank, if the call has them.
  uint64_t counts_hash = 0;
  // All-to-all: sums over peers of hashes of (from, to, elements). The sums of all ranks' sent_hash
  // and expected_hash are equal exactly if every pair agrees (or by an accident of 2^-64).
  uint64_t sent_hash = 0;
  uint64_t expected_hash = 0;
  // Label for messages; not compared.
  char label[24] = {};
};

// Kinds of calls that are no CollectiveCall.
constexpr uint32_t kLedgerSplit = 100;
constexpr uint32_t kLedgerAllocate = 101;

// Returns the entry of a call on rank `rank` of `size`; `index` is left 0.
LedgerEntry EntryOf(const CollectiveCall& call, int rank, int size);

// One rank's record of one round. Plain data, the same on every machine (little-endian).
struct LedgerRecord {
  static constexpr int kEntries = 8;
  // absl::StatusCode with which the group has failed; 0 if OK.
  uint32_t code = 0;
  // 1 if this rank makes no more calls and joins no more rounds.
  uint32_t leaving = 0;
  uint32_t entries = 0;
  uint32_t unused = 0;
  LedgerEntry entry[kEntries];
  char message[504] = {};
};
static_assert(std::is_trivially_copyable_v<LedgerRecord>);

// One rank's copy of the ledger. Not thread-safe.
class CallLedger {
 public:
  // `names` are the ranks' names in messages, by rank; if empty, "rank 2".
  CallLedger(std::string group, int rank, int size, std::vector<std::string> names);

  // A noted call. It is confirmed once every rank that takes part is known to have made it.
  struct Ticket {
    uint32_t kind = 0;
    int peer = -1;
    uint64_t index = 0;
  };

  // Notes this rank's next call.
  Ticket Enter(LedgerEntry entry);

  // Returns this rank's record of the next round, with as many calls as fit. REQUIRES: the last
  // round has been judged.
  LedgerRecord NextRecord();
  // Returns true if calls of this rank wait to be told or confirmed, so that a round is urgent.
  bool HasUnconfirmed() const;

  // Judges the records of a round, by rank. An error means that the group has failed:
  //   FailedPrecondition  ranks made different calls; the same on every rank
  //   Unavailable         a rank has left while calls of this rank wait for it; on this rank alone
  //   anything else       what a rank reported, or a malformed record; the same on every rank
  absl::Status Judge(absl::Span<const LedgerRecord> records);

  bool Confirmed(const Ticket& ticket) const;
  // Returns true if a rank has left: there are no more rounds, and no call can begin.
  bool closed() const { return !left_.empty(); }
  // Returns an error such as "rank 2 has left the group 'world'". REQUIRES: closed().
  absl::Status ClosedError() const;

  // Returns the calls that ranks have entered, as far as told, those behind first, such as "rank 1:
  // 41 calls, last barrier; rank 0, rank 2: 42 calls, last all_reduce f32 sum x 1024 'step 3'".
  std::string Describe() const;

  std::string NameOf(int rank) const;

 private:
  struct Rank {
    // The group's calls that are not yet matched; `seen` counts all that the rounds told.
    std::deque<LedgerEntry> calls;
    uint64_t seen = 0;
    // The last call of any kind.
    LedgerEntry last;
  };
  // Sends and receives from one rank to another, not yet matched.
  struct Pair {
    std::deque<LedgerEntry> sends;
    std::deque<LedgerEntry> receives;
    uint64_t matched = 0;
  };
  struct PairCounts {
    uint64_t sends = 0;
    uint64_t receives = 0;
  };

  void Take(int rank, const LedgerEntry& entry);
  absl::Status MatchCalls();
  absl::Status MatchPairs();
  Pair& PairOf(int from, int to) { return pairs_[from * size_ + to]; }
  const Pair& PairOf(int from, int to) const { return pairs_[from * size_ + to]; }

  const std::string group_;
  const int rank_;
  const int size_;
  const std::vector<std::string> names_;

  // This rank's calls that no record carries yet, and how many it made of each kind.
  std::deque<LedgerEntry> untold_;
  uint64_t entered_ = 0;
  std::vector<PairCounts> entered_pairs_;

  std::vector<Rank> ranks_;
  std::vector<Pair> pairs_;
  uint64_t confirmed_ = 0;
  std::vector<int> left_;
};

// Returns a text such as "all_reduce f32 sum x 1024 'bucket 3'".
std::string Describe(const LedgerEntry& entry);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_CALL_LEDGER_H_
