#include "worker/device/memory/device_parameters.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/tensor/dtype.h"

namespace muster {
namespace {

// Blocks are of no use here but to say where units and groups end.
constexpr uint64_t kBlockBytes = uint64_t{1} << 42;

}  // namespace

absl::StatusOr<DeviceParameters> DeviceParameters::Create(const TransformerShape& shape,
                                                          absl::Span<const TensorSpec> shares) {
  TransformerTensors tensors = MakeTransformerTensors(shape);
  if (!shares.empty()) tensors.specs.assign(shares.begin(), shares.end());
  // The spaces are of f32, in one order whatever the type of computation.
  for (TensorSpec& tensor : tensors.specs) tensor.compute = DType::kF32;
  std::vector<TensorSpec> padded = PaddedTensors(tensors.specs);
  MUSTER_ASSIGN_OR_RETURN(
      DenseLayout layout,
      DenseLayout::Create(padded, {.block_bytes = kBlockBytes, .partitions = 1}));
  return DeviceParameters(std::move(tensors), std::move(padded), std::move(layout));
}

}  // namespace muster
