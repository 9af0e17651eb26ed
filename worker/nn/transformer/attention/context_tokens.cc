#include "worker/nn/transformer/attention/context_tokens.h"

#include "common/compute/context_ring.h"

namespace muster {

void ContextTokens::Take(const ContextGroup& group, const TokenRows& rows,
                         absl::Span<const int32_t> tokens, absl::Span<const int32_t> labels,
                         absl::Span<const int32_t> positions) {
  const int64_t T = rows.length;
  const int64_t chunk = T / (2 * group.size());
  const int64_t begins[] = {FirstOfChunk(group.size(), group.rank(), 0, chunk),
                            FirstOfChunk(group.size(), group.rank(), 1, chunk)};
  tokens_.clear();
  labels_.clear();
  positions_.clear();
  for (int64_t b = 0; b < rows.sequences; ++b) {
    for (const int64_t begin : begins) {
      for (int64_t t = begin; t < begin + chunk; ++t) {
        tokens_.push_back(tokens[b * T + t]);
        labels_.push_back(labels[b * T + t]);
        positions_.push_back(positions.empty() ? static_cast<int32_t>(t) : positions[b * T + t]);
      }
    }
  }
  rows_ = {.sequences = rows.sequences,
           .length = 2 * chunk,
           .share = {.whole = T, .half = chunk, .first = begins[0], .second = begins[1]},
           .token_positions = positions_.data(),
           .whole_positions = rows.token_positions};
}

}  // namespace muster
