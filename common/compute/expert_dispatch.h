#ifndef MUSTER_COMMON_COMPUTE_EXPERT_DISPATCH_H_
#define MUSTER_COMMON_COMPUTE_EXPERT_DISPATCH_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace muster {

// Returns the most rows of tokens that a rank which has so many rows of its own takes at a time for
// its experts: a quarter more than it has of its own, which is what balanced routers send it.
inline int64_t MostHostedRows(int64_t own_rows) {
  constexpr int64_t kLeast = 64;
  return std::max(kLeast, own_rows + own_rows / 4);
}

// The way of rows between ranks that share out experts: rank r of W has experts [r E / W,
// (r + 1) E / W). Each rank has its own rows in order of expert, and what it takes from all ranks
// is in order of expert, and for one expert in order of rank. A rank takes no more than
// MostHostedRows at a time: if it is to have more, there are several rounds, of which each takes
// the next ones. So the worst routing costs time and no memory.
//
// For example, with 2 ranks of one expert each, of which rank 0 has rows {3, 1} of experts 0 and 1
// and rank 1 has {2, 2}: rank 0 takes 3 rows of its own and 2 of rank 1, rank 1 takes 1 and 2.
//
// A pure function of all ranks' offsets, the same on every rank. Immutable.
class ExpertDispatch {
 public:
  // Consecutive rows of one expert.
  struct Rows {
    // The rank that they go to or come from.
    int peer = 0;
    // The first one, among the rank's own rows or among those that it takes in the round.
    int64_t first = 0;
    int64_t count = 0;
  };
  struct Round {
    // Own rows, in order of expert. Messages between two ranks are in the same order on both.
    std::vector<Rows> sent;
    // Rows that the rank takes, in order.
    std::vector<Rows> taken;
    // Of these, the number of the first one among all rounds' rows, and how many they are.
    int64_t first = 0;
    int64_t rows = 0;
  };

  // `offsets` [W, E + 1] say where each rank's own rows of each expert begin (ExpertRows::offsets);
  // their memory outlives this. REQUIRES: W divides E.
  ExpertDispatch(absl::Span<const int32_t> offsets, int ranks, int rank);

  // Returns the number of rounds, the same on all ranks; at least 1.
  int rounds() const { return rounds_; }
  Round MakeRound(int round) const;

 private:
  // Calls visitor(expert, source, first, count) for the rows that a rank takes in a round: `count`
  // rows from number `first` on of those that `source` has for the expert.
  template <typename Visitor>
  void ForEach(int rank, int round, Visitor visitor) const;
  int64_t offset(int rank, int64_t expert) const {
    return offsets_[rank * (experts_ + 1) + expert];
  }
  int64_t count(int rank, int64_t expert) const {
    return offset(rank, expert + 1) - offset(rank, expert);
  }

  const absl::Span<const int32_t> offsets_;
  const int ranks_;
  const int rank_;
  const int64_t experts_;
  // The most rows that each rank takes at a time.
  std::vector<int64_t> most_;
  int rounds_ = 1;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_EXPERT_DISPATCH_H_
