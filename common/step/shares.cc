#include "common/step/shares.h"

#include <algorithm>

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

int64_t BatchDivision::Needed(int64_t share) const {
  const int64_t most = CeilDivide(CeilDivide(batch_size, job_data_ranks), micro_batches);
  return std::max(micro_batches, CeilDivide(share, most));
}

int64_t BatchDivision::MicroBatches() const { return Needed(CeilDivide(batch_size, data_ranks)); }

Share BatchDivision::MicroBatch(int64_t data_rank, int64_t micro_batch) const {
  const Share share = ShareOf(batch_size, data_rank, data_ranks);
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
