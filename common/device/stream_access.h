#ifndef MUSTER_COMMON_DEVICE_STREAM_ACCESS_H_
#define MUSTER_COMMON_DEVICE_STREAM_ACCESS_H_

#include <functional>

namespace muster {

// What kernels' launchers need of a stream, without its header, which nvcc would read each time.
// Private to common/device and common/kernels/device.

class DeviceStream;

// False once the stream has failed: nothing is launched any more.
bool AcceptsWork(const DeviceStream& stream);

// CUDA only. The cudaStream_t, and what a launch's cudaGetLastError gave; `kernel` names it.
void* NativeStream(const DeviceStream& stream);
void NoteLaunch(DeviceStream& stream, int cuda_error, const char* kernel);

// Emulation only: queues what a kernel does.
void QueueEmulated(DeviceStream& stream, std::function<void()> work);

}  // namespace muster

#endif  // MUSTER_COMMON_DEVICE_STREAM_ACCESS_H_
