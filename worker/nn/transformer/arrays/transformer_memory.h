#ifndef MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_MEMORY_H_
#define MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "common/compute/activation_layout.h"
#include "common/tensor/dtype.h"
#include "worker/nn/activation_arena.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// Returns a request for the arrays of a transformer of this shape, on the host, of no tokens yet.
ActivationRequest ActivationRequestOf(const TransformerShape& shape, DType type,
                                      Recompute recompute);

// The arrays of one micro-batch in host memory: one arena, laid out for the micro-batch's size,
// sized once and used again. Not thread-safe.
class TransformerMemory {
 public:
  // `type`: T of transformer_activations.h.
  TransformerMemory(const TransformerShape& shape, DType type, Recompute recompute)
      : layers_(shape.layers), request_(ActivationRequestOf(shape, type, recompute)) {}

  // Lays out for the context's rows, pass and way of backward, and the units that run; nothing
  // happens where it is laid out so already.
  void Prepare(const ComputeContext& context, const UnitRange& units = {});

  // Return the arrays of the present layout, and their bytes.
  const TransformerArrays& arrays() const { return arrays_; }
  size_t bytes() const { return arena_.used(); }

 private:
  const int64_t layers_;
  // What the present layout is for.
  ActivationRequest request_;
  UnitRange units_;
  ActivationArena arena_;
  TransformerArrays arrays_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_ARRAYS_TRANSFORMER_MEMORY_H_
