#include "common/step/shares.h"

#include <algorithm>
#include <numeric>

#include "common/base/round_up.h"

namespace muster {
namespace {

// Returns a * b / c rounded down, where a * b may need more than 64 bits.
int64_t MultiplyDivide(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

}  // namespace

Share ShareOf(int64_t examples, int64_t data_rank, int64_t data_ranks) {
  return {.begin = MultiplyDivide(examples, data_rank, data_ranks),
          .end = MultiplyDivide(examples, data_rank + 1, data_ranks)};
}

Share ShareOf(int64_t examples, int64_t data_rank, absl::Span<const uint32_t> parts) {
  const int64_t all = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  const int64_t before = std::accumulate(parts.begin(), parts.begin() + data_rank, int64_t{0});
  const int64_t divided = examples - static_cast<int64_t>(parts.size());
  return {.begin = data_rank + MultiplyDivide(divided, before, all),
          .end = data_rank + 1 + MultiplyDivide(divided, before + parts[data_rank], all)};
}

int64_t BatchDivision::Needed(int64_t share) const {
  const int64_t most = CeilDivide(CeilDivide(batch_size, job_data_ranks), micro_batches);
  return std::max(micro_batches, CeilDivide(share, most));
}

Share BatchDivision::ShareOfRank(int64_t data_rank) const {
  return parts.empty() ? ShareOf(batch_size, data_rank, data_ranks)
                       : ShareOf(batch_size, data_rank, parts);
}

int64_t BatchDivision::MicroBatches() const {
  if (parts.empty()) return Needed(CeilDivide(batch_size, data_ranks));
  int64_t largest = 0;
  for (int64_t rank = 0; rank < data_ranks; ++rank) {
    largest = std::max(largest, ShareOfRank(rank).size());
  }
  return Needed(largest);
}

Share BatchDivision::MicroBatch(int64_t data_rank, int64_t micro_batch) const {
  const Share share = ShareOfRank(data_rank);
  const int64_t needed = Needed(share.size());
  if (micro_batch >= needed) return {.begin = share.end, .end = share.end};
  return {.begin = share.begin + micro_batch * share.size() / needed,
          .end = share.begin + (micro_batch + 1) * share.size() / needed};
}

int64_t EvaluationDivision::Batches() const {
  return CeilDivide(CeilDivide(examples, data_ranks), most);
}

Share EvaluationDivision::Batch(int64_t data_rank, int64_t batch) const {
  const Share share = ShareOf(examples, data_rank, data_ranks);
  const int64_t begin = share.begin + std::min(batch * most, share.size());
  return {.begin = begin, .end = begin + std::min(most, share.end - begin)};
}

}  // namespace muster
