// Element-wise kernels: activation, dropout, rotary, conversion, scaling.
#include <cmath>
#include <vector>

#include "common/kernels/device/device_activation.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_dropout.h"
#include "common/kernels/device/device_rotary.h"
#include "common/kernels/device/device_test_lib.h"
#include "common/kernels/transformer/activation.h"

namespace muster {
namespace {

class DeviceElementsTest : public DeviceKernelTest {};

// Whole eights, and tails.
constexpr int64_t kSizes[] = {1, 7, 8, 130, 2049, 4096};

TEST_P(DeviceElementsTest, Gelu) {
  for (const int64_t n : kSizes) {
    std::vector<float> x = RandomNumbers(type(), n, 1, -6, 6);
    x[0] = RoundedTo(type(), -60);
    if (n > 2) x[1] = RoundedTo(type(), 60), x[2] = 0;
    const std::vector<float> dy = RandomNumbers(type(), n, 2);
    std::vector<float> y(n), dx(n);
    Gelu<float>(n, x.data(), y.data());
    GeluBackward<float>(n, x.data(), dy.data(), dx.data());
    void* const in = Put(type(), x);
    void* const out = Room(type(), n);
    DeviceGelu(stream(), type(), n, in, out);
    ExpectClose(Get(type(), out, n), y, 4e-6, RoundingOf(type()) + 1e-6, "gelu");
    void* const gradient = Put(type(), dy);
    DeviceGeluBackward(stream(), type(), n, in, gradient, gradient);
    ExpectClose(Get(type(), gradient, n), dx, 4e-6, RoundingOf(type()) + 1e-6, "its gradient");
  }
}

TEST_P(DeviceElementsTest, SwiGlu) {
  for (const auto& [rows, F] : {std::pair{1, 1}, {3, 8}, {5, 130}, {17, 264}}) {
    std::vector<float> gate_up = RandomNumbers(type(), rows * 2 * F, 1, -5, 5);
    gate_up[0] = RoundedTo(type(), -200);
    const std::vector<float> dy = RandomNumbers(type(), rows * F, 2);
    std::vector<float> y(rows * F), d_gate_up(rows * 2 * F);
    SwiGlu<float>(rows, F, gate_up.data(), y.data());
    SwiGluBackward<float>(rows, F, gate_up.data(), dy.data(), d_gate_up.data());
    void* const in = Put(type(), gate_up);
    void* const out = Room(type(), rows * F);
    DeviceSwiGlu(stream(), type(), rows, F, in, out);
    ExpectClose(Get(type(), out, rows * F), y, 4e-6, RoundingOf(type()) + 1e-6, "swiglu");
    DeviceSwiGluBackward(stream(), type(), rows, F, in, Put(type(), dy), in);
    ExpectClose(Get(type(), in, rows * 2 * F), d_gate_up, 1e-5, RoundingOf(type()) + 1e-6,
                "its gradient");
  }
}

TEST_P(DeviceElementsTest, DropoutDropsWhatTheCpuDrops) {
  for (const auto& [examples, size] : {std::pair{1, 3}, {3, 64}, {2, 1000}, {5, 37}}) {
    const DropoutMask mask(42, "block3.attention", (uint64_t{1} << 33) + 77, 0.3f);
    const DropoutShape shape = {
        .examples = examples, .size = size, .first_example = (uint64_t{5} << 32) + 9};
    const std::vector<float> x = RandomNumbers(type(), examples * size, 1);
    std::vector<float> y(examples * size);
    Dropout<float>(mask, shape, x.data(), y.data());
    for (float& value : y) value = RoundedTo(type(), value);
    const auto* clock = Copied(std::vector<DropoutClock>{{mask.clock, shape.first_example}});
    void* const out = Put(type(), x);
    DeviceDropoutForward(stream(), type(), DropoutOnDevice(mask, clock), examples, size, out, out);
    EXPECT_EQ(Get(type(), out, examples * size), y) << examples << " of " << size;
  }
}

TEST_P(DeviceElementsTest, Rotary) {
  const RotaryShape shapes[] = {
      {.rows = 1, .context = 1, .heads = 1, .head_dim = 2, .stride = 2},
      {.rows = 34, .context = 17, .first_position = 3, .heads = 3, .head_dim = 16, .stride = 64},
      {.rows = 10, .context = 5, .heads = 2, .head_dim = 64, .stride = 160},
      {.rows = 7, .context = 7, .heads = 2, .head_dim = 10, .stride = 23}};
  for (const RotaryShape& shape : shapes) {
    const int64_t positions = shape.first_position + shape.context;
    std::vector<float> table(positions * shape.head_dim);
    FillRotaryTable(positions, shape.head_dim, 10000, table.data());
    float* const device_table = Copied(table);
    const std::vector<float> x = RandomNumbers(type(), shape.rows * shape.stride, 1);
    std::vector<float> y = x, dx = x;
    Rotary<float>(shape, table.data(), y.data());
    RotaryBackward<float>(shape, table.data(), dx.data());
    void* const turned = Put(type(), x);
    void* const back = Put(type(), x);
    DeviceRotary(stream(), shape, type(), device_table, turned);
    DeviceRotaryBackward(stream(), shape, type(), device_table, back);
    ExpectClose(Get(type(), turned, x.size()), y, 1e-6, RoundingOf(type()), "turned");
    ExpectClose(Get(type(), back, x.size()), dx, 1e-6, RoundingOf(type()), "turned back");
  }
}

TEST_P(DeviceElementsTest, ConvertsBothWays) {
  for (const int64_t n : kSizes) {
    const std::vector<float> x = RandomNumbers(DType::kF32, n, 1, -70000, 70000);
    void* const rounded = Room(type(), n);
    DeviceConvert(stream(), n, DType::kF32, Copied(x), type(), rounded);
    std::vector<float> wanted;
    for (float value : x) wanted.push_back(RoundedTo(type(), value));
    EXPECT_EQ(Get(type(), rounded, n), wanted) << "rounded";
    float* const wide = Floats(n);
    DeviceConvert(stream(), n, type(), rounded, DType::kF32, wide);
    EXPECT_EQ(Read(wide, n), wanted) << "widened";
  }
}

TEST_P(DeviceElementsTest, ConversionKeepsInfinitiesAndNaNs) {
  const std::vector<float> x = {INFINITY, -INFINITY, NAN, 1e30f, -0.0f, 3e-8f, 65520.0f};
  void* const rounded = Room(type(), x.size());
  DeviceConvert(stream(), x.size(), DType::kF32, Copied(x), type(), rounded);
  const std::vector<float> got = Get(type(), rounded, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float wanted = RoundedTo(type(), x[i]);
    EXPECT_TRUE(std::isnan(wanted) ? std::isnan(got[i]) : got[i] == wanted) << x[i] << got[i];
  }
}

TEST_P(DeviceElementsTest, MisalignedArraysAreTaken) {
  const int64_t n = 100;
  const std::vector<float> x = RandomNumbers(type(), n + 1, 1, -4, 4);
  std::vector<float> y(n);
  Gelu<float>(n, x.data() + 1, y.data());
  uint8_t* const in = static_cast<uint8_t*>(Put(type(), x));
  uint8_t* const out = static_cast<uint8_t*>(Room(type(), n + 1));
  DeviceGelu(stream(), type(), n, in + SizeOf(type()), out + SizeOf(type()));
  ExpectClose(Get(type(), out + SizeOf(type()), n), y, 4e-6, RoundingOf(type()) + 1e-6, "gelu");
}

MUSTER_FOR_STORAGE_TYPES(DeviceElementsTest);

}  // namespace
}  // namespace muster
