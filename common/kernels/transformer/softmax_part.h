#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_SOFTMAX_PART_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_SOFTMAX_PART_H_

namespace muster {

// What some columns of a row of logits contribute to its softmax cross entropy: all that ranks
// which divide the vocabulary tell one another of a token. Without columns: {-∞, 0, -∞, 0}.
struct SoftmaxPart {
  float largest;
  // The sum of e^(x - largest), negative if the label is the first column that has `largest`.
  float sum;
  // The label's logit; -∞ if the label is not among the columns.
  float label;
  // The sum of x, with label smoothing; otherwise 0.
  float logits;
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_SOFTMAX_PART_H_
