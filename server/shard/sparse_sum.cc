#include "server/shard/sparse_sum.h"

#include <utility>

#include "common/tables/squared_norm.h"

namespace muster {

void SparseSum::Add(uint32_t slot, uint32_t chunk, SparseChunk gradients) {
  chunk_bytes_ += gradients.keys.size() * sizeof(uint64_t) + gradients.rows.size() * sizeof(float);
  chunks_.emplace(std::make_pair(slot, chunk), std::move(gradients));
}

void SparseSum::Finish() {
  for (const auto& [slot_and_chunk, gradients] : chunks_) {
    sum_.Add(gradients.keys, gradients.rows);
  }
  chunks_.clear();
  chunk_bytes_ = 0;
}

double SparseSum::SquaredNorm() const { return muster::SquaredNorm(sum_.sums()); }

void SparseSum::Clear() {
  chunks_.clear();
  chunk_bytes_ = 0;
  sum_.Clear();
}

}  // namespace muster
