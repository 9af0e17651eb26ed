#include "common/tables/row_sum.h"

#include <cstddef>
#include <vector>

namespace muster {
namespace {

// Keys whose line of the index is asked for before the first of them is looked up.
constexpr size_t kLinesAhead = 16;

// Room for so many elements more, in one step: growing by steps would leave as much again behind,
// in pieces that the next array is too large for.
template <typename T>
void MakeRoom(size_t more, std::vector<T>& values) {
  const size_t needed = values.size() + more;
  if (needed > values.capacity()) values.reserve(needed + needed / 8);
}

}  // namespace

void RowSum::Add(absl::Span<const uint64_t> keys, absl::Span<const float> rows) {
  MakeRoom(keys.size(), keys_);
  MakeRoom(keys.size() * dim_, sums_);
  const float* from = rows.data();
  for (size_t k = 0; k < keys.size(); ++k) {
    if (k + kLinesAhead < keys.size()) index_.Prefetch(keys[k + kLinesAhead]);
    const uint64_t key = keys[k];
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
