#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_SUMS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_SUMS_H_

namespace muster {

// Sums over rows of logits whose label is not -1. All are f64, in which counts are exact.
struct HeadSums {
  double loss = 0;  // in nats, with all terms (LossTerms)
  double tokens = 0;
  // Rows whose largest logit is the label's, the first among equals.
  double correct = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_HEAD_SUMS_H_
