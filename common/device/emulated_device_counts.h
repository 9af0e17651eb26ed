#ifndef MUSTER_COMMON_DEVICE_EMULATED_DEVICE_COUNTS_H_
#define MUSTER_COMMON_DEVICE_EMULATED_DEVICE_COUNTS_H_

#include <cstdint>

namespace muster {

// What a thread asked of the emulated device: what costs a GPU's time and shows in no result. For
// tests, which link //common/device:device_emulated; only that defines it.
struct EmulatedDeviceCounts {
  // Graphs made, and launched.
  int64_t captures = 0;
  int64_t launches = 0;
  // Buffers, on the device or pinned.
  int64_t allocations = 0;
  // Calls in which the host waits: Synchronize, of a stream or an event, with work left before it,
  // and copies from or to host memory that is not pinned.
  int64_t synchronizations = 0;
};

// Of the calling thread, since it began.
EmulatedDeviceCounts CountsOfEmulatedDevice();

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_EMULATED_DEVICE_COUNTS_H_
