#include "common/kernels/device/device_norm.h"

#include <cmath>
#include <vector>

#include "common/kernels/device/device_test_lib.h"

namespace muster {
namespace {

struct Case {
  NormKind kind;
  // examples · length rows.
  int64_t examples, length, width;
  bool branch = true;
  bool bias = true;
  float dropout = 0;
};

const Case kCases[] = {{NormKind::kLayerNorm, 1, 1, 1},
                       {NormKind::kLayerNorm, 2, 17, 96, true, true, 0.2f},
                       {NormKind::kRmsNorm, 3, 5, 130, true, false, 0.5f},
                       {NormKind::kLayerNorm, 1, 9, 768, false, true},
                       {NormKind::kRmsNorm, 1, 3, 1288, true, false},
                       {NormKind::kRmsNorm, 2, 4, 33, false, false},
                       // More rows than runs of backward.
                       {NormKind::kLayerNorm, 3, 700, 8, true, true, 0.1f}};

class DeviceNormTest : public DeviceKernelTest {
 protected:
  void Check(const Case& c);
};

void DeviceNormTest::Check(const Case& c) {
  const int64_t rows = c.examples * c.length, n = rows * c.width;
  SCOPED_TRACE(testing::Message() << rows << " x " << c.width << " dropout " << c.dropout);
  const NormShape shape = {.kind = c.kind, .rows = rows, .width = c.width, .epsilon = 1e-5f};
  const std::vector<float> x = RandomNumbers(DType::kF32, n, 1, -2, 3);
  const std::vector<float> branch = RandomNumbers(type(), n, 2);
  const std::vector<float> gain = RandomNumbers(DType::kF32, c.width, 3, 0.5f, 2);
  const std::vector<float> bias = RandomNumbers(DType::kF32, c.width, 4);
  const std::vector<float> dout = RandomNumbers(type(), n, 5);
  const std::vector<float> dsum = RandomNumbers(DType::kF32, n, 6);
  const DropoutMask mask(7, "branch", 12, c.dropout);
  const DropoutShape dropout = {
      .examples = c.examples, .size = c.length * c.width, .first_example = 1000};

  std::vector<float> sum = x, out(n), mean(rows), rstd(rows);
  NormInputs<float> in = {.x = x.data(), .gain = gain.data()};
  if (c.branch) in.branch = branch.data();
  if (c.dropout > 0) in.mask = &mask, in.dropout = dropout;
  if (c.bias) in.bias = bias.data();
  Norm<float>(shape, in,
              {.sum = c.branch ? sum.data() : nullptr,
               .out = out.data(),
               .mean = mean.data(),
               .rstd = rstd.data()});
  std::vector<float> dx(n), dbranch(n), dgain(c.width, 0.5f), dbias(c.width, -1);
  NormBackwardInputs<float> back = {.sum = sum.data(),
                                    .gain = gain.data(),
                                    .mean = mean.data(),
                                    .rstd = rstd.data(),
                                    .dout = dout.data(),
                                    .dsum = dsum.data(),
                                    .mask = in.mask,
                                    .dropout = dropout};
  NormBackward<float>(shape, back,
                      {.dx = dx.data(),
                       .dbranch = dbranch.data(),
                       .gain = dgain.data(),
                       .bias = c.bias ? dbias.data() : nullptr});

  const auto* const clock = Copied(std::vector<DropoutClock>{{12, 1000}});
  const DeviceDropout device_dropout =
      c.dropout > 0 ? DropoutOnDevice(mask, clock) : DeviceDropout{};
  float* const device_gain = Copied(gain);
  float* const device_sum = Copied(x);
  float* const device_mean = Floats(rows);
  float* const device_rstd = Floats(rows);
  void* const device_out = c.branch ? Put(type(), branch) : Room(type(), n);
  DeviceNorm(stream(), shape, type(),
             {.x = device_sum,
              .branch = c.branch ? device_out : nullptr,
              .dropout = device_dropout,
              .rows_per_example = c.length,
              .gain = device_gain,
              .bias = c.bias ? Copied(bias) : nullptr},
             {.sum = c.branch ? device_sum : nullptr,
              .out = device_out,
              .mean = device_mean,
              .rstd = device_rstd});
  ExpectClose(Read(device_sum, n), sum, 1e-6, 0, "sum");
  // A row of one number is divided by almost nothing.
  const double slack = c.width == 1 ? 1e-3 : 1e-5;
  ExpectClose(Get(type(), device_out, n), out, slack, RoundingOf(type()) + 1e-5, "out");
  if (c.kind == NormKind::kLayerNorm) ExpectClose(Read(device_mean, rows), mean, 1e-6, 0, "mean");
  ExpectClose(Read(device_rstd, rows), rstd, 0, c.width == 1 ? 1e-3 : 1e-5, "rstd");

  float* const device_dx = Copied(dsum);
  void* const device_dbranch = Put(type(), dout);
  float* const device_dgain = Copied(std::vector<float>(c.width, 0.5f));
  float* const device_dbias = Copied(std::vector<float>(c.width, -1));
  DeviceNormBackward(stream(), shape, type(),
                     {.sum = device_sum,
                      .gain = device_gain,
                      .mean = device_mean,
                      .rstd = device_rstd,
                      .dout = device_dbranch,
                      .dsum = device_dx,
                      .dropout = device_dropout,
                      .rows_per_example = c.length},
                     {.dx = device_dx,
                      .dbranch = device_dbranch,
                      .gain = device_dgain,
                      .bias = c.bias ? device_dbias : nullptr},
                     Floats(DeviceNormBackwardScratch(rows, c.width)));
  ExpectClose(Read(device_dx, n), dx, slack, 1e-5, "dx");
  ExpectClose(Get(type(), device_dbranch, n), dbranch, slack, RoundingOf(type()) + 1e-5, "dbranch");
  const double many = 1e-6 * static_cast<double>(rows);
  ExpectClose(Read(device_dgain, c.width), dgain, slack + many, 1e-5, "gain");
  if (c.bias) ExpectClose(Read(device_dbias, c.width), dbias, slack + many, 1e-5, "bias");
}

TEST_P(DeviceNormTest, MatchesTheCpu) {
  for (const Case& c : kCases) {
    Check(c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(DeviceNormTest, MakesTheSumAlone) {
  const NormShape shape = {.rows = 3, .width = 40};
  const std::vector<float> x = RandomNumbers(DType::kF32, 120, 1);
  const std::vector<float> branch = RandomNumbers(type(), 120, 2);
  float* const sum = Floats(120);
  DeviceNorm(stream(), shape, type(), {.x = Copied(x), .branch = Put(type(), branch)},
             {.sum = sum});
  std::vector<float> wanted(120);
  for (int i = 0; i < 120; ++i) wanted[i] = x[i] + branch[i];
  EXPECT_EQ(Read(sum, 120), wanted);
}

TEST_P(DeviceNormTest, BackwardWithoutParameters) {
  const NormShape shape = {.rows = 4, .width = 24};
  const std::vector<float> x = RandomNumbers(DType::kF32, 96, 1);
  float* const sum = Copied(x);
  float* const gain = Copied(std::vector<float>(24, 1));
  float* const mean = Floats(4);
  float* const rstd = Floats(4);
  void* const out = Room(type(), 96);
  DeviceNorm(stream(), shape, type(), {.x = sum, .gain = gain},
             {.out = out, .mean = mean, .rstd = rstd});
  // The gradient of a constant direction vanishes: the row's sum does not depend on x.
  float* const dx = Floats(96);
  DeviceNormBackward(stream(), shape, type(),
                     {.sum = sum,
                      .gain = gain,
                      .mean = mean,
                      .rstd = rstd,
                      .dout = Put(type(), std::vector<float>(96, 1))},
                     {.dx = dx}, nullptr);
  ExpectClose(Read(dx, 96), std::vector<float>(96, 0), 1e-5, 0, "dx");
}

MUSTER_FOR_STORAGE_TYPES(DeviceNormTest);

}  // namespace
}  // namespace muster
