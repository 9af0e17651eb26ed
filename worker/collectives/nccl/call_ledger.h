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

// Whether the ranks of a group make the same calls, decided apart from the network that moves the
// data. NCCL itself does not look: ranks that disagree hang, or write nonsense.
//
// Every rank notes its calls; the ranks exchange what they noted in rounds, of one fixed-size
// record from each; from the records of a round every rank draws the same conclusion, since Judge
// is a pure function of all rounds so far. A round never waits for a call: a rank that has none to
// tell sends an empty record. So the rounds also carry failures (a deadline that passed on one rank
// is the same error on all) and show who is late.

// One call, as it is compared.
struct LedgerEntry {
  // A call of the whole group: number among those. Send or receive: number among the sends to (or
  // receives from) that peer. From 1.
  uint64_t index = 0;
  // Collective, or one of the two below.
  uint32_t kind = 0;
  uint32_t dtype = 0;
  uint32_t reduction = 0;
  // The root, or the peer of a send or receive.
  int32_t root = 0;
  // Elements, in all. All-to-all: those this rank sends, not compared.
  uint64_t count = 0;
  // Of the counts by rank, where the call has them.
  uint64_t counts_hash = 0;
  // All-to-all: sums over peers of hashes of (from, to, elements). What all ranks send and what all
  // ranks expect have the same sum exactly if every pair agrees (or by an accident of 2^-64).
  uint64_t sent_hash = 0;
  uint64_t expected_hash = 0;
  // For messages; not compared.
  char label[24] = {};
};

// Calls that are no CollectiveCall.
constexpr uint32_t kLedgerSplit = 100;
constexpr uint32_t kLedgerAllocate = 101;

// What rank `rank` of `size` notes of a call; `index` is left 0.
LedgerEntry EntryOf(const CollectiveCall& call, int rank, int size);

// What one rank tells in one round. Plain data, the same on every machine (little-endian).
struct LedgerRecord {
  static constexpr int kEntries = 8;
  // An absl::StatusCode; the group has failed.
  uint32_t code = 0;
  // This rank makes no more calls and joins no more rounds.
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
  // `names` are what messages call the ranks, by rank; empty: "rank 2".
  CallLedger(std::string group, int rank, int size, std::vector<std::string> names);

  // Where a call stands: it is confirmed once every rank that takes part was seen to make it.
  struct Ticket {
    uint32_t kind = 0;
    int peer = -1;
    uint64_t index = 0;
  };

  // Notes this rank's next call.
  Ticket Enter(LedgerEntry entry);

  // This rank's record of the next round, with as many calls as fit. To be judged before the next.
  LedgerRecord NextRecord();
  // Whether calls of this rank wait to be told or confirmed, so that the next round is urgent.
  bool HasUnconfirmed() const;

  // Takes in the records of a round, by rank; not OK: the group has failed, the same on every rank.
  //   FailedPrecondition  ranks made different calls
  //   Unavailable         a rank left while another still makes calls; to this rank alone
  //   anything else       what a rank reported
  absl::Status Judge(absl::Span<const LedgerRecord> records);

  bool Confirmed(const Ticket& ticket) const;
  // Whether a rank has left: there are no more rounds, and no call can begin.
  bool closed() const { return !left_.empty(); }
  // Such as "rank 2 has left the group 'world'". REQUIRES: closed().
  absl::Status ClosedError() const;

  // Who has entered what, those behind first, such as "rank 1: 41 calls, last barrier; rank 0, rank
  // 2: 42 calls, last all_reduce f32 sum x 1024 'bucket 3'", as far as the rounds told.
  std::string Describe() const;

  std::string NameOf(int rank) const;

 private:
  struct Rank {
    // Calls of the group not yet matched, and how many were seen.
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

  // This rank's calls not told yet, and how many it made of each kind.
  std::deque<LedgerEntry> untold_;
  uint64_t entered_ = 0;
  std::vector<PairCounts> entered_pairs_;

  std::vector<Rank> ranks_;
  std::vector<Pair> pairs_;
  uint64_t confirmed_ = 0;
  std::vector<int> left_;
};

// Such as "all_reduce f32 sum x 1024 'bucket 3'".
std::string Describe(const LedgerEntry& entry);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_CALL_LEDGER_H_
