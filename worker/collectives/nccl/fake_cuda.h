#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_CUDA_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace muster {

// A stand-in for cudart and the kernels, for machines without a GPU: device memory is memory of the
// host, streams are threads that run what was queued in order, ranks are threads of this process.
// It defines the functions of cuda_runtime_api.h that the NCCL backend and its tests call. Work on
// the legacy stream (cudaMemset, cudaMemcpy to the device) is done only when the thread waits for
// it, so that a test that forgets to wait finds its memory as it was.

// Queues work of another stand-in; `run` may block.
void FakeEnqueue(cudaStream_t stream, std::function<void()> run);

// Makes the calling thread's calls that record an event fail, as on a device with damaged memory.
void FakeDeviceFault();

// Makes every device present, or missing as on a machine without a driver.
void FakeDevicePresent(bool present);

// Returns the devices that got a context since the last time, by cudaSetDevice or by a call that
// uses the calling thread's device, which is 0 at first.
std::vector<int> FakeTakeContexts();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_FAKE_CUDA_H_
