#include "worker/device/passes/device_backend.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/philox.h"
#include "common/device/device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/memory/device_memory_plan.h"
#include "worker/device/weights/device_spaces.h"
#include "worker/models/transformer.h"

namespace muster {
namespace {

constexpr int64_t kSequences = 3;
constexpr int64_t kLength = 9;

TransformerShape Shape() {
  TransformerShape shape;
  shape.layers = 1;
  shape.width = 16;
  shape.heads = shape.kv_heads = 2;
  shape.feed_forward = 24;
  shape.vocabulary = 37;
  shape.context = kLength;
  return shape;
}

Batch RandomBatch() {
  const Philox random(1, "test", "tokens");
  Batch batch;
  batch.examples = kSequences;
  for (int64_t i = 0; i < kSequences * kLength; ++i) {
    batch.tokens.push_back(static_cast<int32_t>(random.Below(Shape().vocabulary, i)));
    batch.labels.push_back(
        i % 7 == 2 ? -1 : static_cast<int32_t>(random.Below(Shape().vocabulary, i, 1)));
  }
  return batch;
}

struct Results {
  double loss_sum = 0;
  // All gradients, one behind the other.
  std::vector<float> gradients;
};

// A transformer in f32 on an emulated device, with initial weights.
class DeviceBackendTest : public ::testing::Test {
 protected:
  // Makes the backend. Logits of `logit_rows` rows exist at a time; 0: of all.
  void Make(int64_t logit_rows) {
    ASSERT_TRUE(OpenDevice(0).ok());
    DeviceComputeOptions options;
    options.type = DType::kF32;
    options.sequences = kSequences;
    options.length = kLength;
    DeviceParameters places = DeviceParameters::Create(Shape()).value();
    DeviceExtents extents = DeviceExtentsOf(Shape(), places, options);
    extents.activations.logit_rows = logit_rows;
    passes_ = DevicePasses::Create(Shape(), options, extents).value();
    spaces_ = DeviceSpaces::Create(std::move(places), options, extents, passes_->stream()).value();
    ASSERT_EQ(spaces_->WriteInitialValues(passes_->stream(), /*seed=*/1), absl::OkStatus());
    model_ = MakeTransformer(
        Shape(), Mesh(), options.type, Recompute::kNone,
        std::make_unique<DeviceBackend>(Shape(), *passes_, /*context_group=*/nullptr));
    micro_batch_ = model_->NewMicroBatch();
  }

  absl::Status RunPass() {
    const int last_unit = Shape().units() - 1;
    for (int unit = 0; unit < last_unit; ++unit) {
      const absl::Status status = model_->Forward({}, unit, spaces_->parameters(), *micro_batch_);
      if (!status.ok()) return status;
    }
    absl::Status status =
        model_->RunLastUnit({}, spaces_->parameters(), spaces_->gradients(), *micro_batch_);
    for (int unit = last_unit - 1; status.ok() && unit >= 0; --unit) {
      status =
          model_->Backward({}, unit, spaces_->parameters(), spaces_->gradients(), *micro_batch_);
    }
    return status;
  }

  Results Run(int64_t logit_rows) {
    Results results;
    Make(logit_rows);
    EXPECT_EQ(model_->Load(RandomBatch(), *micro_batch_), absl::OkStatus());
    EXPECT_EQ(RunPass(), absl::OkStatus());
    EXPECT_EQ(model_->TakeResults(*micro_batch_), absl::OkStatus());
    results.loss_sum = micro_batch_->loss_sum;
    results.gradients.resize(spaces_->places().elements());
    passes_->stream().CopyToHost(results.gradients.data(), spaces_->state().gradients,
                                 results.gradients.size() * sizeof(float));
    EXPECT_EQ(passes_->Wait(), absl::OkStatus());
    return results;
  }

  std::unique_ptr<DevicePasses> passes_;
  std::unique_ptr<DeviceSpaces> spaces_;
  std::unique_ptr<const Model> model_;
  std::unique_ptr<MicroBatch> micro_batch_;
};

// The 27 rows give pieces of 7 with a shorter last one, or single rows.
TEST_F(DeviceBackendTest, LogitsOfAFewRowsAtATimeGiveTheSameGradients) {
  const Results whole = Run(0);
  EXPECT_GT(whole.loss_sum, 0);
  for (const int64_t logit_rows : {7, 1}) {
    const Results pieces = Run(logit_rows);
    EXPECT_EQ(passes_->memory().sets[0].arrays[0].head.logit_rows, logit_rows);
    EXPECT_NEAR(pieces.loss_sum, whole.loss_sum, 1e-12 * whole.loss_sum);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < whole.gradients.size(); ++i) {
      const double each = whole.gradients[i];
      difference += (pieces.gradients[i] - each) * (pieces.gradients[i] - each);
      norm += each * each;
    }
    EXPECT_GT(norm, 0);
    EXPECT_LE(std::sqrt(difference / norm), 1e-6) << logit_rows;
  }
}

}  // namespace
}  // namespace muster
