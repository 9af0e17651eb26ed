#include "common/tables/row_sum.h"

#include <cstddef>

namespace muster {

void RowSum::Add(absl::Span<const uint64_t> keys, absl::Span<const float> rows) {
  const float* from = rows.data();
  for (uint64_t key : keys) {
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

void RowSum::Clear() {
  index_.Clear();
  keys_.clear();
  sums_.clear();
}

}  // namespace muster
