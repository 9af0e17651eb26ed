#ifndef MUSTER_WORKER_NN_TRANSFORMER_STREAM_BOUNDARY_H_
#define MUSTER_WORKER_NN_TRANSFORMER_STREAM_BOUNDARY_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "worker/nn/residual_stream.h"
#include "worker/nn/transformer/arrays/compute_context.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// The residual stream between two units of a transformer, and its gradient, as one array of the
// type of computation, [n, C]: what stages send. Within a stage the next norm adds a
// unit's branch to the stream; at a boundary the stage that sends does so, to the same bits in f32.
// 16-bit types round the stream once more. Arrays lie in the memory of the ops. Holds shapes only.
// Thread-safe.
class StreamBoundary {
 public:
  // The shape is the whole transformer's or a rank's own.
  explicit StreamBoundary(const TransformerShape& shape) : shape_(shape) {}

  size_t Bytes(const ComputeContext& context) const;

  // Writes what `unit` has returned. Overwrites out.branch, statistics of the head's norm and, in
  // 16-bit types, the stream's gradient.
  void ReadOutput(const ComputeContext& context, int unit, const ResidualStream& out,
                  const TransformerArrays& arrays, absl::Span<std::byte> to) const;
  // Makes the array what `unit` returns, for the unit after it.
  ResidualStream SetOutput(const ComputeContext& context, int unit,
                           absl::Span<const std::byte> from, const TransformerArrays& arrays) const;

  // Writes the gradient that backward of a unit has left for the unit before.
  void ReadGradient(const ComputeContext& context, const TransformerArrays& arrays,
                    absl::Span<std::byte> to) const;
  // Leaves the gradient where backward of `unit` reads it; `branch` is where it reads that of the
  // branch that the unit ends with.
  void SetGradient(const ComputeContext& context, int unit, absl::Span<const std::byte> from,
                   const TransformerArrays& arrays, void* branch) const;

 private:
  int64_t Elements(const ComputeContext& context) const {
    return context.own_rows() * shape_.width;
  }
  // Returns the dropout of the branch that `unit` ends with.
  OpDropout DropoutOfBranch(const ComputeContext& context, int unit) const;
  // Convert between f32 and the type of computation.
  void Narrow(const ComputeContext& context, const float* x, void* y) const;
  void Widen(const ComputeContext& context, const void* x, float* y) const;

  const TransformerShape shape_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_TRANSFORMER_STREAM_BOUNDARY_H_
