#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_MEMORY_FOR_TESTING_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_MEMORY_FOR_TESTING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/tensor/float16.h"

namespace muster {

using HostBytes = std::vector<std::byte>;

// Device memory whose first byte is `offset` bytes past an aligned address.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes, size_t offset = 0) : offset_(offset) {
    ok_ = cudaMalloc(&data_, bytes + offset + 1) == cudaSuccess;
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  bool ok() const { return ok_; }
  std::byte* data() const { return static_cast<std::byte*>(data_) + offset_; }

  // Copies, and waits until the bytes are there: the copy alone may return before, and it is on the
  // legacy stream, for which a group's stream does not wait.
  void Write(const HostBytes& from, size_t at = 0) {
    cudaMemcpy(data() + at, from.data(), from.size(), cudaMemcpyHostToDevice);
    cudaStreamSynchronize(cudaStreamLegacy);
  }
  HostBytes Read(size_t at, size_t bytes) const {
    HostBytes host(bytes);
    cudaMemcpy(host.data(), data() + at, bytes, cudaMemcpyDeviceToHost);
    return host;
  }

 private:
  const size_t offset_;
  void* data_ = nullptr;
  bool ok_ = false;
};

// Returns `values`, rounded to the type.
inline HostBytes Elements(DType dtype, const std::vector<double>& values) {
  HostBytes bytes(values.size() * SizeOf(dtype));
  std::byte* at = bytes.data();
  const auto put = [&at](auto value) {
    std::memcpy(at, &value, sizeof(value));
    at += sizeof(value);
  };
  for (double value : values) {
    switch (dtype) {
      case DType::kF32:
        put(static_cast<float>(value));
        break;
      case DType::kF64:
        put(value);
        break;
      case DType::kF16:
        put(F16OfF32(static_cast<float>(value)));
        break;
      case DType::kBf16:
        put(Bf16OfF32(static_cast<float>(value)));
        break;
      case DType::kInt32:
        put(static_cast<int32_t>(value));
        break;
      case DType::kInt64:
        put(static_cast<int64_t>(value));
        break;
      case DType::kUint8:
        put(static_cast<uint8_t>(static_cast<int64_t>(value)));
        break;
    }
  }
  return bytes;
}

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_MEMORY_FOR_TESTING_H_
