#include "server/shard/sparse_sum.h"

#include <utility>

#include "server/shard/squared_norm.h"

namespace muster {

void SparseSum::Add(uint32_t slot, uint32_t chunk, SparseChunk gradients) {
  chunk_bytes_ += gradients.keys.size() * sizeof(uint64_t) + gradients.rows.size() * sizeof(float);
  chunks_.emplace(std::make_pair(slot, chunk), std::move(gradients));
}

void SparseSum::Finish() {
  for (const auto& [slot_and_chunk, gradients] : chunks_) {
    const float* from = gradients.rows.data();
    for (uint64_t key : gradients.keys) {
      const uint32_t number = index_.FindOrAdd(key);
      if (number == keys_.size()) {
        keys_.push_back(key);
        sums_.insert(sums_.end(), from, from + dim_);
      } else {
        float* to = &sums_[size_t{number} * dim_];
        for (uint32_t i = 0; i < dim_; ++i) to[i] += from[i];
      }
      from += dim_;
    }
  }
  chunks_.clear();
  chunk_bytes_ = 0;
}

double SparseSum::SquaredNorm() const { return muster::SquaredNorm(sums_); }

void SparseSum::Clear() {
  chunks_.clear();
  chunk_bytes_ = 0;
  index_.Clear();
  keys_.clear();
  sums_.clear();
}

}  // namespace muster
