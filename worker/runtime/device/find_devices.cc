#include "worker/runtime/device/find_devices.h"

#include <string>

#include "common/base/status_macros.h"
#include "common/device/device.h"

namespace muster {

absl::StatusOr<FoundDevices> FindDevices() {
  FoundDevices found;
  absl::Status first;
  MUSTER_ASSIGN_OR_RETURN(const int devices, CountDevices());
  for (int index = 0; index < devices; ++index) {
    const absl::StatusOr<DeviceProperties> device = DevicePropertiesOf(index);
    if (device.ok()) {
      found.devices.push_back({.name = device->name,
                               .memory_bytes = device->memory_bytes,
                               .number = static_cast<uint32_t>(index)});
    } else {
      first.Update(device.status());
      found.left_out.emplace_back(device.status().message());
    }
  }
  if (found.devices.empty()) MUSTER_RETURN_IF_ERROR(first);
  return found;
}

}  // namespace muster
