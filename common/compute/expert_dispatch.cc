#include "common/compute/expert_dispatch.h"

#include "common/base/round_up.h"

namespace muster {

ExpertDispatch::ExpertDispatch(absl::Span<const int32_t> counts, int ranks, int rank)
    : counts_(counts),
      ranks_(ranks),
      rank_(rank),
      experts_(static_cast<int64_t>(counts.size()) / ranks) {
  const int64_t of_rank = experts_ / ranks_;
  for (int r = 0; r < ranks_; ++r) {
    int64_t own = 0, taken = 0;
    for (int64_t expert = 0; expert < experts_; ++expert) own += count(r, expert);
    for (int64_t expert = r * of_rank; expert < (r + 1) * of_rank; ++expert) {
      for (int source = 0; source < ranks_; ++source) taken += count(source, expert);
    }
    most_.push_back(MostHostedRows(own));
    rounds_ = std::max<int>(rounds_, CeilDivide(taken, most_[r]));
  }
}

template <typename Visitor>
void ExpertDispatch::ForEach(int rank, int round, Visitor visitor) const {
  const int64_t begin = round * most_[rank], end = begin + most_[rank];
  const int64_t of_rank = experts_ / ranks_;
  int64_t at = 0;
  for (int64_t expert = rank * of_rank; expert < (rank + 1) * of_rank; ++expert) {
    for (int source = 0; source < ranks_; ++source) {
      const int64_t first = std::max(at, begin);
      const int64_t last = std::min(at + count(source, expert), end);
      if (first < last) visitor(expert, source, first - at, last - first);
      at += count(source, expert);
    }
  }
}

ExpertDispatch::Round ExpertDispatch::MakeRound(int round) const {
  Round made;
  const int64_t of_rank = experts_ / ranks_;
  std::vector<int64_t> own(experts_);
  for (int64_t expert = 1; expert < experts_; ++expert) {
    own[expert] = own[expert - 1] + count(rank_, expert - 1);
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    ForEach(peer, round, [&](int64_t expert, int source, int64_t first, int64_t rows) {
      if (source == rank_) made.sent.push_back({peer, own[expert] + first, rows});
    });
  }
  made.offsets.assign(of_rank + 1, 0);
  int64_t at = 0;
  ForEach(rank_, round, [&](int64_t expert, int source, int64_t, int64_t rows) {
    made.taken.push_back({source, at, rows});
    at += rows;
    made.offsets[expert - rank_ * of_rank + 1] = static_cast<int32_t>(at);
  });
  for (int64_t e = 0; e < of_rank; ++e) {
    made.offsets[e + 1] = std::max(made.offsets[e + 1], made.offsets[e]);
  }
  return made;
}

}  // namespace muster
