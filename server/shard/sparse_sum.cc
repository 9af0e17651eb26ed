#include "server/shard/sparse_sum.h"

#include "common/tables/squared_norm.h"

namespace muster {
namespace {

// Keys whose line of the index is asked for before the first of them is looked up.
constexpr size_t kAhead = 16;

}  // namespace

void SparseSum::Add(uint32_t slot, uint32_t chunk, SparseChunk gradients) {
  chunk_bytes_ += gradients.keys.size() * sizeof(uint64_t) + gradients.rows.size() * sizeof(float);
  chunks_.emplace(std::make_pair(slot, chunk), std::move(gradients));
}

void SparseSum::Finish() {
  size_t rows = 0;
  for (const auto& [slot_and_chunk, gradients] : chunks_) rows += gradients.keys.size();
  keys_.reserve(rows);
  sums_.reserve(rows);
  // The keys of one chunk are distinct.
  const bool may_repeat = chunks_.size() > 1;
  for (const auto& [slot_and_chunk, gradients] : chunks_) {
    const absl::Span<const uint64_t> keys = gradients.keys;
    float* from = gradients.rows.data();
    for (size_t k = 0; k < keys.size(); ++k, from += dim_) {
      if (may_repeat) {
        if (k + kAhead < keys.size()) index_.Prefetch(keys[k + kAhead]);
        const uint32_t number = index_.FindOrAdd(keys[k]);
        if (number < keys_.size()) {
          float* const to = sums_[number];
          for (uint32_t i = 0; i < dim_; ++i) to[i] += from[i];
          continue;
        }
      }
      keys_.push_back(keys[k]);
      sums_.push_back(from);
    }
  }
}

double SparseSum::SquaredNorm() const { return muster::SquaredNorm(sums(), dim_); }

void SparseSum::Clear() {
  keys_.clear();
  sums_.clear();
  index_.Clear();
  chunks_.clear();
  chunk_bytes_ = 0;
}

}  // namespace muster
