#ifndef MUSTER_COMMON_KERNELS_SOFTMAX_CROSS_ENTROPY_H_
#define MUSTER_COMMON_KERNELS_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>

namespace muster {

// Sums over a batch: divide by the number of examples for means.
struct LossSums {
  // In nats. NaN when a logit of any example is.
  double loss = 0;
  // Examples whose largest logit is the label's (the first among equals). One with a NaN logit is
  // not correct.
  int64_t correct = 0;
};

// Cross entropy of the softmax of logits [B, C] with labels [B], each in [0, C), and the gradient
// of the loss sum: dlogits[b, c] = softmax(logits[b])[c] - (c == labels[b]), [B, C]. dlogits may be
// logits. Stable: each row's maximum is subtracted before exp. Single-threaded, stateless,
// thread-safe.
LossSums SoftmaxCrossEntropy(int64_t B, int64_t C, const float* logits, const int32_t* labels,
                             float* dlogits);

// Writes softmax(logits[b])[c] to probabilities[b, c], [B, C], which may be logits: to the bits
// what SoftmaxCrossEntropy takes the labels from. Stable and thread-safe as that is.
void Softmax(int64_t B, int64_t C, const float* logits, float* probabilities);

// Logistic loss of logits [B] with labels [B], each 0 or 1; scores[b] = sigmoid(logits[b]),
// dlogits[b] = scores[b] - labels[b], the gradient of the loss sum. One of the two may be logits.
// Class 1 is predicted where the logit is positive. Stable for logits of any size.
LossSums LogisticCrossEntropy(int64_t B, const float* logits, const int32_t* labels, float* scores,
                              float* dlogits);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_SOFTMAX_CROSS_ENTROPY_H_
