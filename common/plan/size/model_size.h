#ifndef MUSTER_COMMON_PLAN_SIZE_MODEL_SIZE_H_
#define MUSTER_COMMON_PLAN_SIZE_MODEL_SIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/compute/transformer_activations.h"
#include "common/partition/tensor_spec.h"
#include "common/plan/size/data_size.h"
#include "common/step/unit_range.h"

namespace muster {

namespace v1 {
class JobSpec;
class TransformerSpec;
}  // namespace v1

// A transformer's extents, or those of what one rank computes (rank_size.h), defaults filled
// in; letters as in common/compute/transformer_activations.h.
struct TransformerSize {
  // Of the whole model.
  uint64_t layers = 0;
  uint64_t C = 0;
  // Columns of all heads together.
  uint64_t A = 0;
  uint64_t heads = 0;
  uint64_t kv_heads = 0;
  // Columns of queries, keys and values; of the first and the second feed-forward matrix.
  uint64_t Q = 0;
  uint64_t U = 0;
  uint64_t F = 0;
  // Rows of the embedding, padding included.
  uint64_t V = 0;
  uint64_t T = 0;
  // The number of ranks that divide the layers, and whether they divide tokens, too.
  uint64_t tensor_ranks = 1;
  bool divides_tokens = false;
  // The number of ranks that share out sequences, of which T is then a rank's, and how.
  uint64_t context_ranks = 1;
  ContextExchange context_exchange = ContextExchange::kRing;

  uint64_t head_dim() const { return A / heads; }
  // Tokens of a whole sequence.
  uint64_t context() const { return T * context_ranks; }
};

// What the model's size takes for granted of the data's tokens, a clause for people; empty:
// nothing.
std::string VocabularyAssumption(const v1::JobSpec& spec, const DataSize& data);

TransformerSize SizeOfTransformer(const v1::TransformerSpec& spec, const DataSize& data);

// One matrix product of the forward pass, x [rows, in] by w [out, in]; backward has two more.
struct ProductSize {
  uint64_t in = 0;
  uint64_t out = 0;
  // w's position among the model's tensors.
  size_t tensor = 0;
};

// The parts of a model, or of a rank's share of one: the tensors and tables of its Describe, and
// what is multiplied.
struct ModelSize {
  // The groups of units that are computed as a whole: one of all units, or those of a stage.
  std::vector<UnitRange> chunks;
  // Without initialisers.
  std::vector<TensorSpec> tensors;
  std::vector<SparseTableSpec> sparse;
  // Sparse look-ups of an example, and the distinct keys that there may be.
  uint64_t lookups = 0;
  uint64_t rows = 0;
  // Of an example, or of a token of a sequence.
  std::vector<ProductSize> products;
  std::optional<TransformerSize> transformer;

  // Dense parameters; tied ones count once.
  uint64_t dense() const;
  uint64_t row_dim() const { return sparse.empty() ? 0 : sparse[0].dim; }
};

// REQUIRES: a valid specification.
ModelSize SizeOfModel(const v1::JobSpec& spec, const DataSize& data);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_SIZE_MODEL_SIZE_H_
