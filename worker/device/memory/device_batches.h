#ifndef MUSTER_WORKER_DEVICE_MEMORY_DEVICE_BATCHES_H_
#define MUSTER_WORKER_DEVICE_MEMORY_DEVICE_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/device/device.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/plan/device/device_memory_layout.h"
#include "worker/nn/transformer/arrays/transformer_arrays.h"
#include "worker/nn/transformer/arrays/transformer_shape.h"

namespace muster {

// What the kernels of a micro-batch's passes read beside its tokens.
struct DeviceBatchRecord {
  DropoutClock clock;
  // LayerContext::loss_scale.
  float loss_scale = 1;
};

// The tokens of a micro-batch, or a context rank's share of them, on the host.
struct TokenArrays {
  // Positions are on the host, too; null: none.
  TokenRows rows;
  absl::Span<const int32_t> tokens;  // [N]
  absl::Span<const int32_t> labels;  // [N]
};

// Brings batches to the device by pinned memory: several places in turn, so that the host prepares
// one batch while the device has not come to those before it, and waits only when it is as many
// ahead. Used by one thread.
class DeviceBatches {
 public:
  // `most` is the largest micro-batch; `arrays` are some of those where it goes, all of which lie
  // alike.
  static absl::StatusOr<std::unique_ptr<DeviceBatches>> Create(const TransformerShape& shape,
                                                               const TokenRows& most,
                                                               const DeviceBatchArrays& arrays);

  // Takes a batch that fits the model, and returns its rows, without positions. InvalidArgument:
  // there are more sequences or tokens than in the largest micro-batch; says what.
  absl::StatusOr<TokenRows> Take(const TokenArrays& batch);

  // Queues the copy of the batch that was taken last. REQUIRES: at least one sequence; once a
  // batch.
  void Copy(DeviceStream& stream, const DeviceBatchRecord& record, const DeviceBatchArrays& to);

 private:
  struct Place {
    DeviceBuffer memory;
    // Reached when it has been copied.
    std::unique_ptr<DeviceEvent> copied;
  };

  DeviceBatches(const TransformerShape& shape, const TokenRows& most,
                const DeviceBatchArrays& arrays);

  std::byte* At(const Place& place, const void* array) const;

  const TokenRows most_;
  const DeviceBatchArrays arrays_;
  std::vector<Place> places_;
  // The place of the batch that was taken last.
  size_t taken_ = 0;
  const bool learned_positions_;
  // FillTokenOrder's, of tokens and of positions.
  std::vector<int32_t> token_counts_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DEVICE_MEMORY_DEVICE_BATCHES_H_
