#ifndef MUSTER_COMMON_DEVICE_EMULATED_DEVICE_SETTINGS_H_
#define MUSTER_COMMON_DEVICE_EMULATED_DEVICE_SETTINGS_H_

#include <cstddef>
#include <vector>

namespace muster {

// What the emulated devices claim to be. For tests, which link //common/device:device_emulated;
// only that defines it.
struct EmulatedDeviceSettings {
  int devices = 2;
  // Numbers of those that fail at first sight.
  std::vector<int> failing;
  // As sm_80's. No kernel takes more, whatever is claimed.
  size_t shared_memory_per_block_optin = size_t{163} << 10;
};

// From now on, to the calling thread.
void SetEmulatedDevices(const EmulatedDeviceSettings& settings);

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_EMULATED_DEVICE_SETTINGS_H_
