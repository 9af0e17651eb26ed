#include "common/kernels/device/device_attention.h"

#include <cmath>
#include <vector>

#include "common/kernels/device/device_test_lib.h"

namespace muster {
namespace {

struct Case {
  int64_t B, T, H, KV, D;
  // Elements between rows of qkv and of out.
  int64_t gap = 0;
  float scale = 0;
  float dropout = 0;
};

// One token; tails of tiles; shared key-value heads; every size of head that has its own kernel,
// and between; heads that cannot be read by chunks; dropout on each way.
const Case kCases[] = {{1, 1, 1, 1, 8},
                       {2, 17, 4, 2, 16},
                       {1, 64, 2, 2, 32},
                       {1, 130, 2, 1, 64},
                       {2, 65, 2, 1, 40, 8},
                       {1, 70, 3, 1, 80},
                       {1, 130, 1, 1, 96},
                       {1, 100, 2, 1, 128, 16},
                       {1, 70, 2, 1, 192},
                       {1, 130, 1, 1, 256},
                       {1, 33, 2, 1, 20},
                       {1, 17, 2, 2, 5, 3},
                       {1, 129, 2, 2, 24, 0, 1},
                       {1, 200, 6, 2, 64},
                       {2, 130, 4, 2, 64, 0, 0, 0.2f},
                       {1, 150, 2, 1, 96, 0, 0, 0.5f},
                       {1, 70, 1, 1, 192, 0, 0, 0.1f},
                       {1, 77, 2, 1, 20, 0, 0, 0.3f}};

class DeviceAttentionTest : public DeviceKernelTest {
 protected:
  void Check(const Case& c);
};

AttentionShape ShapeOf(const Case& c) {
  return {.B = c.B,
          .T = c.T,
          .H = c.H,
          .KV = c.KV,
          .D = c.D,
          .qkv_stride = (c.H + 2 * c.KV) * c.D + c.gap,
          .out_stride = c.H * c.D + c.gap,
          .scale = c.scale};
}

// ‖got - wanted‖ / ‖wanted‖ over what belongs to heads.
double ErrorOf(const std::vector<float>& got, const std::vector<float>& wanted, int64_t stride,
               int64_t begin, int64_t end) {
  double error = 0, norm = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % stride;
    if (column < begin || column >= end) continue;
    const double difference = static_cast<double>(got[i]) - wanted[i];
    error += difference * difference;
    norm += static_cast<double>(wanted[i]) * wanted[i];
  }
  return std::sqrt(error / norm);
}

void DeviceAttentionTest::Check(const Case& c) {
  SCOPED_TRACE(testing::Message() << "B " << c.B << " T " << c.T << " H " << c.H << " KV " << c.KV
                                  << " D " << c.D << " gap " << c.gap << " dropout " << c.dropout);
  const AttentionShape shape = ShapeOf(c);
  ASSERT_TRUE(DeviceAttentionTakes(shape));
  if (DeviceAttentionSharedBytes(shape, type()) > device().shared_memory_per_block_optin) return;
  const int64_t qkv_size = c.B * c.T * shape.qkv_stride, out_size = c.B * c.T * shape.out_stride;
  const std::vector<float> qkv = RandomNumbers(type(), qkv_size, 1, -2, 2);
  const std::vector<float> dout = RandomNumbers(type(), out_size, 2);
  std::vector<float> out(out_size), dqkv(qkv_size), logsumexp(c.B * c.H * c.T);
  // As after two examples of the step; by device memory.
  const DropoutClock clock = {.clock = 7, .first_example = 2};
  const DropoutMask mask(5, "probabilities", clock.clock, c.dropout);
  AttentionDropout dropout;
  DeviceDropout device_dropout;
  if (c.dropout > 0) {
    dropout = {.mask = &mask, .first_example = clock.first_example};
    device_dropout = DropoutOnDevice(mask, Copied(std::vector<DropoutClock>{clock}));
  }
  Attention<float>(shape, qkv.data(), out.data(), logsumexp.data(), dropout);
  AttentionBackward<float>(shape, qkv.data(), out.data(), logsumexp.data(), dout.data(),
                           dqkv.data(), dropout);

  void* const device_qkv = Put(type(), qkv);
  void* const device_out = Room(type(), out_size);
  float* const device_logsumexp = Floats(c.B * c.H * c.T);
  DeviceAttention(stream(), shape, type(), device_qkv, device_out, device_logsumexp,
                  device_dropout);
  const int64_t out_width = c.H * c.D;
  // Probabilities and outputs are rounded to the type once each.
  const double bound = type() == DType::kF32 ? 2e-6 : 1.5 * RoundingOf(type());
  const std::vector<float> got = Get(type(), device_out, out_size);
  EXPECT_LE(ErrorOf(got, out, shape.out_stride, 0, out_width), bound);
  ExpectClose(Read(device_logsumexp, c.B * c.H * c.T), logsumexp, 2e-5, 2e-6, "logsumexp");
  for (int64_t i = 0; i < out_size; ++i) {
    ASSERT_TRUE(i % shape.out_stride < out_width || std::isnan(got[i])) << "gap at " << i;
  }

  float* const scratch = Floats(DeviceAttentionBackwardScratch(c.B * c.T, c.H));
  void* const device_dqkv = Room(type(), qkv_size);
  DeviceAttentionBackward(stream(), shape, type(), device_qkv, device_out, device_logsumexp,
                          Put(type(), dout), device_dqkv, scratch, device_dropout);
  const std::vector<float> gradient = Get(type(), device_dqkv, qkv_size);
  // Also δ is made of a rounded output.
  const double backward_bound = type() == DType::kF32 ? 5e-6 : 3 * RoundingOf(type());
  const int64_t q_end = c.H * c.D, k_end = q_end + c.KV * c.D, v_end = k_end + c.KV * c.D;
  // With one token its only probability is 1: no gradient reaches query or key.
  if (c.T > 1) {
    EXPECT_LE(ErrorOf(gradient, dqkv, shape.qkv_stride, 0, q_end), backward_bound) << "dq";
    EXPECT_LE(ErrorOf(gradient, dqkv, shape.qkv_stride, q_end, k_end), backward_bound) << "dk";
  }
  EXPECT_LE(ErrorOf(gradient, dqkv, shape.qkv_stride, k_end, v_end), backward_bound) << "dv";
  for (int64_t i = 0; i < qkv_size; ++i) {
    ASSERT_EQ(std::isnan(gradient[i]), i % shape.qkv_stride >= v_end) << i;
  }

  void* const again = Room(type(), qkv_size);
  DeviceAttentionBackward(stream(), shape, type(), device_qkv, device_out, device_logsumexp,
                          Put(type(), dout), again, scratch, device_dropout);
  const size_t bytes = qkv_size * SizeOf(type());
  EXPECT_TRUE(Read(static_cast<const uint8_t*>(again), bytes) ==
              Read(static_cast<const uint8_t*>(device_dqkv), bytes))
      << "a second run gives other bits";
}

TEST_P(DeviceAttentionTest, MatchesTheCpu) {
  for (const Case& c : kCases) {
    Check(c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(DeviceAttentionTest, LogsumexpIsNotNeeded) {
  const AttentionShape shape = {.B = 1, .T = 20, .H = 2, .KV = 1, .D = 32};
  const int64_t size = 20 * 4 * 32;
  void* const qkv = Put(type(), RandomNumbers(type(), size, 1));
  void* const with = Room(type(), 20 * 64);
  void* const without = Room(type(), 20 * 64);
  DeviceAttention(stream(), shape, type(), qkv, with, Floats(40));
  DeviceAttention(stream(), shape, type(), qkv, without, nullptr);
  EXPECT_EQ(Get(type(), with, 20 * 64), Get(type(), without, 20 * 64));
}

TEST_P(DeviceAttentionTest, LargeScoresDoNotOverflow) {
  // Scores of some 40,000: all weight on the largest.
  const AttentionShape shape = {.B = 1, .T = 70, .H = 1, .KV = 1, .D = 32, .scale = 1};
  std::vector<float> qkv(70 * 96);
  for (int64_t t = 0; t < 70; ++t) {
    for (int64_t d = 0; d < 32; ++d) {
      qkv[t * 96 + d] = 50;
      qkv[t * 96 + 32 + d] = RoundedTo(type(), t == 3 ? 25 : -0.25f * static_cast<float>(t));
      qkv[t * 96 + 64 + d] = static_cast<float>(t);
    }
  }
  void* const out = Room(type(), 70 * 32);
  DeviceAttention(stream(), shape, type(), Put(type(), qkv), out, nullptr);
  const std::vector<float> got = Get(type(), out, 70 * 32);
  for (int64_t t = 0; t < 70; ++t) {
    for (int64_t d = 0; d < 32; ++d) ASSERT_EQ(got[t * 32 + d], t < 3 ? 0 : 3) << t;
  }
}

TEST_P(DeviceAttentionTest, ANanReachesTheRowsThatSeeIt) {
  const AttentionShape shape = {.B = 1, .T = 70, .H = 1, .KV = 1, .D = 32};
  std::vector<float> qkv = RandomNumbers(type(), 70 * 96, 1);
  qkv[40 * 96 + 33] = NAN;
  void* const out = Room(type(), 70 * 32);
  DeviceAttention(stream(), shape, type(), Put(type(), qkv), out, nullptr);
  const std::vector<float> got = Get(type(), out, 70 * 32);
  for (int64_t t = 0; t < 70; ++t) ASSERT_EQ(std::isnan(got[t * 32]), t >= 40) << t;
}

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
