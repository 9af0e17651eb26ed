// What each kernel of common/kernels/device reaches on this GPU: milliseconds, and GB/s of the
// bytes that it must read and write or TFLOP/s of the products that it must make, at the shapes of
// GPT-2 124M (16 sequences of 1,024) in bf16. One line each; exit status 77 without a GPU.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/device/device.h"
#include "common/kernels/device/attention/device_attention.h"
#include "common/kernels/device/device_activation.h"
#include "common/kernels/device/device_arrays.h"
#include "common/kernels/device/device_cross_entropy.h"
#include "common/kernels/device/device_embedding.h"
#include "common/kernels/device/device_norm.h"
#include "common/kernels/device/device_optimizer.h"

namespace muster {
namespace {

constexpr int64_t kB = 16, kT = 1024, kC = 768, kF = 4 * kC, kV = 50304, kN = kB * kT;
constexpr DType kType = DType::kBf16;

class Bench {
 public:
  static absl::Status Run() {
    MUSTER_ASSIGN_OR_RETURN(const DeviceProperties device, OpenDevice(0));
    std::printf("%s, sm_%d%d, %d multiprocessors\n", device.name.c_str(), device.compute_major,
                device.compute_minor, device.multiprocessors);
    Bench bench;
    MUSTER_ASSIGN_OR_RETURN(bench.stream_, DeviceStream::Create());
    MUSTER_ASSIGN_OR_RETURN(bench.start_, DeviceEvent::Create());
    MUSTER_ASSIGN_OR_RETURN(bench.end_, DeviceEvent::Create());
    bench.Arrays();
    bench.Rows();
    for (const int64_t D : {64, 128}) bench.AttentionOf(D);
    return bench.status_;
  }

 private:
  // Zeros: kernels take the same time for any numbers.
  template <typename T = void>
  T* Zeros(size_t bytes) {
    absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes);
    if (!buffer.ok()) {
      if (status_.ok()) status_ = buffer.status();
      return nullptr;
    }
    buffers_.push_back(*std::move(buffer));
    stream_->Fill(buffers_.back().data(), 0, bytes);
    return reinterpret_cast<T*>(buffers_.back().data());
  }

  // `amount` is in bytes for "GB/s", in operations for "TFLOP/s".
  void Measure(const std::string& name, double amount, const char* unit,
               const std::function<void()>& launch) {
    constexpr int kWarmUp = 3, kTimes = 20;
    if (!status_.ok()) return;
    for (int i = 0; i < kWarmUp; ++i) launch();
    stream_->Record(*start_);
    for (int i = 0; i < kTimes; ++i) launch();
    stream_->Record(*end_);
    status_ = stream_->Synchronize();
    if (!status_.ok()) return;
    const absl::StatusOr<double> total = end_->MillisecondsSince(*start_);
    if (!total.ok()) {
      status_ = total.status();
      return;
    }
    const double milliseconds = *total / kTimes;
    const double per_unit = unit[0] == 'G' ? 1e9 : 1e12;
    std::printf("%-32s %9.4f ms %9.1f %s\n", name.c_str(), milliseconds,
                amount / per_unit / (milliseconds / 1e3), unit);
  }

  void Arrays() {
    const int64_t n = kN * kF;
    void* const x = Zeros(n * 2);
    void* const y = Zeros(n * 2);
    Measure("gelu", 4.0 * n, "GB/s", [&] { DeviceGelu(*stream_, kType, n, x, y); });
    Measure("gelu backward", 6.0 * n, "GB/s",
            [&] { DeviceGeluBackward(*stream_, kType, n, x, y, y); });
    Measure("swiglu", 3.0 * n, "GB/s", [&] { DeviceSwiGlu(*stream_, kType, kN, kF / 2, x, y); });
    float* const sums = Zeros<float>(kF * 4);
    float* const scratch = Zeros<float>(DeviceRowSumsScratch(kN, kF) * 4);
    Measure("row sums", 2.0 * n, "GB/s",
            [&] { DeviceAddRowSums(*stream_, kType, kN, kF, kF, x, sums, scratch); });
    const int64_t weights = 124 << 20;
    float* const gradient = Zeros<float>(weights * 4);
    DeviceAdamArrays arrays = {.gradient = gradient,
                               .weights = Zeros<float>(weights * 4),
                               .m = Zeros<float>(weights * 4),
                               .v = Zeros<float>(weights * 4),
                               .rounded_type = kType,
                               .rounded = Zeros(weights * 2)};
    const auto* const step = Zeros<DeviceAdamStep>(sizeof(DeviceAdamStep));
    Measure("adam", 30.0 * weights, "GB/s",
            [&] { DeviceAdam(*stream_, weights, step, nullptr, arrays); });
    double* const squares = Zeros<double>(DeviceSquaresScratch(weights) * 8);
    double* const sum = Zeros<double>(8);
    Measure("sum of squares", 4.0 * weights, "GB/s", [&] {
      DeviceSumOfSquares(*stream_, weights, gradient, Accumulation::kWrite, sum, squares);
    });
    buffers_.clear();
  }

  void Rows() {
    const int64_t n = kN * kC;
    float* const x = Zeros<float>(n * 4);
    float* const sum = Zeros<float>(n * 4);
    void* const branch = Zeros(n * 2);
    void* const out = Zeros(n * 2);
    float* const gain = Zeros<float>(kC * 4);
    float* const bias = Zeros<float>(kC * 4);
    float* const mean = Zeros<float>(kN * 4);
    float* const rstd = Zeros<float>(kN * 4);
    const NormShape shape = {.rows = kN, .width = kC};
    Measure("norm with residual", 12.0 * n, "GB/s", [&] {
      DeviceNorm(*stream_, shape, kType, {.x = x, .branch = branch, .gain = gain, .bias = bias},
                 {.sum = sum, .out = out, .mean = mean, .rstd = rstd});
    });
    float* const scratch = Zeros<float>(DeviceNormBackwardScratch(kN, kC) * 4);
    Measure("norm backward", 16.0 * n, "GB/s", [&] {
      DeviceNormBackward(
          *stream_, shape, kType,
          {.sum = sum, .gain = gain, .mean = mean, .rstd = rstd, .dout = out, .dsum = x},
          {.dx = x, .dbranch = branch, .gain = gain, .bias = bias}, scratch);
    });
    const int64_t rows = 4096;
    auto* const logits = Zeros<float>(rows * kV * 4);
    auto* const labels = Zeros<int32_t>(kN * 4);
    auto* const correct = Zeros<int32_t>(rows * 4);
    auto* const sums = Zeros<HeadSums>(sizeof(HeadSums));
    Measure("cross entropy", 6.0 * rows * kV, "GB/s", [&] {
      DeviceCrossEntropy(
          *stream_, {.rows = rows, .vocabulary = kV, .tokens = 50257, .logits_stride = kV}, kType,
          {.logits = logits, .labels = labels, .gradient = logits, .sums = sums}, {mean, correct});
    });
    float* const table = Zeros<float>(kV * kC * 4);
    Measure("token embedding", 12.0 * n, "GB/s", [&] {
      DeviceTokenEmbedding(*stream_, {.rows = kN, .context = kT, .width = kC, .vocabulary = kV},
                           labels, table, table, sum);
    });
    buffers_.clear();
  }

  void AttentionOf(int64_t D) {
    const AttentionShape shape = {.B = kB, .T = kT, .H = kC / D, .KV = kC / D, .D = D};
    void* const qkv = Zeros(kN * 3 * kC * 2);
    void* const dqkv = Zeros(kN * 3 * kC * 2);
    void* const out = Zeros(kN * kC * 2);
    float* const logsumexp = Zeros<float>(shape.B * shape.H * kT * 4);
    float* const scratch = Zeros<float>(DeviceAttentionBackwardScratch(kN, shape.H) * 4);
    const std::string heads = ", heads of " + std::to_string(D);
    // Half of two products of T x T x D a head; backward five.
    const double forward = 2.0 * kB * kT * kT * kC;
    Measure("attention" + heads, forward, "TFLOP/s",
            [&] { DeviceAttention(*stream_, shape, kType, qkv, out, logsumexp); });
    Measure("attention backward" + heads, 2.5 * forward, "TFLOP/s", [&] {
      DeviceAttentionBackward(*stream_, shape, kType, qkv, out, logsumexp, out, dqkv, scratch);
    });
    buffers_.clear();
  }

  absl::Status status_;
  std::vector<DeviceBuffer> buffers_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceEvent> start_, end_;
};

}  // namespace
}  // namespace muster

int main() {
  const absl::Status status = muster::Bench::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_kernels_bench: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kUnavailable ? 77 : 1;
}
