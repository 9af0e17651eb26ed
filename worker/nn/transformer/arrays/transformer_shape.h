#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_SHAPE_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_SHAPE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/compute/expert_extents.h"
#include "common/kernels/moe/expert_arrays.h"
#include "common/kernels/transformer/rotary_angles.h"
#include "worker/nn/transformer/arrays/adapter_shape.h"

namespace muster {

// Feed-forward layers may be made of experts (Shazeer et al., "Outrageously Large Neural Networks",
// 2017), whose routers are those of common/kernels/moe/expert_arrays.h. A shared expert is a dense
// layer beside them, whose result is added; with a gate, multiplied by the logistic function of a
// product of the token with weights of its own.
struct ExpertShape {
  int64_t experts = 0;  // E; 0: all layers are dense
  int64_t top_k = 0;
  int64_t width = 0;         // of one expert
  int64_t shared_width = 0;  // 0: there is no shared expert
  bool shared_gate = false;
  RouterShape::Scores scores = RouterShape::Scores::kSoftmax;
  bool normalize = false;
  float scaling = 1;
  int64_t groups = 1;
  int64_t top_groups = 1;
  // The auxiliary loss's coefficient, and whether shares of choices are those of a micro-batch
  // rather than of each sequence, and of all data ranks. 0: there is none.
  float auxiliary = 0;
  bool counts_together = false;
  bool counts_of_all_ranks = false;
  // An expert takes at most so many times the mean number of choices in training (ChoiceLimit); 0:
  // none is dropped.
  float capacity = 0;
  // The coefficient of the mean squared logsumexp of routers' logits.
  float z = 0;
  // The step of the biases by which experts are chosen, against their loads; 0: there are none.
  float bias_rate = 0;
  // Blocks with a dense layer, in order.
  std::vector<uint32_t> dense_layers;
};

// Everything that makes one decoder-only transformer differ from another, all defaults filled in.
// Blocks are pre-norm: x += attention(norm1(x)); x += feed_forward(norm2(x)). GPT-2 (Radford et
// al., "Language Models are Unsupervised Multitask Learners", 2019) is {kLayerNorm, kLearned,
// kGelu, tied, biases}; Llama (Touvron et al., 2023) is {kRmsNorm, kRotary, kSwiGlu}.
struct TransformerShape {
  enum class Norm { kLayerNorm, kRmsNorm };
  enum class Positions { kLearned, kRotary };
  // kGelu: the tanh form.
  enum class Activation { kGelu, kSwiGlu };
  // RMSNorms of queries and of keys, before positions are added: of each head by itself, with
  // weights that heads share (Qwen 3), or of all heads together (OLMoE).
  enum class QueryKeyNorm { kNone, kPerHead, kWholeWidth };

  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  // Columns of a head; 0: width / heads. Together heads need not be as wide as the model.
  int64_t head_columns = 0;
  // Each is read by heads / kv_heads query heads.
  int64_t kv_heads = 0;
  int64_t feed_forward = 0;
  int64_t vocabulary = 0;
  // Rows of the embedding and the head, where these are more than the vocabulary's: the others are
  // of no token. 0: there are none.
  int64_t padded_vocabulary = 0;
  // Tokens of a sequence at most.
  int64_t context = 0;
  Norm norm = Norm::kLayerNorm;
  Positions positions = Positions::kLearned;
  Activation activation = Activation::kGelu;
  // True if the head's weights are the embedding's.
  bool tied_head = true;
  bool biases = true;
  // True if queries, keys and values have biases even without others.
  bool attention_biases = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  // Tokens that one attends to, its own included; 0: all before it.
  int64_t window = 0;
  // Layers without a window, in order.
  std::vector<uint32_t> whole_layers;
  // The dropout after the embedding and at the end of each branch.
  float dropout = 0;
  // The dropout of attention's probabilities.
  float attention_dropout = 0;
  RotaryAngles rotary;
  float norm_epsilon = 1e-5f;
  // The loss in training has these, LossTerms: what all tokens share of the label's probability,
  // and the coefficient of the squared logarithm of the softmax's sum.
  float label_smoothing = 0;
  float logits_z = 0;
  ExpertShape experts;
  AdapterShape adapter;

  // Returns the window of a layer.
  int64_t WindowOf(int64_t layer) const {
    return std::binary_search(whole_layers.begin(), whole_layers.end(), layer) ? 0 : window;
  }
  int64_t head_dim() const { return head_columns > 0 ? head_columns : width / heads; }
  // Rows of the embedding and the head, and columns of the logits.
  int64_t vocabulary_rows() const { return std::max(vocabulary, padded_vocabulary); }
  // Columns of all query heads together, and so of attention's result.
  int64_t attention_width() const { return heads * head_dim(); }
  // Columns of one token's queries, keys and values.
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  // Columns of one token's queries and keys, if these are normalised; otherwise 0.
  int64_t normed_columns() const {
    return query_key_norm == QueryKeyNorm::kNone ? 0 : (heads + kv_heads) * head_dim();
  }
  // Heads that are normalised together, of so many of queries or of keys.
  int64_t HeadsOfNorm(int64_t all) const {
    if (query_key_norm == QueryKeyNorm::kNone) return 0;
    return query_key_norm == QueryKeyNorm::kPerHead ? 1 : all;
  }
  // Columns that the first matrix of a feed-forward part of so many gives.
  int64_t UpWidth(int64_t columns) const {
    return activation == Activation::kSwiGlu ? 2 * columns : columns;
  }
  int64_t up_width() const { return UpWidth(feed_forward); }
  ExpertExtents expert_extents() const {
    const auto extent = [](int64_t n) { return static_cast<uint64_t>(n); };
    return {.E = extent(experts.experts),
            .k = extent(experts.top_k),
            .F = extent(experts.width),
            .U = extent(UpWidth(experts.width)),
            .shared_F = extent(experts.shared_width),
            .shared_U = extent(UpWidth(experts.shared_width)),
            .shared_gate = experts.shared_gate,
            .counts = experts.auxiliary > 0 || experts.bias_rate > 0,
            .counts_together = experts.counts_together,
            .counts_of_all_ranks = experts.counts_of_all_ranks,
            .drops = experts.capacity > 0,
            .dense_layers = experts.dense_layers};
  }
  // Layer units: the embedding, each block, the head.
  int units() const { return static_cast<int>(layers) + 2; }
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_SHAPE_H_
