#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_CUDA_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <functional>

namespace muster {

// A stand-in for cudart and the kernels, for machines without a GPU: device memory is memory of the
// host, streams are threads that run what was queued in order, ranks are threads of this process.
// It defines the functions of cuda_runtime_api.h that the NCCL backend calls.

// Queues work of another stand-in; `run` may block.
void FakeEnqueue(cudaStream_t stream, std::function<void()> run);

// From now on the calling thread's calls that record an event fail as on a device whose memory is
// damaged.
void FakeDeviceFault();

// With false, every device is missing, as on a machine without a driver.
void FakeDevicePresent(bool present);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_CUDA_H_
