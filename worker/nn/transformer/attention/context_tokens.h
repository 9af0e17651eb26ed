#ifndef MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_CONTEXT_TOKENS_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_CONTEXT_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/nn/context_group.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"

namespace muster {

// A context rank's tokens of whole sequences (common/compute/context_ring.h), each with its label
// and its position, which is that of its document or else that of its sequence. Used by one thread.
class ContextTokens {
 public:
  // Takes the rank's of `rows` whole sequences. `positions` are rows.token_positions, or empty.
  // REQUIRES: twice the ranks divide rows.length.
  void Take(const ContextGroup& group, const TokenRows& rows, absl::Span<const int32_t> tokens,
            absl::Span<const int32_t> labels, absl::Span<const int32_t> positions);

  // Return those of the last call; spans until the next one.
  const TokenRows& rows() const { return rows_; }
  absl::Span<const int32_t> tokens() const { return tokens_; }
  absl::Span<const int32_t> labels() const { return labels_; }

 private:
  TokenRows rows_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> labels_;
  std::vector<int32_t> positions_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ATTENTION_CONTEXT_TOKENS_H_
