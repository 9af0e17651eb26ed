#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_VECTOR_KERNELS_TABLE_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_VECTOR_KERNELS_TABLE_H_

#include "common/kernels/transformer/activation_loops.h"
#include "common/kernels/transformer/array_loops.h"
#include "common/kernels/transformer/attention_backward_loops.h"
#include "common/kernels/transformer/attention_loops.h"
#include "common/kernels/transformer/cross_entropy_loops.h"
#include "common/kernels/transformer/dropout_loops.h"
#include "common/kernels/transformer/expert_loops.h"
#include "common/kernels/transformer/head_norm_loops.h"
#include "common/kernels/transformer/norm_loops.h"
#include "common/kernels/transformer/vector_kernels.h"

// The table of the loops as compiled where this is included: by vector_kernels_*.cc alone.

namespace muster {
namespace {

template <typename T>
constexpr TypedVectorKernels<T> kTypedLoops = {
    .narrow = ConvertLoop<float, T>,
    .widen = ConvertLoop<T, float>,
    .row_sums = RowSumsLoop<T>,
    .gelu = GeluLoop<T>,
    .gelu_backward = GeluBackwardLoop<T>,
    .swiglu = SwiGluLoop<T>,
    .swiglu_backward = SwiGluBackwardLoop<T>,
    .weighted_gelu = WeightedGeluLoop<T>,
    .weighted_gelu_backward = WeightedGeluBackwardLoop<T>,
    .weighted_swiglu = WeightedSwiGluLoop<T>,
    .weighted_swiglu_backward = WeightedSwiGluBackwardLoop<T>,
    .sum_of_rows = SumOfRowsLoop<T>,
    .scale_row = ScaleRowLoop<T>,
    .scale_row_backward = ScaleRowBackwardLoop<T>,
    .norm = NormLoop<T>,
    .norm_backward = NormBackwardLoop<T>,
    .head_norm = HeadNormLoop<T>,
    .head_norm_backward = HeadNormBackwardLoop<T>,
    .rotary = RotaryLoop<T>,
    .cross_entropy = CrossEntropyLoop<T>,
    .cross_entropy_of_parts = CrossEntropyOfPartsLoop<T>,
    .attention = AttentionLoop<T>,
    .attention_delta = AttentionDeltaLoop<T>,
    .attention_backward = AttentionBackwardLoop<T>,
};

constexpr VectorKernels LoopsOf(const char* name) {
  return {
      .name = name,
      .exp = ExpLoop,
      .add = AddLoop,
      .embed = EmbedLoop,
      .scale = ScaleLoop,
      .unscale = UnscaleLoop,
      .all_finite = AllFiniteLoop,
      .dropout_factors = DropoutFactorsLoop,
      .softmax_parts = SoftmaxPartsLoop,
      .cached_attention = CachedAttentionLoop,
      .f32 = kTypedLoops<float>,
      .bf16 = kTypedLoops<BFloat16>,
      .f16 = kTypedLoops<Float16>,
  };
}

}  // namespace
}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_VECTOR_KERNELS_TABLE_H_
