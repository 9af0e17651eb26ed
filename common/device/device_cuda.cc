// Devices by CUDA's runtime.
#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/device/cuda_error.h"
#include "common/device/device.h"
#include "common/device/stream_access.h"

namespace muster {
struct DeviceStream::State {
  cudaStream_t stream = nullptr;
  absl::Status status;
};

struct DeviceEvent::State {
  cudaEvent_t event = nullptr;
  bool recorded = false;
};

struct DeviceGraph::State {
  cudaGraphExec_t executable = nullptr;
};

absl::StatusOr<int> CountDevices() {
  int devices = 0;
  MUSTER_RETURN_IF_ERROR(CudaError(cudaGetDeviceCount(&devices), "no GPU: cudaGetDeviceCount"));
  return devices;
}

absl::StatusOr<DeviceProperties> DevicePropertiesOf(int index) {
  MUSTER_ASSIGN_OR_RETURN(const int devices, CountDevices());
  if (index < 0 || index >= devices) {
    return absl::UnavailableError(absl::StrCat("no GPU: device ", index, " of ", devices,
                                               "; choose one from 0 to ", devices - 1));
  }
  cudaDeviceProp found;
  MUSTER_RETURN_IF_ERROR(CudaError(cudaGetDeviceProperties(&found, index),
                                   absl::StrCat("properties of device ", index)));
  DeviceProperties properties;
  properties.name = found.name;
  properties.compute_major = found.major;
  properties.compute_minor = found.minor;
  properties.multiprocessors = found.multiProcessorCount;
  properties.memory_bytes = found.totalGlobalMem;
  properties.shared_memory_per_block_optin = found.sharedMemPerBlockOptin;
  if (found.major < 8) {
    return absl::UnavailableError(absl::StrCat("no GPU: device ", index, ", ", properties.name,
                                               ", has compute capability ", found.major, ".",
                                               found.minor, "; 8.0 is the least"));
  }
  return properties;
}

absl::StatusOr<DeviceProperties> OpenDevice(int index) {
  MUSTER_ASSIGN_OR_RETURN(DeviceProperties properties, DevicePropertiesOf(index));
  MUSTER_RETURN_IF_ERROR(CudaError(cudaSetDevice(index), absl::StrCat("cudaSetDevice ", index)));
  return properties;
}

DeviceStream::DeviceStream(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceStream::~DeviceStream() {
  cudaStreamSynchronize(state_->stream);
  cudaStreamDestroy(state_->stream);
}

absl::StatusOr<std::unique_ptr<DeviceStream>> DeviceStream::Create() {
  auto state = std::make_unique<State>();
  MUSTER_RETURN_IF_ERROR(CudaError(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking),
                                   "creating a stream"));
  return std::unique_ptr<DeviceStream>(new DeviceStream(std::move(state)));
}

void DeviceStream::CopyToDevice(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || !AcceptsWork(*this)) return;
  Fail(CudaError(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, state_->stream),
                 absl::StrCat("copy of ", bytes, " bytes to the device")));
}

void DeviceStream::CopyToHost(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || !AcceptsWork(*this)) return;
  Fail(CudaError(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, state_->stream),
                 absl::StrCat("copy of ", bytes, " bytes to the host")));
}

void DeviceStream::CopyOnDevice(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || !AcceptsWork(*this)) return;
  Fail(CudaError(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, state_->stream),
                 absl::StrCat("copy of ", bytes, " bytes on the device")));
}

void DeviceStream::Fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0 || !AcceptsWork(*this)) return;
  Fail(CudaError(cudaMemsetAsync(to, value, bytes, state_->stream),
                 absl::StrCat("fill of ", bytes, " bytes")));
}

void DeviceStream::Record(DeviceEvent& event) {
  if (!AcceptsWork(*this)) return;
  Fail(CudaError(cudaEventRecord(event.state().event, state_->stream), "recording an event"));
  event.state().recorded = true;
}

void DeviceStream::Wait(const DeviceEvent& event) {
  if (!AcceptsWork(*this) || !event.state().recorded) return;
  Fail(CudaError(cudaStreamWaitEvent(state_->stream, event.state().event, 0),
                 "waiting for an event"));
}

absl::Status DeviceStream::Synchronize() {
  Fail(CudaError(cudaStreamSynchronize(state_->stream), "waiting for a stream"));
  return state_->status;
}

absl::Status DeviceStream::status() const {
  if (!state_->status.ok()) return state_->status;
  // The result is of kernels that have run; those still queued answer "not ready".
  const cudaError_t result = cudaStreamQuery(state_->stream);
  return result == cudaErrorNotReady ? absl::OkStatus() : CudaError(result, "a stream's work");
}

void DeviceStream::Fail(absl::Status status) {
  if (state_->status.ok()) state_->status = std::move(status);
}

void* DeviceStream::native() const { return state_->stream; }

bool AcceptsWork(const DeviceStream& stream) { return stream.state().status.ok(); }

void* NativeStream(const DeviceStream& stream) { return stream.native(); }

void NoteLaunch(DeviceStream& stream, int cuda_error, const char* kernel) {
  if (cuda_error == cudaSuccess) return;
  stream.Fail(CudaError(static_cast<cudaError_t>(cuda_error), absl::StrCat("launch of ", kernel)));
}

DeviceEvent::DeviceEvent(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceEvent::~DeviceEvent() { cudaEventDestroy(state_->event); }

absl::StatusOr<std::unique_ptr<DeviceEvent>> DeviceEvent::Create() {
  auto state = std::make_unique<State>();
  MUSTER_RETURN_IF_ERROR(CudaError(cudaEventCreate(&state->event), "creating an event"));
  return std::unique_ptr<DeviceEvent>(new DeviceEvent(std::move(state)));
}

absl::Status DeviceEvent::Synchronize() {
  if (!state_->recorded) return absl::OkStatus();
  return CudaError(cudaEventSynchronize(state_->event), "waiting for an event");
}

absl::StatusOr<double> DeviceEvent::MillisecondsSince(DeviceEvent& start) {
  if (!state_->recorded || !start.state_->recorded) {
    return absl::FailedPreconditionError(
        "time between two events: one of them was never recorded; record both first");
  }
  MUSTER_RETURN_IF_ERROR(start.Synchronize());
  MUSTER_RETURN_IF_ERROR(Synchronize());
  float milliseconds = 0;
  MUSTER_RETURN_IF_ERROR(
      CudaError(cudaEventElapsedTime(&milliseconds, start.state_->event, state_->event),
                "time between two events"));
  return milliseconds;
}

DeviceGraph::DeviceGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}

DeviceGraph::~DeviceGraph() {
  if (state_->executable != nullptr) cudaGraphExecDestroy(state_->executable);
}

absl::StatusOr<std::vector<std::unique_ptr<DeviceGraph>>> DeviceGraph::CaptureParts(
    DeviceStream& stream, absl::FunctionRef<absl::Status(Divide divide)> body) {
  MUSTER_RETURN_IF_ERROR(stream.status());
  const cudaStream_t native = stream.state().stream;
  std::vector<std::unique_ptr<DeviceGraph>> graphs;
  absl::Status failed;
  bool capturing = false;
  const auto begin = [&] {
    failed.Update(CudaError(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal),
                            "beginning a graph's capture"));
    capturing = failed.ok();
  };
  const auto end = [&] {
    if (!std::exchange(capturing, false)) return;
    cudaGraph_t captured = nullptr;
    // Capture ends in any case, or the stream could not be used again.
    const absl::Status ended =
        CudaError(cudaStreamEndCapture(native, &captured), "ending a graph's capture");
    // The executable graph does not need what it was made from.
    const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> owned(
        captured, &cudaGraphDestroy);
    failed.Update(stream.state().status);
    failed.Update(ended);
    if (!failed.ok()) return;
    auto graph = std::unique_ptr<DeviceGraph>(new DeviceGraph(std::make_unique<State>()));
    failed.Update(CudaError(cudaGraphInstantiate(&graph->state_->executable, captured, 0),
                            "making a graph executable"));
    graphs.push_back(std::move(graph));
  };
  begin();
  MUSTER_RETURN_IF_ERROR(failed);
  const absl::Status queued = body([&] {
    end();
    if (failed.ok()) begin();
  });
  end();
  MUSTER_RETURN_IF_ERROR(queued);
  MUSTER_RETURN_IF_ERROR(failed);
  return graphs;
}

void DeviceGraph::Launch(DeviceStream& stream) {
  if (!AcceptsWork(stream)) return;
  stream.Fail(
      CudaError(cudaGraphLaunch(state_->executable, stream.state().stream), "launching a graph"));
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(MemoryPlace place, size_t bytes) {
  if (bytes == 0) return DeviceBuffer();
  void* data = nullptr;
  const bool device = place == MemoryPlace::kDevice;
  MUSTER_RETURN_IF_ERROR(CudaError(
      device ? cudaMalloc(&data, bytes) : cudaHostAlloc(&data, bytes, cudaHostAllocDefault),
      absl::StrCat("allocation of ", bytes, device ? " bytes on the device" : " pinned bytes")));
  return DeviceBuffer(place, static_cast<std::byte*>(data), bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  if (place_ == MemoryPlace::kDevice) {
    cudaFree(data_);
  } else {
    cudaFreeHost(data_);
  }
}

absl::StatusOr<size_t> FreeDeviceMemory() {
  size_t free = 0, total = 0;
  MUSTER_RETURN_IF_ERROR(CudaError(cudaMemGetInfo(&free, &total), "asking for free memory"));
  return free;
}

}  // namespace muster
