#ifndef MUSTER_WORKER_DEVICE_PASSES_DEVICE_BACKEND_H_
#define MUSTER_WORKER_DEVICE_PASSES_DEVICE_BACKEND_H_

#include <cstdint>
#include <memory>

#include "worker/device/passes/device_passes.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"
#include "worker/nn/transformer/transformer_backend.h"

namespace muster {

// A device, for a transformer model. Calls of a pass of training become graphs: the last of
// backward queues what was put off, as everything else does that uses DevicePasses::stream().
// Micro-batches take the passes' activation stashes by turns, so there may be as many between
// forward and backward. Parameters and gradients lie in device memory, and never move. Load refuses
// a micro-batch with split_backward, or of units, for which the passes have no memory. Used by one
// thread.
class DeviceBackend final : public TransformerBackend {
 public:
  // `passes` is made for the same shape. `context_group` are the ranks that share out sequences;
  // null: this rank alone. Both outlive this and what it makes.
  DeviceBackend(const TransformerShape& shape, DevicePasses& passes, ContextGroup* context_group)
      : shape_(shape), passes_(passes), context_group_(context_group) {}

  const float* rotary_table() const override { return passes_.memory().rotary; }
  int64_t most_examples() const override { return passes_.most_examples(); }
  bool on_device() const override { return true; }
  std::unique_ptr<TransformerMicroBatch> NewMicroBatch() const override;

 private:
  const TransformerShape shape_;
  DevicePasses& passes_;
  ContextGroup* const context_group_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_PASSES_DEVICE_BACKEND_H_
