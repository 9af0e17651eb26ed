// OpsContractTest of DeviceOps, on the device that is linked, and what DeviceOps adds.
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/compute/device_ops.h"
#include "common/compute/device_ops_scratch.h"
#include "common/compute/ops_contract.h"
#include "common/kernels/device/attention/device_attention.h"
#include "common/kernels/device/device_embedding.h"

namespace muster {
namespace {

// Sizes of the largest cases.
constexpr DeviceOpsExtents kExtents = {
    .rows = 9000, .width = 1288, .heads = 6, .normed = 1288, .biased = 264, .logit_rows = 7};

class DeviceOpsUnderTest final : public OpsUnderTest {
 public:
  static absl::StatusOr<std::unique_ptr<OpsUnderTest>> Create(DeviceOpsOptions options) {
    auto made = std::make_unique<DeviceOpsUnderTest>();
    MUSTER_ASSIGN_OR_RETURN(made->device_, OpenDevice(0));
    MUSTER_ASSIGN_OR_RETURN(made->stream_, DeviceStream::Create());
    MUSTER_ASSIGN_OR_RETURN(made->matmul_, MakeDeviceMatmul({}));
    options.scratch_bytes = DeviceOpsScratch(kExtents);
    options.scratch = made->Allocate(options.scratch_bytes);
    made->ops_ = std::make_unique<DeviceOps>(options, *made->stream_, *made->matmul_);
    return made;
  }

  Ops& ops() override { return *ops_; }
  void* Allocate(size_t bytes) override {
    auto buffer = DeviceBuffer::Allocate(MemoryPlace::kDevice, bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    buffers_.push_back(*std::move(buffer));
    return buffers_.back().data();
  }
  bool Takes(const AttentionShape& shape, DType type) const override {
    return DeviceAttentionTakes(shape) &&
           DeviceAttentionSharedBytes(shape, type) <= device_.shared_memory_per_block_optin;
  }
  std::vector<int32_t> TokenOrder(const std::vector<int32_t>& tokens, int64_t vocabulary) override {
    std::vector<int32_t> counts(vocabulary), order(TokenOrderSize(tokens.size()));
    FillTokenOrder(tokens, absl::MakeSpan(counts), absl::MakeSpan(order));
    return order;
  }

 private:
  DeviceProperties device_;
  // Before the stream, which does what is left of its work when it goes.
  std::vector<DeviceBuffer> buffers_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceMatmul> matmul_;
  std::unique_ptr<DeviceOps> ops_;
};

template <DeviceOpsOptions::Gelu gelu>
absl::StatusOr<std::unique_ptr<OpsUnderTest>> MakeDeviceOps() {
  return DeviceOpsUnderTest::Create({.gelu = gelu});
}

constexpr OpsImplementation kFused = {"Device", MakeDeviceOps<DeviceOpsOptions::Gelu::kFused>,
                                      OpsImplementation::Match::kClose};
constexpr OpsImplementation kApart = {"DeviceWithGeluApart",
                                      MakeDeviceOps<DeviceOpsOptions::Gelu::kApart>,
                                      OpsImplementation::Match::kClose};

INSTANTIATE_TEST_SUITE_P(Device, OpsContractTest, AllTypesOf(kFused), NameOfOpsTest);
INSTANTIATE_TEST_SUITE_P(Device, OpsGeluContractTest, AllTypesOf(kFused), NameOfOpsTest);
INSTANTIATE_TEST_SUITE_P(DeviceWithGeluApart, OpsGeluContractTest, AllTypesOf(kApart),
                         NameOfOpsTest);

// Says that there are no products with GELU in them, and counts the others.
class MatmulWithoutGelu final : public DeviceMatmul {
 public:
  absl::Status Run(DeviceStream&, const MatmulProblem& problem, const MatmulOperands&) override {
    if (problem.epilogue == MatmulEpilogue::kGelu ||
        problem.epilogue == MatmulEpilogue::kGeluGradient) {
      ++refused;
      return absl::UnimplementedError("no such product");
    }
    ++made;
    return absl::OkStatus();
  }
  void StartMeasuring() override {}
  void StopMeasuring() override {}
  std::vector<MatmulChoice> Choices() const override { return {}; }

  int refused = 0;
  int made = 0;
};

class DeviceOpsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto device = OpenDevice(0);
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status();
    auto stream = DeviceStream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
    auto buffer = DeviceBuffer::Allocate(MemoryPlace::kDevice, 1024);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
    stream_->Fill(buffer_.data(), 0, buffer_.bytes());
  }

  DeviceBuffer buffer_;
  std::unique_ptr<DeviceStream> stream_;
};

TEST_F(DeviceOpsTest, AsksForAFusedProductOnceWhereThereIsNone) {
  MatmulWithoutGelu matmul;
  DeviceOps ops({}, *stream_, matmul);
  EXPECT_TRUE(ops.fuses_gelu());
  void* const x = buffer_.data();
  void* const y = buffer_.data() + 512;
  const Linear linear = {.type = DType::kBf16, .rows = 2, .in = 8, .out = 8};
  for (int i = 0; i < 2; ++i) {
    ops.LinearGelu(linear, {.x = x, .weight = x, .before = y, .after = y});
    ops.LinearGeluBackwardInput(linear, {.dy = x, .weight = x, .before = x, .dbefore = y});
    EXPECT_FALSE(ops.fuses_gelu());
  }
  EXPECT_EQ(matmul.refused, 1);
  EXPECT_EQ(matmul.made, 4);
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(DeviceOpsTest, AsksForNoFusedProductInF32OrOfNarrowRows) {
  MatmulWithoutGelu matmul;
  DeviceOps ops({}, *stream_, matmul);
  void* const x = buffer_.data();
  void* const y = buffer_.data() + 512;
  for (const Linear& linear : {Linear{.type = DType::kF32, .rows = 2, .in = 8, .out = 8},
                               Linear{.type = DType::kBf16, .rows = 2, .in = 7, .out = 7}}) {
    ops.LinearGelu(linear, {.x = x, .weight = x, .before = y, .after = y});
    ops.LinearGeluBackwardInput(linear, {.dy = x, .weight = x, .before = x, .dbefore = y});
  }
  EXPECT_EQ(matmul.refused, 0);
  EXPECT_TRUE(ops.fuses_gelu());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(DeviceOpsTest, AProductThatFailsFailsTheStream) {
  auto matmul = MakeDeviceMatmul({});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  DeviceOps ops({}, *stream_, **matmul);
  // No columns.
  ops.LinearBackwardInput({.rows = 2, .in = 0, .out = 3}, buffer_.data(), buffer_.data(),
                          buffer_.data() + 512);
  EXPECT_EQ(ops.stream().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceOpsTest, MoreScratchThanIsThereFailsTheStream) {
  MatmulWithoutGelu matmul;
  DeviceOps ops({.scratch = buffer_.data(), .scratch_bytes = 16}, *stream_, matmul);
  auto* const array = reinterpret_cast<float*>(buffer_.data());
  const NormShape shape = {.rows = 9, .width = 1};
  ops.NormBackward(shape, DType::kF32,
                   {.sum = array, .gain = array, .mean = array, .rstd = array, .dout = array},
                   {.dx = array + 128, .gain = array + 64});
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace muster
