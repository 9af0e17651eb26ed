#include "worker/device/weights/device_spaces.h"

#include "common/base/status_macros.h"
#include "common/kernels/device/device_arrays.h"
#include "common/partition/initial_values.h"
#include "worker/device/memory/await_device_memory.h"

namespace muster {

absl::StatusOr<std::unique_ptr<DeviceSpaces>> DeviceSpaces::Create(
    DeviceParameters parameters, const DeviceComputeOptions& options, const DeviceExtents& extents,
    DeviceStream& stream) {
  std::unique_ptr<DeviceSpaces> spaces(new DeviceSpaces(std::move(parameters), options.type));
  const size_t bytes = PlanDeviceState(extents, nullptr).bytes.total;
  MUSTER_ASSIGN_OR_RETURN(spaces->buffer_, AllocateDeviceMemory(bytes));
  stream.Fill(spaces->buffer_.data(), 0, bytes);
  const DeviceState& state = spaces->state_ = PlanDeviceState(extents, spaces->buffer_.data());
  if (extents.shard.has_value()) return spaces;
  const size_t tensors = spaces->places_.tensors().specs.size();
  for (int t = 0; t < static_cast<int>(tensors); ++t) {
    const uint64_t offset = spaces->places_.offset(t);
    const size_t elements = spaces->places_.elements_of(t);
    spaces->weights_.emplace_back(state.weights + offset, elements);
    spaces->gradients_.emplace_back(state.gradients + offset, elements);
    if (state.rounded == nullptr) continue;
    spaces->rounded_.push_back(static_cast<const std::byte*>(state.rounded) +
                               offset * SizeOf(options.type));
  }
  MUSTER_RETURN_IF_ERROR(stream.Synchronize());
  return spaces;
}

void DeviceSpaces::CopyWeights(DeviceStream& stream, int tensor, absl::Span<const float> values) {
  const uint64_t begin = places_.offset(tensor);
  stream.CopyToDevice(state_.weights + begin, values.data(), values.size() * sizeof(float));
  Round(stream, begin, values.size());
}

void DeviceSpaces::Round(DeviceStream& stream, uint64_t begin, uint64_t count) {
  if (state_.rounded == nullptr) return;
  DeviceConvert(stream, static_cast<int64_t>(count), DType::kF32, state_.weights + begin, type_,
                static_cast<std::byte*>(state_.rounded) + begin * SizeOf(type_));
}

void DeviceSpaces::ZeroGradients(DeviceStream& stream) {
  stream.Fill(state_.gradients, 0, places_.elements() * sizeof(float));
}

absl::Status DeviceSpaces::WriteInitialValues(DeviceStream& stream, uint64_t seed) {
  std::vector<float> values;
  const std::vector<TensorSpec>& specs = places_.tensors().specs;
  for (size_t t = 0; t < specs.size(); ++t) {
    if (!specs[t].tied_to.empty()) continue;
    values.resize(specs[t].elements());
    InitialValues(specs[t], seed, 0, absl::MakeSpan(values));
    CopyWeights(stream, static_cast<int>(t), values);
    // The next tensor's values take their place.
    MUSTER_RETURN_IF_ERROR(stream.Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace muster
