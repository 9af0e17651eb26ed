#include "worker/device/device_transformer.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/kernels/device/device_arrays.h"
#include "gtest/gtest.h"
#include "worker/device/cpu_reference_for_testing.h"
#include "worker/device/device_batches.h"

namespace muster {
namespace {

// A library that has no fused GELU.
class PlainMatmul final : public DeviceMatmul {
 public:
  explicit PlainMatmul(std::unique_ptr<DeviceMatmul> inner) : inner_(std::move(inner)) {}

  absl::Status Run(DeviceStream& stream, const MatmulProblem& problem,
                   const MatmulOperands& operands) override {
    if (problem.epilogue == MatmulEpilogue::kGelu ||
        problem.epilogue == MatmulEpilogue::kGeluGradient) {
      ++refused_;
      return absl::UnimplementedError("no such product");
    }
    return inner_->Run(stream, problem, operands);
  }
  void StartMeasuring() override {}
  void StopMeasuring() override {}
  std::vector<MatmulChoice> Choices() const override { return {}; }

  int refused() const { return refused_; }

 private:
  const std::unique_ptr<DeviceMatmul> inner_;
  int refused_ = 0;
};

// Keeps what is asked for.
class RecordingMatmul final : public DeviceMatmul {
 public:
  absl::Status Run(DeviceStream& stream, const MatmulProblem& problem,
                   const MatmulOperands& operands) override {
    problems_.push_back(problem);
    return inner_->Run(stream, problem, operands);
  }
  void StartMeasuring() override {}
  void StopMeasuring() override {}
  std::vector<MatmulChoice> Choices() const override { return {}; }

  const std::vector<MatmulProblem>& problems() const { return problems_; }

 private:
  const std::unique_ptr<DeviceMatmul> inner_ = MakeDeviceMatmul({}).value();
  std::vector<MatmulProblem> problems_;
};

TransformerShape Shape() {
  TransformerShape shape;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = shape.kv_heads = 2;
  shape.feed_forward = 24;
  shape.vocabulary = 11;
  shape.context = 5;
  return shape;
}

// The flat gradients of one batch, from weights that are all a little different.
std::vector<float> Gradients(DeviceMatmul& matmul, const DeviceComputeOptions& options) {
  const TransformerShape shape = Shape();
  const auto parameters = DeviceParameters::Create(shape).value();
  auto memory =
      DeviceBuffer::Allocate(MemoryPlace::kDevice,
                             PlanDeviceMemory(shape, parameters, options, nullptr).bytes.total)
          .value();
  const DeviceMemoryPlan plan = PlanDeviceMemory(shape, parameters, options, memory.data());
  const auto stream = DeviceStream::Create().value();
  const auto batches = DeviceBatches::Create(shape, options.rows(), plan.batch).value();
  DeviceTransformer transformer(shape, parameters, options, plan, /*seed=*/1, matmul);

  stream->Fill(memory.data(), 0, memory.bytes());
  // What is between rows of logits counts for nothing.
  stream->Fill(plan.arrays.head.logits, 0xff,
               plan.arrays.head.logit_rows * kOnDevice.LogitsStride(shape.vocabulary_rows()) *
                   SizeOf(options.logits));
  std::vector<float> weights(parameters.elements());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.3f * static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 50;
  }
  const float one = 1;
  stream->CopyToDevice(plan.state.weights, weights.data(), weights.size() * sizeof(float));
  if (plan.state.rounded != nullptr) {
    DeviceConvert(*stream, static_cast<int64_t>(weights.size()), DType::kF32, plan.state.weights,
                  options.type, plan.state.rounded);
  }
  stream->CopyToDevice(plan.state.loss_scale, &one, sizeof(one));
  const Batch batch = RandomSequences(2, 5, 11, 1);
  EXPECT_TRUE(batches->Copy(*stream, batch, {}).ok());
  EXPECT_TRUE(transformer.Forward(*stream, options.rows(), Pass::kTraining).ok());
  for (int unit = shape.units() - 1; unit >= 0; --unit) {
    EXPECT_TRUE(transformer.Backward(*stream, options.rows(), unit).ok());
  }
  std::vector<float> gradients(parameters.elements());
  stream->CopyToHost(gradients.data(), plan.state.gradients, gradients.size() * sizeof(float));
  EXPECT_TRUE(stream->Synchronize().ok());
  return gradients;
}

TEST(DeviceTransformerTest, DoesWithoutFusedProductsWhereTheLibraryLacksThem) {
  DeviceComputeOptions options;
  options.sequences = 2;
  options.length = 5;
  options.workspace_bytes = 256;
  options.fuse_gelu = false;
  PlainMatmul unfused(MakeDeviceMatmul({}).value());
  const std::vector<float> expected = Gradients(unfused, options);
  EXPECT_EQ(unfused.refused(), 0);
  options.fuse_gelu = true;
  PlainMatmul refusing(MakeDeviceMatmul({}).value());
  EXPECT_EQ(Gradients(refusing, options), expected);
  // It asks once.
  EXPECT_EQ(refusing.refused(), 1);
  const auto fusing = MakeDeviceMatmul({}).value();
  EXPECT_LE(RelativeDistance(Gradients(*fusing, options), expected), 2e-2);
}

TEST(DeviceTransformerTest, AsksForNoFusedProductsInF32) {
  DeviceComputeOptions options;
  options.type = DType::kF32;
  options.sequences = 2;
  options.length = 5;
  options.workspace_bytes = 256;
  ASSERT_TRUE(options.fuse_gelu);
  PlainMatmul plain(MakeDeviceMatmul({}).value());
  Gradients(plain, options);
  EXPECT_EQ(plain.refused(), 0);
}

// cuBLASLt's fast kernels read and write rows that begin at multiples of 16 bytes alone.
TEST(DeviceTransformerTest, RowsOfLogitsAreAlignedWhateverTheVocabulary) {
  DeviceComputeOptions options;
  options.sequences = 2;
  options.length = 5;
  options.workspace_bytes = 256;
  const int64_t V = Shape().vocabulary;
  ASSERT_EQ(V % 2, 1);
  for (const DType logits : {DType::kF32, DType::kBf16}) {
    options.logits = logits;
    RecordingMatmul matmul;
    for (const float gradient : Gradients(matmul, options)) ASSERT_TRUE(std::isfinite(gradient));
    int products = 0;
    for (const MatmulProblem& p : matmul.problems()) {
      const bool writes_logits = p.n == V;
      if (!writes_logits && p.m != V && p.k != V) continue;
      ++products;
      const size_t bytes = writes_logits ? p.c_stride * SizeOf(p.out) : p.a_stride * SizeOf(p.in);
      EXPECT_GT(bytes, 0) << Describe(p);
      EXPECT_EQ(bytes % 16, 0) << Describe(p);
    }
    EXPECT_EQ(products, 3);
  }
}

}  // namespace
}  // namespace muster
