#include "worker/device/memory/await_device_memory.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/device/device_fault.h"

namespace muster {
namespace {

// Between two looks.
constexpr absl::Duration kLook = absl::Milliseconds(250);

std::string MiB(size_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

}  // namespace

absl::Status AwaitDeviceMemory(const DeviceMemoryNeed& need,
                               absl::FunctionRef<absl::StatusOr<size_t>()> free_memory,
                               const WaitFunction& wait) {
  const std::string needs =
      absl::StrCat("training needs ", MiB(need.needed),
                   " of device memory, graphs and libraries included (", need.parts, "); ");
  if (need.needed + need.own > need.total) {
    return absl::ResourceExhaustedError(
        absl::StrCat(needs, "the device has ", MiB(need.total), ", of which this task's CUDA ",
                     "context and NCCL take up to ", MiB(need.own),
                     "; use smaller micro-batches or recomputation"));
  }
  absl::Duration waited;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const size_t free, free_memory());
    if (need.needed <= free) return absl::OkStatus();
    if (wait == nullptr || waited >= kDeviceMemoryPatience || !wait(kLook)) {
      return DeviceFaultError(absl::StrCat(
          needs, MiB(free), " of ", MiB(need.total), " are free; this task itself keeps up to ",
          MiB(need.own), ", others the rest; look at what else runs on the device"));
    }
    waited += kLook;
  }
}

absl::StatusOr<DeviceBuffer> AllocateDeviceMemory(size_t bytes) {
  absl::StatusOr<DeviceBuffer> memory = DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes);
  if (absl::IsResourceExhausted(memory.status())) {
    return DeviceFaultError(memory.status().message());
  }
  return memory;
}

}  // namespace muster
