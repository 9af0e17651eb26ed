// Products for the emulated device: operands widened to f32, multiplied by the CPU's kernel, and
// rounded once. For tests, of small shapes.
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/status_macros.h"
#include "common/device/stream_access.h"
#include "common/kernels/device/matmul/device_matmul.h"
#include "common/kernels/gemm/gemm.h"
#include "common/kernels/transformer/activation.h"
#include "common/tensor/float16.h"

namespace muster {
namespace {

float Load(DType type, const void* values, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(values)[i];
  const uint16_t bits = static_cast<const uint16_t*>(values)[i];
  return type == DType::kBf16 ? F32OfBf16(bits) : F32OfF16(bits);
}

void Store(DType type, float value, void* values, int64_t i) {
  if (type == DType::kF32) {
    static_cast<float*>(values)[i] = value;
  } else {
    static_cast<uint16_t*>(values)[i] = type == DType::kBf16 ? Bf16OfF32(value) : F16OfF32(value);
  }
}

// Of rows with a stride, dense.
std::vector<float> Widen(DType type, const void* values, int64_t rows, int64_t cols,
                         int64_t stride) {
  std::vector<float> wide(rows * cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) wide[r * cols + c] = Load(type, values, r * stride + c);
  }
  return wide;
}

std::vector<float> WidenOperand(DType type, const void* values, Transpose transpose, int64_t rows,
                                int64_t cols, int64_t stride) {
  if (transpose == Transpose::kYes) std::swap(rows, cols);
  return Widen(type, values, rows, cols, stride);
}

void Compute(const MatmulProblem& p, const MatmulOperands& operands) {
  const std::vector<float> a = WidenOperand(p.in, operands.a, p.transpose_a, p.m, p.k, p.a_stride);
  const std::vector<float> b = WidenOperand(p.in, operands.b, p.transpose_b, p.k, p.n, p.b_stride);
  std::vector<float> sums(p.m * p.n);
  Gemm<float, float>(p.m, p.n, p.k, a.data(), b.data(), sums.data(),
                     {.transpose_a = p.transpose_a, .transpose_b = p.transpose_b});
  if (p.has_bias) {
    for (int64_t i = 0; i < p.m * p.n; ++i) sums[i] += Load(p.out, operands.bias, i % p.n);
  }
  if (p.epilogue == MatmulEpilogue::kGelu) {
    for (int64_t i = 0; i < p.m * p.n; ++i) Store(p.out, sums[i], operands.aux, i);
    Gelu<float>(p.m * p.n, sums.data(), sums.data());
  }
  if (p.epilogue == MatmulEpilogue::kGeluGradient) {
    const std::vector<float> x = Widen(p.out, operands.aux, p.m, p.n, p.n);
    GeluBackward<float>(p.m * p.n, x.data(), sums.data(), sums.data());
  }
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t c = 0; c < p.n; ++c) {
      const int64_t at = r * p.c_stride + c;
      const float before = p.accumulation == Accumulation::kAdd ? Load(p.out, operands.c, at) : 0;
      Store(p.out, before + sums[r * p.n + c], operands.c, at);
    }
  }
}

class EmulatedMatmul final : public DeviceMatmul {
 public:
  absl::Status Run(DeviceStream& stream, const MatmulProblem& problem,
                   const MatmulOperands& operands) override {
    MUSTER_RETURN_IF_ERROR(CheckMatmul(problem, operands));
    const MatmulProblem p = Dense(problem);
    if (seen_.insert(p).second) {
      choices_.push_back({.product = Describe(p), .chosen = 0, .proposals = 1});
    }
    QueueEmulated(stream, [p, operands] { Compute(p, operands); });
    return absl::OkStatus();
  }

  void StartMeasuring() override {}
  void StopMeasuring() override {}
  std::vector<MatmulChoice> Choices() const override { return choices_; }

 private:
  absl::flat_hash_set<MatmulProblem> seen_;
  std::vector<MatmulChoice> choices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMatmul>> MakeDeviceMatmul(const DeviceMatmulOptions&) {
  return std::make_unique<EmulatedMatmul>();
}

}  // namespace muster
