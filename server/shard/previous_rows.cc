#include "server/shard/previous_rows.h"

#include <algorithm>

namespace muster {

void PreviousRows::Keep(const SparseTable& table, absl::Span<const uint64_t> keys) {
  index_.Clear();
  for (uint64_t key : keys) index_.FindOrAdd(key);
  weights_.resize(keys.size() * table.dim());
  table.Pull(keys, absl::MakeSpan(weights_));
}

void PreviousRows::Pull(const SparseTable& table, absl::Span<const uint64_t> keys,
                        absl::Span<float> out) const {
  table.Pull(keys, out);
  const size_t dim = table.dim();
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t number = index_.Find(keys[i]);
    if (number == KeyIndex::kMissing) continue;
    std::copy_n(&weights_[number * dim], dim, &out[i * dim]);
  }
}

}  // namespace muster
