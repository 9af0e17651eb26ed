#ifndef MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_KERNELS_H_
#define MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_KERNELS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "worker/collectives/collective_call.h"

namespace muster {

struct ReduceOp {
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  // kAvg: divisor of the sum, after the last addition. A partial average is a kSum.
  int divisor = 1;
  // True if outputs go past the caches (non-temporal stores), with the same bits. Pays if a
  // message's outputs exceed the L2 cache, are not inputs too, and are not read again soon by this
  // core.
  bool streaming = false;
};

// Computes out[i] = in[0][i] ⊕ in[1][i] ⊕ … strictly in this order, for i < count.
//
// Floating point is added in the type itself; f16 and bf16 in f32, rounded once to nearest even.
// Integers wrap (uint8 too), and kAvg divides the wrapped sum towards zero. kMin and kMax give a
// NaN if any input is one. Every instruction set gives the same bits, NaNs' payload apart.
//
// Pointers need no alignment. `out` may be one of the inputs exactly; otherwise it overlaps none.
// REQUIRES: at least one input; a single one is copied (and divided).
void ReduceInto(const ReduceOp& op, absl::Span<const void* const> inputs, size_t count, void* out);

// Writes the same result to each of `outs`, reading once. An output may be an input exactly.
void ReduceIntoAll(const ReduceOp& op, absl::Span<const void* const> inputs, size_t count,
                   absl::Span<void* const> outs);

// Returns the instruction set in use, such as "avx512".
const char* ReduceInstructionSet();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_REDUCE_REDUCE_KERNELS_H_
