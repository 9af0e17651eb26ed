#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_TEST_LIB_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_TEST_LIB_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/tensor/dtype.h"
#include "common/tensor/float16.h"
#include "gtest/gtest.h"

namespace muster {

// What tests of device kernels share. The contract of Ops (common/compute) holds most kernels
// against those of common/kernels; the tests here hold the others, and what no operation shows. The
// same tests run on the emulation and, in tests/gpu, on a GPU.

inline float RoundedTo(DType type, float value) {
  switch (type) {
    case DType::kBf16:
      return F32OfBf16(Bf16OfF32(value));
    case DType::kF16:
      return F32OfF16(F16OfF32(value));
    default:
      return value;
  }
}

// Half a unit in the last place, relative.
inline double RoundingOf(DType type) {
  switch (type) {
    case DType::kBf16:
      return 1.0 / 256;
    case DType::kF16:
      return 1.0 / 2048;
    default:
      return 1.0 / (1 << 24);
  }
}

// Uniform in [low, high), rounded to the type.
inline std::vector<float> RandomNumbers(DType type, int64_t n, uint32_t seed, float low = -1,
                                        float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(n);
  for (float& value : values) value = RoundedTo(type, distribution(random));
  return values;
}

// |got - wanted| <= absolute + relative · |wanted| everywhere.
inline void ExpectClose(const std::vector<float>& got, const std::vector<float>& wanted,
                        double absolute, double relative, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
    ASSERT_TRUE(difference <= absolute + relative * std::abs(wanted[i]))
        << what << "[" << i << "]: " << got[i] << " for " << wanted[i];
  }
}

// Parameterised by the storage type.
class DeviceKernelTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const auto device = OpenDevice(0);
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *device;
    auto stream = DeviceStream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  DeviceStream& stream() { return *stream_; }
  DType type() const { return GetParam(); }
  const DeviceProperties& device() const { return device_; }

  // Memory of exactly so many bytes, all ones: NaN as a number.
  template <typename T = void>
  T* Room(size_t bytes) {
    auto buffer = DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    buffers_.push_back(*std::move(buffer));
    void* const data = buffers_.back().data();
    stream_->Fill(data, 0xff, bytes);
    return static_cast<T*>(data);
  }
  void* Room(DType type, int64_t n) { return Room(n * SizeOf(type)); }
  float* Floats(int64_t n) { return Room<float>(n * sizeof(float)); }

  // Of plain values, as they are.
  template <typename T>
  T* Copied(const std::vector<T>& values) {
    T* const data = Room<T>(values.size() * sizeof(T));
    stream_->CopyToDevice(data, values.data(), values.size() * sizeof(T));
    EXPECT_TRUE(stream_->Synchronize().ok());
    return data;
  }
  // Rounded to a type.
  void* Put(DType type, const std::vector<float>& values) {
    if (type == DType::kF32) return Copied(values);
    std::vector<uint16_t> bits;
    for (float value : values) {
      bits.push_back(type == DType::kBf16 ? Bf16OfF32(value) : F16OfF32(value));
    }
    return Copied(bits);
  }

  template <typename T>
  std::vector<T> Read(const T* data, int64_t n) {
    std::vector<T> values(n);
    stream_->CopyToHost(values.data(), data, n * sizeof(T));
    const absl::Status status = stream_->Synchronize();
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }
  std::vector<float> Get(DType type, const void* data, int64_t n) {
    if (type == DType::kF32) return Read(static_cast<const float*>(data), n);
    std::vector<float> values;
    for (uint16_t bits : Read(static_cast<const uint16_t*>(data), n)) {
      values.push_back(type == DType::kBf16 ? F32OfBf16(bits) : F32OfF16(bits));
    }
    return values;
  }

 private:
  DeviceProperties device_;
  // Before the stream, which does what is left of its work when it goes.
  std::vector<DeviceBuffer> buffers_;
  std::unique_ptr<DeviceStream> stream_;
};

#define MUSTER_FOR_STORAGE_TYPES(Suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Types, Suite, testing::Values(DType::kF32, DType::kBf16, DType::kF16), \
                           [](const auto& info) { return std::string(Name(info.param)); })

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_TEST_LIB_H_
