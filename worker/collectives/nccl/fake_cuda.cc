#include "worker/collectives/nccl/fake_cuda.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collectives/nccl/device_reduce.h"
#include "worker/collectives/reduce/reduce_kernels.h"

// CUDA's opaque types, filled in.
struct CUstream_st {
  CUstream_st() {
    thread = std::thread([this] { Run(); });
  }
  ~CUstream_st() {
    {
      absl::MutexLock lock(&mutex);
      stopping = true;
    }
    thread.join();
  }
  void Run() {
    const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return stopping || !queue.empty();
    };
    while (true) {
      std::function<void()> next;
      {
        absl::MutexLock lock(&mutex);
        mutex.Await(absl::Condition(&due));
        if (queue.empty()) return;
        next = queue.front();
      }
      next();
      absl::MutexLock lock(&mutex);
      queue.pop_front();
    }
  }

  absl::Mutex mutex;
  // The first one is running.
  std::deque<std::function<void()>> queue ABSL_GUARDED_BY(mutex);
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::thread thread;
};

struct CUevent_st {
  struct State {
    absl::Mutex mutex;
    uint64_t recorded ABSL_GUARDED_BY(mutex) = 0;
    uint64_t completed ABSL_GUARDED_BY(mutex) = 0;
  };
  // Shared with queued work, which outlives the event where that is destroyed early.
  std::shared_ptr<State> state = std::make_shared<State>();
};

namespace muster {
namespace {

std::atomic<bool> device_present{true};

thread_local bool device_faulty = false;

thread_local int current_device = 0;

// Bit d: device d.
std::atomic<uint64_t> contexts{0};

// Makes a context on the thread's device, as nearly every call does.
void MakeContext() {
  const uint64_t bit = uint64_t{1} << current_device;
  if ((contexts.load() & bit) == 0) contexts |= bit;
}

// Work that this thread has put on the legacy stream. It runs as late as CUDA may run it: when the
// thread waits for that stream, for which non-blocking streams do not wait.
thread_local std::vector<std::function<void()>> legacy_work;

void FinishLegacyWork() {
  for (const auto& work : legacy_work) work();
  legacy_work.clear();
}

absl::Mutex memory_mutex(absl::kConstInit);

// Start and length of what was allocated.
std::map<uintptr_t, size_t>& Memory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mutex) {
  static auto* const memory = new std::map<uintptr_t, size_t>();
  return *memory;
}

cudaError_t Allocate(void** data, size_t bytes) {
  // Memory is not zero, as on a device.
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xa5, bytes);
  absl::MutexLock lock(&memory_mutex);
  Memory()[reinterpret_cast<uintptr_t>(*data)] = bytes;
  return cudaSuccess;
}

cudaError_t Free(void* data) {
  if (data == nullptr) return cudaSuccess;
  FinishLegacyWork();
  {
    absl::MutexLock lock(&memory_mutex);
    Memory().erase(reinterpret_cast<uintptr_t>(data));
  }
  std::free(data);
  return cudaSuccess;
}

}  // namespace

void FakeEnqueue(cudaStream_t stream, std::function<void()> run) {
  absl::MutexLock lock(&stream->mutex);
  stream->queue.push_back(std::move(run));
}

void FakeDeviceFault() { device_faulty = true; }

void FakeDevicePresent(bool present) { device_present = present; }

std::vector<int> FakeTakeContexts() {
  const uint64_t taken = contexts.exchange(0);
  std::vector<int> devices;
  for (int device = 0; device < 64; ++device) {
    if ((taken >> device & 1) != 0) devices.push_back(device);
  }
  return devices;
}

cudaError_t ReduceRowsOnDevice(DType dtype, Reduction reduction, const void* rows, size_t stride,
                               int sources, size_t count, void* out, cudaStream_t stream) {
  // A device would fault.
  if (reinterpret_cast<uintptr_t>(rows) % SizeOf(dtype) != 0) std::abort();
  if (reinterpret_cast<uintptr_t>(out) % SizeOf(dtype) != 0) std::abort();
  FakeEnqueue(stream, [=] {
    std::vector<const void*> inputs;
    for (int s = 0; s < sources; ++s) {
      inputs.push_back(static_cast<const std::byte*>(rows) + s * stride * SizeOf(dtype));
    }
    ReduceOp op;
    op.dtype = dtype;
    op.reduction = reduction;
    op.divisor = reduction == Reduction::kAvg ? sources : 1;
    ReduceInto(op, inputs, count, out);
  });
  return cudaSuccess;
}

cudaError_t DivideOnDevice(DType dtype, void* data, size_t count, int divisor,
                           cudaStream_t stream) {
  if (reinterpret_cast<uintptr_t>(data) % SizeOf(dtype) != 0) std::abort();
  FakeEnqueue(stream, [=] {
    ReduceOp op;
    op.dtype = dtype;
    op.reduction = Reduction::kAvg;
    op.divisor = divisor;
    const void* const input = data;
    ReduceInto(op, {&input, 1}, count, data);
  });
  return cudaSuccess;
}

}  // namespace muster

using muster::FakeEnqueue;

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = muster::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!muster::device_present) return cudaErrorNoDevice;
  muster::current_device = device;
  muster::MakeContext();
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorNoDevice ? "cudaErrorNoDevice" : "an error";
}
const char* cudaGetErrorString(cudaError_t error) { return "of the stand-in for CUDA"; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  muster::MakeContext();
  *stream = new CUstream_st();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  muster::MakeContext();
  absl::MutexLock lock(&stream->mutex);
  return stream->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == cudaStreamLegacy) {
    muster::FinishLegacyWork();
    return cudaSuccess;
  }
  absl::MutexLock lock(&stream->mutex);
  const auto idle = [stream]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(stream->mutex) {
    return stream->queue.empty();
  };
  stream->mutex.Await(absl::Condition(&idle));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  muster::MakeContext();
  *event = new CUevent_st();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (muster::device_faulty) return cudaErrorECCUncorrectable;
  const auto state = event->state;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&state->mutex);
    number = ++state->recorded;
  }
  FakeEnqueue(stream, [state, number] {
    absl::MutexLock lock(&state->mutex);
    state->completed = number;
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  muster::MakeContext();
  absl::MutexLock lock(&event->state->mutex);
  return event->state->completed >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  const auto state = event->state;
  uint64_t number = 0;
  {
    absl::MutexLock lock(&state->mutex);
    number = state->recorded;
  }
  FakeEnqueue(stream, [state, number] {
    absl::MutexLock lock(&state->mutex);
    const auto reached = [&state, number]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
      return state->completed >= number;
    };
    state->mutex.Await(absl::Condition(&reached));
  });
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  muster::MakeContext();
  return muster::Allocate(data, bytes);
}
cudaError_t cudaFree(void* data) { return muster::Free(data); }
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  return muster::Allocate(data, bytes);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  FakeEnqueue(stream, [data] { muster::Free(data); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyHostToDevice) {
    // Only the copy out of the host's memory is over when this returns.
    const auto* const begin = static_cast<const std::byte*>(from);
    muster::legacy_work.push_back([to, staged = std::vector<std::byte>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
    return cudaSuccess;
  }
  muster::FinishLegacyWork();
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FakeEnqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  muster::legacy_work.push_back([=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  FakeEnqueue(stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  absl::MutexLock lock(&muster::memory_mutex);
  auto after = muster::Memory().upper_bound(address);
  attributes->type = cudaMemoryTypeUnregistered;
  if (after != muster::Memory().begin()) {
    --after;
    if (address <= after->first + after->second) attributes->type = cudaMemoryTypeDevice;
  }
  return cudaSuccess;
}

}  // extern "C"
