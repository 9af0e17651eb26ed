#include "server/shard/tables/sparse_sum.h"

#include "common/tables/squared_norm.h"

namespace muster {
namespace {

// Keys whose line of the index is asked for before the first of them is looked up.
constexpr size_t kAhead = 16;

}  // namespace

void SparseSum::Add(uint32_t slot, uint32_t chunk, SparseChunk gradients) {
  chunk_bytes_ += gradients.bytes;
  chunks_.emplace(std::make_pair(slot, chunk), std::move(gradients));
}

void SparseSum::Finish() {
  size_t rows = 0;
  for (const auto& [slot_and_chunk, gradients] : chunks_) rows += gradients.keys.size();
  keys_.reserve(rows);
  sums_.reserve(rows);
  for (const auto& [slot_and_chunk, gradients] : chunks_) {
    const absl::Span<const uint64_t> keys = gradients.keys;
    for (size_t k = 0; k < keys.size(); ++k) {
      if (k + kAhead < keys.size()) index_.Prefetch(keys[k + kAhead]);
      const uint32_t number = index_.FindOrAdd(keys[k]);
      if (number < keys_.size()) {
        AddTo(number, gradients.rows[k]);
        continue;
      }
      keys_.push_back(keys[k]);
      sums_.push_back(gradients.rows[k]);
    }
  }
}

void SparseSum::AddTo(uint32_t number, const float* row) {
  if (number >= made_.size()) made_.resize(keys_.size());
  if (float* const sum = made_[number]; sum != nullptr) {
    for (uint32_t i = 0; i < dim_; ++i) sum[i] += row[i];
    return;
  }
  const size_t place = made_count_++ % kMadeInBlock;
  if (place == 0) made_blocks_.push_back(pool_->Take(kMadeInBlock * dim_));
  float* const sum = made_blocks_.back().get() + place * dim_;
  const float* const first = sums_[number];
  for (uint32_t i = 0; i < dim_; ++i) sum[i] = first[i] + row[i];
  made_[number] = sum;
  sums_[number] = sum;
}

double SparseSum::SquaredNorm() const { return muster::SquaredNorm(sums(), dim_); }

void SparseSum::Clear() {
  keys_.clear();
  sums_.clear();
  index_.Clear();
  made_.clear();
  made_count_ = 0;
  made_blocks_.clear();
  chunks_.clear();
  chunk_bytes_ = 0;
}

}  // namespace muster
