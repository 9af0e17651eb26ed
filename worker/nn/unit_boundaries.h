#ifndef MUSTER_WORKER_NN_UNIT_BOUNDARIES_H_
#define MUSTER_WORKER_NN_UNIT_BOUNDARIES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"
#include "worker/nn/layer_context.h"

namespace muster {

class MicroBatch;

// The values that neighbouring units of a model hand each other, as data, so that the stages of a
// pipeline can send it: the output of a unit forward, and the gradient of that output backward.
// Where a stage ends with `unit`, the next one begins with `unit` + 1. Values are those of the
// largest type in which the units compute, so stages in f32 have the bits of the whole model.
// Thread-safe.
class UnitBoundaries {
 public:
  virtual ~UnitBoundaries() = default;

  // Returns the bytes of the output of `unit` over a batch. Its gradient has as many.
  virtual size_t Bytes(const LayerContext& context, int unit, const Batch& batch) const = 0;

  // Writes the output of `unit`, which has run forward. REQUIRES, here and below: the bytes are as
  // many as Bytes says of the batch that the micro-batch was loaded with.
  virtual absl::Status ReadOutput(const LayerContext& context, int unit, MicroBatch& micro_batch,
                                  absl::Span<std::byte> to) const = 0;
  // Takes the output of `unit`, which runs elsewhere, for forward of the next unit.
  virtual absl::Status SetOutput(const LayerContext& context, int unit,
                                 absl::Span<const std::byte> from,
                                 MicroBatch& micro_batch) const = 0;

  // Writes the gradient of the output of `unit`, which backward of the next unit has left.
  virtual absl::Status ReadGradient(const LayerContext& context, int unit, MicroBatch& micro_batch,
                                    absl::Span<std::byte> to) const = 0;
  // Takes the gradient of the output of `unit` for its backward.
  virtual absl::Status SetGradient(const LayerContext& context, int unit,
                                   absl::Span<const std::byte> from,
                                   MicroBatch& micro_batch) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_NN_UNIT_BOUNDARIES_H_
