#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_LOSS_TERMS_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_LOSS_TERMS_H_

#include <cstdint>

#include "common/base/machine/simd_clones.h"
#include "common/kernels/host_device.h"

namespace muster {

// What a language model's loss has besides cross entropy with the labels. Of a row of logits x over
// V tokens, with the label l, L the logarithm of the sum of e^x and p the softmax:
//
//   loss   = L - (1 - smoothing) x[l] - each Σ x + z L²
//   dx[i]  = (1 + 2 z L) p[i] - each - (i == l) (1 - smoothing)
//
// Label smoothing: Szegedy et al. 2016, section 7; z-loss: Chowdhery et al. 2022 (PaLM), section 5.
struct LossTerms {
  // The part of the label's probability that all tokens share.
  float smoothing = 0;
  // Each token's share: smoothing / V.
  float each = 0;
  float z = 0;

  static LossTerms Of(float smoothing, float z, int64_t vocabulary) {
    return {smoothing, smoothing / static_cast<float>(vocabulary), z};
  }
};

// One row: what is known of it once its logits have been read. Logits of minus infinity have no
// loss with smoothing.
struct RowOfLogits {
  double log_sum = 0;  // of e^(x - largest)
  double largest = 0;
  double label = 0;  // the label's logit
  double sum = 0;    // of x; read with smoothing alone
};

MUSTER_HOST_DEVICE MUSTER_ALWAYS_INLINE double RowLoss(const LossTerms& terms,
                                                       const RowOfLogits& row) {
  double loss = row.log_sum - (row.label - row.largest);
  if (terms.smoothing != 0) loss += terms.smoothing * row.label - terms.each * row.sum;
  if (terms.z != 0) {
    const double log_of_all = row.log_sum + row.largest;
    loss += terms.z * log_of_all * log_of_all;
  }
  return loss;
}

// What a row's gradient is made of: factor · e^(x - largest), less at_label at the label and less
// `each` elsewhere. Without terms, all that is subtracted is the scale at the label.
struct RowGradient {
  float factor = 0;
  float each = 0;
  float at_label = 0;
};

// `exp_sum` is the sum of e^(x - largest); `log_of_all`, L, is read with z alone.
MUSTER_HOST_DEVICE MUSTER_ALWAYS_INLINE RowGradient RowGradientOf(const LossTerms& terms,
                                                                  float scale, double exp_sum,
                                                                  double log_of_all) {
  const double softmax_scale = terms.z != 0 ? scale * (1 + 2 * terms.z * log_of_all) : scale;
  const float each = scale * terms.each;
  return {static_cast<float>(softmax_scale / exp_sum), each, each + scale * (1 - terms.smoothing)};
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_LOSS_TERMS_H_
