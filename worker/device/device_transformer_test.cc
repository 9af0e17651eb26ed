#include "worker/device/device_transformer.h"

#include <memory>
#include <utility>
#include <vector>

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
  const auto batches = DeviceBatches::Create(shape, options.rows(), plan.activations).value();
  DeviceTransformer transformer(shape, parameters, options, plan, /*seed=*/1, matmul);

  stream->Fill(memory.data(), 0, memory.bytes());
  std::vector<float> weights(parameters.elements());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.3f * static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 50;
  }
  const float one = 1;
  stream->CopyToDevice(plan.state.weights, weights.data(), weights.size() * sizeof(float));
  stream->CopyToDevice(plan.state.loss_scale, &one, sizeof(one));
  const Batch batch = RandomSequences(2, 5, 11, 1);
  EXPECT_TRUE(batches->Copy(*stream, batch, {}).ok());
  EXPECT_TRUE(transformer.Forward(*stream, options.rows(), DevicePass::kTraining).ok());
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
  options.type = DType::kF32;
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
  EXPECT_LE(RelativeDistance(Gradients(*fusing, options), expected), 1e-5);
}

}  // namespace
}  // namespace muster
