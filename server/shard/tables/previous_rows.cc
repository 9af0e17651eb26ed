#include "server/shard/tables/previous_rows.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace muster {

void PreviousRows::Keep(const TieredTable& table, const TieredTable::Fetched& rows,
                        uint64_t completed) {
  index_.Clear();
  for (uint64_t key : rows.keys()) index_.FindOrAdd(key);
  weights_.resize(rows.keys().size() * table.dim());
  table.Read(rows, completed, absl::MakeSpan(weights_));
}

absl::Status PreviousRows::Pull(TieredTable& table, absl::Span<const uint64_t> keys,
                                uint64_t completed, absl::Span<float> out) const {
  MUSTER_RETURN_IF_ERROR(table.Pull(keys, completed, out));
  const size_t dim = table.dim();
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t number = index_.Find(keys[i]);
    if (number == KeyIndex::kMissing) continue;
    std::copy_n(&weights_[number * dim], dim, &out[i * dim]);
  }
  return absl::OkStatus();
}

}  // namespace muster
