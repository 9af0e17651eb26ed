#ifndef MUSTER_COMMON_BASE_MODEL_LIMITS_H_
#define MUSTER_COMMON_BASE_MODEL_LIMITS_H_

#include <cstdint>

namespace muster {

// Limits of a model's sizes, checked at submit and again when the model is made: a mistyped number
// is refused, not allocated, and sizes computed from these do not overflow.
inline constexpr uint64_t kMaxWidth = 1 << 16;
inline constexpr int kMaxHiddenLayers = 64;
inline constexpr uint64_t kMaxEmbeddingDim = 4096;
// Limits of an n-gram model.
inline constexpr uint32_t kMaxOrders = 32;
// Limits of a transformer.
inline constexpr uint64_t kMaxTransformerLayers = 1024;
inline constexpr uint64_t kMaxFeedForward = 1 << 18;
inline constexpr uint64_t kMaxHeadDim = 256;
inline constexpr uint64_t kMaxContext = 1 << 20;
inline constexpr uint64_t kMaxExperts = 1024;
// MoeSpec.bias_rate that is left out.
inline constexpr float kUsualBiasRate = 0.001f;
// Limit of a sequence's elements, context · width, each of which dropout has to number
// (common/kernels/transformer/dropout.h).
inline constexpr uint64_t kMaxDropoutElements = uint64_t{1} << 35;
inline constexpr uint64_t kMaxVocabulary = 1 << 24;
inline constexpr uint64_t kMaxVocabularyMultiple = 1 << 16;
// Limit of the factor of a loss: f16 has no numbers for gradients this much larger.
inline constexpr float kMaxLossScale = 1 << 24;

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MODEL_LIMITS_H_
