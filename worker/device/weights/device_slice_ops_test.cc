// Tests that weights are gathered and gradients scattered in device memory as in the host's, in the
// order of the computation: the emulated device does what is queued as late as it may.
#include "worker/device/weights/device_slice_ops.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/device/device.h"
#include "common/tensor/half.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/host/ranks_for_testing.h"
#include "worker/strategy/group/gradients/gradient_scatterer.h"
#include "worker/strategy/group/gradients/weight_gatherer.h"
#include "worker/strategy/group/shard_cases.h"

namespace muster {
namespace {

using Holding = UnitPlaces::Holding;

// A stream that computes, and device memory for one rank's slice space.
struct RankDevice {
  explicit RankDevice(const ShardLayout& shards)
      : stream(DeviceStream::Create().value()),
        ops(DeviceSliceOps::Create([this]() -> DeviceStream& { return *stream; }).value()),
        buffer(DeviceBuffer::Allocate(MemoryPlace::kDevice,
                                      shards.slice_elements() * sizeof(float) + 1)
                   .value()),
        space(reinterpret_cast<float*>(buffer.data()), shards.slice_elements()) {
    for (const ShardLayout::Part& part : shards.parts()) {
      by_part.push_back(space.subspan(part.slice_begin, part.slice));
    }
  }

  // Queues writing values to device memory.
  void Write(std::vector<float> values, float* to) {
    // What is copied must live until the copy is done.
    written.push_back(std::move(values));
    stream->CopyToDevice(to, written.back().data(), written.back().size() * sizeof(float));
  }
  std::vector<float> Read(const float* from, size_t count) {
    std::vector<float> values(count);
    stream->CopyToHost(values.data(), from, count * sizeof(float));
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    return values;
  }

  const std::unique_ptr<DeviceStream> stream;
  const std::unique_ptr<DeviceSliceOps> ops;
  const DeviceBuffer buffer;
  const absl::Span<float> space;
  std::vector<absl::Span<float>> by_part;
  std::deque<std::vector<float>> written;
};

class DeviceSliceOpsTest : public ::testing::TestWithParam<int> {};

TEST_P(DeviceSliceOpsTest, UnitsAreGatheredAfterTheirSlicesAreComputed) {
  const int size = GetParam();
  const ShardCase model(size);
  TestRanks ranks(size);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    RankDevice device(model.shards);
    for (const Holding holding : {Holding::kWhole, Holding::kInFlight}) {
      const auto gatherer = WeightGatherer::Create(*communicator, model.sharded(),
                                                   {.holding = holding, .ops = device.ops.get()})
                                .value();
      for (uint64_t clock = 1; clock <= 2; ++clock) {
        gatherer->Outdate();
        for (size_t p = 0; p < device.by_part.size(); ++p) {
          const ShardLayout::Part& part = model.shards.parts()[p];
          std::vector<float> slice(part.slice);
          for (uint64_t i = 0; i < part.slice; ++i) {
            slice[i] = CaseValue(clock, part.begin + communicator->rank() * part.slice + i);
          }
          device.Write(slice, device.by_part[p].data());
        }
        const std::vector<absl::Span<const float>> weights(device.by_part.begin(),
                                                           device.by_part.end());
        for (int unit = 0; unit < ShardCase::kUnits; ++unit) {
          gatherer->Start(unit, weights);
          for (const int owner : gatherer->places().tied_units(unit)) {
            gatherer->Start(owner, weights);
            ASSERT_EQ(gatherer->Await(owner), absl::OkStatus());
          }
          ASSERT_EQ(gatherer->Await(unit), absl::OkStatus());
          for (size_t t = 0; t < model.tensors.size(); ++t) {
            const TensorSpec& tensor = model.tensors[t];
            if (static_cast<int>(tensor.unit) != unit || tensor.elements() == 0) continue;
            const uint64_t begin = model.layout.tensor_offset(static_cast<int>(t));
            const DType compute = model.shards.parts()[model.shards.PartOf(begin)].compute;
            std::vector<float> expected(tensor.elements());
            for (size_t i = 0; i < expected.size(); ++i) expected[i] = CaseValue(clock, begin + i);
            if (compute == DType::kF32) {
              EXPECT_EQ(device.Read(gatherer->parameters().values[t].data(), expected.size()),
                        expected)
                  << tensor.name;
              continue;
            }
            std::vector<uint16_t> rounded(expected.size()), bits(expected.size());
            RoundToHalf(compute, expected, rounded.data());
            device.stream->CopyToHost(bits.data(), gatherer->parameters().rounded[t],
                                      bits.size() * sizeof(uint16_t));
            EXPECT_EQ(device.stream->Synchronize(), absl::OkStatus());
            EXPECT_EQ(bits, rounded) << tensor.name;
          }
        }
      }
      gatherer->Outdate();
    }
  });
}

// The gradient of an element that a rank computes in a micro-batch: sums of few are exact.
float Gradient(int rank, int micro_batch, uint64_t flat) {
  return static_cast<float>((flat * 7 + rank * 3 + micro_batch * 5) % 16) - 4;
}

TEST_P(DeviceSliceOpsTest, GradientsOfSeveralMicroBatchesAreSummedBehindTheComputation) {
  const int size = GetParam();
  constexpr int kMicroBatches = 3;
  const ShardCase model(size);
  TestRanks ranks(size);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    RankDevice device(model.shards);
    for (const Holding holding : {Holding::kWhole, Holding::kInFlight}) {
      const auto scatterer =
          GradientScatterer::Create(
              *communicator, model.sharded(),
              {.holding = holding, .ops = device.ops.get(), .sums = device.space})
              .value();
      for (int step = 0; step < 2; ++step) {
        for (int m = 0; m < kMicroBatches; ++m) {
          scatterer->BeginMicroBatch(m + 1 < kMicroBatches ? SeriesPosition::kMoreFollow
                                                           : SeriesPosition::kLast);
          const bool adds = scatterer->GradientStore() == Accumulation::kAdd;
          for (int unit = ShardCase::kUnits - 1; unit >= 0; --unit) {
            ASSERT_EQ(scatterer->BeforeWrite(unit), absl::OkStatus());
            for (size_t t = 0; t < model.tensors.size(); ++t) {
              const TensorSpec& tensor = model.tensors[t];
              // A tied tensor's gradient is its owner's, which writes all of it here.
              if (static_cast<int>(tensor.unit) != unit || !tensor.tied_to.empty()) continue;
              const uint64_t begin = model.layout.tensor_offset(static_cast<int>(t));
              std::vector<float> gradient(tensor.elements());
              for (size_t i = 0; i < gradient.size(); ++i) {
                for (int before = adds ? 0 : m; before <= m; ++before) {
                  gradient[i] += Gradient(communicator->rank(), before, begin + i);
                }
              }
              device.Write(gradient, scatterer->gradients()[t].data());
            }
            scatterer->UnitReady(unit);
          }
        }
        ASSERT_EQ(scatterer->Finish(), absl::OkStatus());
        for (size_t p = 0; p < model.shards.parts().size(); ++p) {
          const ShardLayout::Part& part = model.shards.parts()[p];
          std::vector<float> expected(part.slice);
          for (uint64_t i = 0; i < part.slice; ++i) {
            const uint64_t flat = part.begin + communicator->rank() * part.slice + i;
            if (flat >= part.end) continue;
            for (int rank = 0; rank < size; ++rank) {
              for (int m = 0; m < kMicroBatches; ++m) expected[i] += Gradient(rank, m, flat);
            }
          }
          EXPECT_EQ(device.Read(scatterer->sums()[p].data(), part.slice), expected) << p;
        }
      }
    }
  });
}

// A computation that failed is not sent; the other ranks' calls end with this rank's.
TEST(DeviceSliceOpsFailureTest, WhatAFailedComputationLeftIsNotGathered) {
  const ShardCase model(2);
  TestRanks ranks(2);
  ranks.Run([&](std::unique_ptr<Communicator> communicator) {
    RankDevice device(model.shards);
    auto gatherer =
        WeightGatherer::Create(*communicator, model.sharded(), {.ops = device.ops.get()}).value();
    ranks.AwaitAll();
    device.stream->Fill(device.space.data(), 0, device.space.size() * sizeof(float));
    if (communicator->rank() == 0) device.stream->Fail(absl::DataLossError("a kernel failed"));
    const std::vector<absl::Span<const float>> weights(device.by_part.begin(),
                                                       device.by_part.end());
    gatherer->Start(0, weights);
    if (communicator->rank() == 0) {
      EXPECT_EQ(gatherer->Await(0).code(), absl::StatusCode::kDataLoss);
      communicator->Abort("the device failed");
    } else {
      EXPECT_EQ(gatherer->Await(0).code(), absl::StatusCode::kAborted);
    }
    // What is queued reads and writes memory that is about to go.
    device.stream->Synchronize().IgnoreError();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceSliceOpsTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace muster
