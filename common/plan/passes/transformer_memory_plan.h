#ifndef MUSTER_COMMON_PLAN_PASSES_TRANSFORMER_MEMORY_PLAN_H_
#define MUSTER_COMMON_PLAN_PASSES_TRANSFORMER_MEMORY_PLAN_H_

#include <cstdint>

#include "common/compute/activation_layout.h"
#include "common/plan/size/model_size.h"
#include "common/tensor/dtype.h"
#include "proto/job.pb.h"

namespace muster {

// Of whole sequences; at most 2^30, more than any machine holds, so that sums of bytes stay within
// 64 bits.
uint64_t TokensOf(const TransformerSize& size, uint64_t sequences);

// Returns a request for the arrays of a micro-batch of `sequences` whole sequences in all units, on
// the host, for training.
ActivationRequest ActivationRequestOf(const TransformerSize& size, uint64_t sequences,
                                      const v1::ComputeSpec& compute);

// What kernels keep beside them, at most: heads of attention packed, per thread; what products pack
// of f32 operands; and 16-bit operands made f32 by blocks, unless they are bf16 and the processors
// multiply that themselves.
uint64_t PlanTransformerScratch(const ModelSize& model, uint64_t sequences,
                                const v1::ComputeSpec& compute, bool multiply_bf16,
                                uint64_t threads);

// What packing the f32 products of `rows` examples or tokens leaves in the heap, in the mean.
uint64_t PlanPackedBytes(const ModelSize& model, uint64_t rows);

// What a job computes in: the type of activations, and of the matrices that products read.
DType ActivationType(const v1::ComputeSpec& compute);
// Whether that has 16 bits, so that matrices are copied.
bool ComputesInHalf(const v1::ComputeSpec& compute);

// What is computed again in backward; left out: nothing.
Recompute ResolveRecompute(const v1::ComputeSpec& compute);
ContextExchange ContextExchangeOf(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_PASSES_TRANSFORMER_MEMORY_PLAN_H_
