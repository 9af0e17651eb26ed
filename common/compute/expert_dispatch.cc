#include "common/compute/expert_dispatch.h"

#include "common/base/round_up.h"

namespace muster {

ExpertDispatch::ExpertDispatch(absl::Span<const int32_t> offsets, int ranks, int rank)
    : offsets_(offsets),
      ranks_(ranks),
      rank_(rank),
      experts_(static_cast<int64_t>(offsets.size()) / ranks - 1) {
  const int64_t of_rank = experts_ / ranks_;
  for (int r = 0; r < ranks_; ++r) {
    int64_t taken = 0;
    for (int source = 0; source < ranks_; ++source) {
      taken += offset(source, (r + 1) * of_rank) - offset(source, r * of_rank);
    }
    most_.push_back(MostHostedRows(offset(r, experts_)));
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
  for (int peer = 0; peer < ranks_; ++peer) {
    ForEach(peer, round, [&](int64_t expert, int source, int64_t first, int64_t rows) {
      if (source == rank_) made.sent.push_back({peer, offset(rank_, expert) + first, rows});
    });
  }
  made.first = round * most_[rank_];
  ForEach(rank_, round, [&](int64_t, int source, int64_t, int64_t rows) {
    made.taken.push_back({source, made.rows, rows});
    made.rows += rows;
  });
  return made;
}

}  // namespace muster
