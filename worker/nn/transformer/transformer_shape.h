#ifndef MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_SHAPE_H_
#define MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_SHAPE_H_

#include <algorithm>
#include <cstdint>

namespace muster {

// Everything that makes one decoder-only transformer differ from another, all defaults filled in.
// Blocks are pre-norm: x += attention(norm1(x)); x += feed_forward(norm2(x)). GPT-2 (Radford et
// al., "Language Models are Unsupervised Multitask Learners", 2019) is {kLayerNorm, kLearned,
// kGelu, tied, biases}; Llama (Touvron et al., 2023) is {kRmsNorm, kRotary, kSwiGlu}.
struct TransformerShape {
  enum class Norm { kLayerNorm, kRmsNorm };
  enum class Positions { kLearned, kRotary };
  // kGelu: the tanh form.
  enum class Activation { kGelu, kSwiGlu };

  int64_t layers = 0;
  int64_t width = 0;
  int64_t heads = 0;
  // Columns of a head; 0: width / heads.
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
  // The dropout after the embedding and at the end of each branch.
  float dropout = 0;
  // The dropout of attention's probabilities.
  float attention_dropout = 0;
  float rotary_base = 10000;
  float norm_epsilon = 1e-5f;

  int64_t head_dim() const { return head_columns > 0 ? head_columns : width / heads; }
  // Rows of the embedding and the head, and columns of the logits.
  int64_t vocabulary_rows() const { return std::max(vocabulary, padded_vocabulary); }
  // Columns of one token's queries, keys and values.
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  // Columns that the first matrix of the feed-forward part gives.
  int64_t up_width() const {
    return activation == Activation::kSwiGlu ? 2 * feed_forward : feed_forward;
  }
  // Layer units: the embedding, each block, the head.
  int units() const { return static_cast<int>(layers) + 2; }
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_TRANSFORMER_SHAPE_H_
