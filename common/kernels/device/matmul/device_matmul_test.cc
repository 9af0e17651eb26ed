// Of every DeviceMatmul: the emulated one, the one on cuBLASLt with a stand-in for it, and, in
// tests/gpu, on a GPU.
#include "common/kernels/device/matmul/device_matmul.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor/float16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Values of a type, of which the device has a copy.
class Array {
 public:
  Array(DType type, int64_t elements, uint32_t seed) : type_(type), values_(elements) {
    for (int64_t i = 0; i < elements; ++i) {
      // A linear congruential generator's upper bits; multiples of 1/64 are exact in bf16.
      seed = seed * 1664525 + 1013904223;
      values_[i] = static_cast<float>(static_cast<int32_t>(seed >> 25) - 64) / 64;
    }
  }

  double operator[](int64_t i) const { return values_[i]; }
  void* device() const { return buffer_.data(); }

  void ToDevice(DeviceStream& stream) {
    bytes_.resize(values_.size() * SizeOf(type_));
    for (size_t i = 0; i < values_.size(); ++i) {
      if (type_ == DType::kF32) {
        std::memcpy(bytes_.data() + 4 * i, &values_[i], 4);
      } else {
        const uint16_t bits = type_ == DType::kBf16 ? Bf16OfF32(values_[i]) : F16OfF32(values_[i]);
        std::memcpy(bytes_.data() + 2 * i, &bits, 2);
      }
    }
    auto buffer = DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes_.size());
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
    stream.CopyToDevice(buffer_.data(), bytes_.data(), bytes_.size());
  }

  void ToHost(DeviceStream& stream) {
    stream.CopyToHost(bytes_.data(), buffer_.data(), bytes_.size());
    ASSERT_TRUE(stream.Synchronize().ok());
    for (size_t i = 0; i < values_.size(); ++i) {
      if (type_ == DType::kF32) {
        std::memcpy(&values_[i], bytes_.data() + 4 * i, 4);
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes_.data() + 2 * i, 2);
        values_[i] = type_ == DType::kBf16 ? F32OfBf16(bits) : F32OfF16(bits);
      }
    }
  }

 private:
  const DType type_;
  std::vector<float> values_;
  std::vector<std::byte> bytes_;
  DeviceBuffer buffer_;
};

double Gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) {
  const double h = 1e-5;
  return (Gelu(x + h) - Gelu(x - h)) / (2 * h);
}

class DeviceMatmulTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = OpenDevice(0);
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status();
    on_gpu_ = device->name != "emulated";
    auto stream = DeviceStream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
    auto workspace = DeviceBuffer::Allocate(MemoryPlace::kDevice, kWorkspace);
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    workspace_ = *std::move(workspace);
    DeviceMatmulOptions options;
    options.workspace = workspace_.data();
    options.workspace_bytes = kWorkspace;
    auto matmul = MakeDeviceMatmul(options);
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    matmul_ = *std::move(matmul);
  }

  // Against sums in f64.
  void Check(const MatmulProblem& problem) {
    SCOPED_TRACE(Describe(problem));
    const MatmulProblem p = Dense(problem);
    const bool turned_a = p.transpose_a == Transpose::kYes;
    const bool turned_b = p.transpose_b == Transpose::kYes;
    Array a(p.in, p.a_stride * (turned_a ? p.k : p.m), 1);
    Array b(p.in, p.b_stride * (turned_b ? p.n : p.k), 2);
    Array c(p.out, p.c_stride * p.m, 3);
    Array bias(p.out, p.n, 4);
    Array aux(p.out, p.m * p.n, 5);
    const Array before(p.out, p.c_stride * p.m, 3);
    const Array aux_before(p.out, p.m * p.n, 5);
    for (Array* each : {&a, &b, &c, &bias, &aux}) each->ToDevice(*stream_);
    ASSERT_TRUE(stream_->Synchronize().ok());
    const bool has_aux =
        p.epilogue == MatmulEpilogue::kGelu || p.epilogue == MatmulEpilogue::kGeluGradient;
    const absl::Status status = matmul_->Run(*stream_, problem,
                                             {.a = a.device(),
                                              .b = b.device(),
                                              .c = c.device(),
                                              .bias = p.has_bias ? bias.device() : nullptr,
                                              .aux = has_aux ? aux.device() : nullptr});
    // In f32 nothing asks for it, and cuBLASLt need not have it.
    if (on_gpu_ && has_aux && p.in == DType::kF32 && absl::IsUnimplemented(status)) return;
    ASSERT_TRUE(status.ok()) << status;
    c.ToHost(*stream_);
    aux.ToHost(*stream_);
    const double rounding = p.out == DType::kF32 ? 1e-5 : p.out == DType::kBf16 ? 6e-3 : 1e-3;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.c_stride; ++j) {
        const int64_t at = i * p.c_stride + j;
        if (j >= p.n) {
          ASSERT_EQ(c[at], before[at]) << "between rows " << i;
          continue;
        }
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          sum += a[turned_a ? l * p.a_stride + i : i * p.a_stride + l] *
                 b[turned_b ? j * p.b_stride + l : l * p.b_stride + j];
        }
        if (p.has_bias) sum += bias[j];
        double expected = sum;
        if (p.epilogue == MatmulEpilogue::kGelu) {
          expected = Gelu(sum);
          ASSERT_NEAR(aux[i * p.n + j], sum, rounding * (1 + std::abs(sum))) << i << " " << j;
        }
        if (p.epilogue == MatmulEpilogue::kGeluGradient) {
          expected = sum * GeluSlope(aux_before[i * p.n + j]);
        }
        if (p.accumulation == Accumulation::kAdd) expected += before[at];
        ASSERT_NEAR(c[at], expected, rounding * (1 + std::abs(expected))) << i << " " << j;
      }
    }
  }

  static constexpr size_t kWorkspace = size_t{1} << 22;
  bool on_gpu_ = false;
  // Before the stream, which does what is left of its work when it goes.
  DeviceBuffer workspace_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceMatmul> matmul_;
};

constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kF16};

TEST_F(DeviceMatmulTest, EveryTransposeAndType) {
  for (const DType in : kTypes) {
    for (const DType out : {DType::kF32, in}) {
      for (const Transpose a : {Transpose::kNo, Transpose::kYes}) {
        for (const Transpose b : {Transpose::kNo, Transpose::kYes}) {
          Check({.in = in,
                 .out = out,
                 .transpose_a = a,
                 .transpose_b = b,
                 .m = 24,
                 .n = 40,
                 .k = 16});
          if (in == DType::kF32) {
            Check({.transpose_a = a, .transpose_b = b, .m = 7, .n = 5, .k = 3});
          }
        }
      }
    }
  }
}

TEST_F(DeviceMatmulTest, Strides) {
  for (const DType in : kTypes) {
    Check({.in = in,
           .out = DType::kF32,
           .m = 16,
           .n = 24,
           .k = 8,
           .a_stride = 16,
           .b_stride = 32,
           .c_stride = 40});
    Check({.in = in,
           .out = DType::kF32,
           .transpose_a = Transpose::kYes,
           .m = 16,
           .n = 24,
           .k = 8,
           .a_stride = 48,
           .accumulation = Accumulation::kAdd});
  }
}

TEST_F(DeviceMatmulTest, AddsToGradients) {
  for (const DType in : kTypes) {
    Check({.in = in,
           .out = DType::kF32,
           .transpose_a = Transpose::kYes,
           .m = 32,
           .n = 16,
           .k = 64,
           .accumulation = Accumulation::kAdd});
  }
}

TEST_F(DeviceMatmulTest, Epilogues) {
  for (const DType type : kTypes) {
    const auto with = [type](MatmulEpilogue epilogue, bool has_bias) {
      MatmulProblem problem;
      problem.in = problem.out = type;
      problem.transpose_b =
          epilogue == MatmulEpilogue::kGeluGradient ? Transpose::kNo : Transpose::kYes;
      problem.m = 24;
      problem.n = 32;
      problem.k = 16;
      problem.epilogue = epilogue;
      problem.has_bias = has_bias;
      return problem;
    };
    Check(with(MatmulEpilogue::kBias, true));
    Check(with(MatmulEpilogue::kGelu, true));
    Check(with(MatmulEpilogue::kGelu, false));
    Check(with(MatmulEpilogue::kGeluGradient, false));
  }
}

TEST_F(DeviceMatmulTest, MeasuringChangesNoResult) {
  matmul_->StartMeasuring();
  Check({.in = DType::kBf16, .out = DType::kBf16, .m = 16, .n = 16, .k = 16});
  matmul_->StopMeasuring();
  Check({.in = DType::kBf16, .out = DType::kBf16, .m = 16, .n = 16, .k = 16});
  Check({.in = DType::kBf16, .out = DType::kBf16, .m = 8, .n = 16, .k = 16});
  const std::vector<MatmulChoice> choices = matmul_->Choices();
  ASSERT_EQ(choices.size(), 2);
  EXPECT_THAT(choices[0].product, HasSubstr("bf16 [16, 16] x [16, 16]"));
  EXPECT_GE(choices[0].proposals, 1);
  EXPECT_LT(choices[0].chosen, choices[0].proposals);
  EXPECT_EQ(choices[1].microseconds, 0);
}

TEST_F(DeviceMatmulTest, RefusesWhatDoesNotGoTogether) {
  float memory[64] = {};
  const MatmulOperands operands = {.a = memory, .b = memory + 16, .c = memory + 32};
  const auto message = [&](const MatmulProblem& problem) {
    const absl::Status status = matmul_->Run(*stream_, problem, operands);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({.m = 0, .n = 2, .k = 2}), HasSubstr("at least 1"));
  EXPECT_THAT(message({.in = DType::kF64, .m = 2, .n = 2, .k = 2}), HasSubstr("f32, bf16 or f16"));
  EXPECT_THAT(message({.in = DType::kBf16, .out = DType::kF16, .m = 2, .n = 2, .k = 2}),
              HasSubstr("operands' type"));
  EXPECT_THAT(message({.m = 2, .n = 2, .k = 2, .a_stride = 1}), HasSubstr("shorter"));
  EXPECT_THAT(message({.m = 2, .n = 2, .k = 2, .epilogue = MatmulEpilogue::kBias}),
              HasSubstr("missing"));
  EXPECT_THAT(message({.m = 2,
                       .n = 2,
                       .k = 2,
                       .epilogue = MatmulEpilogue::kGeluGradient,
                       .accumulation = Accumulation::kAdd}),
              HasSubstr("without an epilogue"));
  EXPECT_THAT(message({.m = 2, .n = 2, .k = 2, .has_bias = true}), HasSubstr("no bias"));
}

}  // namespace
}  // namespace muster
