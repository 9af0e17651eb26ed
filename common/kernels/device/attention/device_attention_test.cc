#include "common/kernels/device/attention/device_attention.h"

#include "common/kernels/device/device_test_lib.h"

namespace muster {
namespace {

class DeviceAttentionTest : public DeviceKernelTest {};

TEST_P(DeviceAttentionTest, TakesHeadsUpTo256) {
  EXPECT_TRUE(DeviceAttentionTakes({.D = 256}));
  EXPECT_FALSE(DeviceAttentionTakes({.D = 257}));
  EXPECT_FALSE(DeviceAttentionTakes({.D = 0}));
}

TEST_P(DeviceAttentionTest, SharedMemoryIsWhatGpusOffer) {
  const size_t least = size_t{99} << 10, most = size_t{163} << 10;
  const auto bytes = [&](int64_t D) {
    return DeviceAttentionSharedBytes({.B = 1, .T = 1, .H = 2, .KV = 1, .D = D}, type());
  };
  for (int64_t D = 1; D <= 256; ++D) EXPECT_LE(bytes(D), most) << D;
  for (int64_t D = 1; D <= 64; ++D) EXPECT_LE(bytes(D), least) << D;
  EXPECT_GT(bytes(256), least);
  if (type() == DType::kF32) {
    EXPECT_GT(bytes(128), least);
  } else {
    EXPECT_LE(bytes(128), least);
    // Not in chunks, so computed as f32 is.
    EXPECT_GT(bytes(127), least);
  }
}

MUSTER_FOR_STORAGE_TYPES(DeviceAttentionTest);

}  // namespace
}  // namespace muster
