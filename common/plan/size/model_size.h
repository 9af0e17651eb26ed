#ifndef MUSTER_COMMON_PLAN_SIZE_MODEL_SIZE_H_
#define MUSTER_COMMON_PLAN_SIZE_MODEL_SIZE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/compute/expert_extents.h"
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
  // Columns of queries and keys, if these are normalised, and those over which queries are
  // together; otherwise 0.
  uint64_t P = 0;
  uint64_t normed = 0;
  // Rows of the embedding, padding included.
  uint64_t V = 0;
  uint64_t T = 0;
  // Tokens that one attends to, its own included; 0: all before it.
  uint64_t window = 0;
  // Layers without a window, in order.
  std::vector<uint32_t> whole_layers;
  // The number of ranks that divide the layers, and whether they divide tokens, too.
  uint64_t tensor_ranks = 1;
  bool divides_tokens = false;
  // The number of ranks that share out sequences, of which T is then a rank's, and how.
  uint64_t context_ranks = 1;
  uint64_t expert_ranks = 1;
  // Data ranks that count choices of experts together.
  uint64_t counting_ranks = 1;
  ContextExchange context_exchange = ContextExchange::kRing;
  ExpertExtents experts;
  // r of adapters; 0: there are none.
  uint64_t adapter_rank = 0;

  uint64_t head_dim() const { return A / heads; }
  // Columns of a token in the products of a block's feed-forward layer, of all experts that it goes
  // to: those before activation functions, with the scores of routers, and those behind.
  uint64_t UpColumns(uint64_t layer) const {
    if (!experts.IsExpertBlock(layer)) return U;
    return experts.E + experts.k * experts.U + experts.shared_U + (experts.shared_gate ? 1 : 0);
  }
  uint64_t DownColumns(uint64_t layer) const {
    return experts.IsExpertBlock(layer) ? experts.k * experts.F + experts.shared_F : F;
  }
  // Returns twice the mean number of keys that a token attends to in a layer where those that see
  // one another are so many in a row.
  double Attended(uint64_t layer, double tokens) const {
    const bool whole = std::binary_search(whole_layers.begin(), whole_layers.end(), layer);
    const auto W = static_cast<double>(window);
    return whole || window == 0 || W >= tokens ? tokens : 2 * W - W * W / tokens;
  }
  // Tokens of a whole sequence.
  uint64_t context() const { return T * context_ranks; }
};

// What the model's size takes for granted of the data's tokens, a clause for people; empty:
// nothing.
std::string VocabularyAssumption(const v1::JobSpec& spec, const DataSize& data);

// The extents of the layers of experts that a specification has.
ExpertExtents ExpertsOf(const v1::TransformerSpec& spec);

TransformerSize SizeOfTransformer(const v1::TransformerSpec& spec, const DataSize& data);

// One matrix product of the forward pass, x [rows, in] by w [out, in]; backward has two more.
struct ProductSize {
  uint64_t in = 0;
  uint64_t out = 0;
  // w's position among the model's tensors.
  size_t tensor = 0;
  // The number of experts whose matrices w is, one after another, and how many of these a token
  // goes to.
  uint64_t experts = 1;
  uint64_t chosen = 1;

  // Rows of w that are one expert's.
  uint64_t out_of_each() const { return out / experts; }
  // Multiplications for a row of x.
  uint64_t multiplied() const { return in * out_of_each() * chosen; }
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

  // Dense parameters, and those that are trained; tied ones count once.
  uint64_t dense() const;
  uint64_t trained() const;
  uint64_t row_dim() const { return sparse.empty() ? 0 : sparse[0].dim; }
};

// REQUIRES: a valid specification.
ModelSize SizeOfModel(const v1::JobSpec& spec, const DataSize& data);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_SIZE_MODEL_SIZE_H_
