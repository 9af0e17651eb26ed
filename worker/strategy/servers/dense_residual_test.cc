#include "worker/strategy/servers/dense_residual.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "common/tensor/wire_elements.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Two units of a few blocks each, on two partitions.
DenseLayout Layout() {
  std::vector<TensorSpec> tensors(2);
  tensors[0].name = "a";
  tensors[0].shape = {50};
  tensors[1].name = "b";
  tensors[1].shape = {7, 9};
  tensors[1].unit = 1;
  DenseLayout::Options options;
  options.block_bytes = 64;
  options.partitions = 2;
  return DenseLayout::Create(tensors, options).value();
}

TEST(DenseResidualTest, WhatPushesSentAndWhatIsOwedIsWhatWasGiven) {
  const DenseLayout layout = Layout();
  const auto runs = DenseRunsByUnit(layout, 2, 128);
  for (const DType type : {DType::kBf16, DType::kF16}) {
    DenseResidual residual(layout, type, 2);
    std::vector<float> sent(layout.elements()), given(layout.elements());
    for (int step = 0; step < 50; ++step) {
      std::vector<float> gradient(layout.elements());
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = 0.001f * static_cast<float>(static_cast<int>(i) + step % 3 - 50);
        given[i] += gradient[i];
      }
      residual.BeginStep();
      for (const auto& unit : runs) {
        for (const DenseRun& run : unit) {
          const Payload payload = residual.Round(run, gradient);
          ASSERT_EQ(payload.size(), run.elements() * 2);
          std::vector<float> values(run.elements());
          ReadElements(type, payload, absl::MakeSpan(values));
          for (size_t i = 0; i < values.size(); ++i) sent[run.begin + i] += values[i];
        }
      }
      residual.EndStep();
    }
    float largest = 0;
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_NEAR(sent[i] + residual.values()[i], given[i], 1e-4f) << i;
      largest = std::max(largest, std::abs(residual.values()[i]));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(largest, 0.0005f);
  }
}

// What is under way must not change with the next step.
TEST(DenseResidualTest, PushesUnderWayKeepTheirBytes) {
  const DenseLayout layout = Layout();
  const DenseRun run = DenseRunsByUnit(layout, 2, 128)[0][0];
  DenseResidual residual(layout, DType::kBf16, 2);
  residual.BeginStep();
  const Payload first = residual.Round(run, std::vector<float>(layout.elements(), 1));
  residual.EndStep();
  residual.BeginStep();
  residual.Round(run, std::vector<float>(layout.elements(), 2));
  std::vector<float> values(run.elements());
  ReadElements(DType::kBf16, first, absl::MakeSpan(values));
  EXPECT_EQ(values, std::vector<float>(run.elements(), 1));
}

TEST(DenseResidualTest, ClearsARunAlone) {
  const DenseLayout layout = Layout();
  const auto runs = DenseRunsByUnit(layout, 2, 128);
  DenseResidual residual(layout, DType::kF16, 1);
  residual.BeginStep();
  const std::vector<float> gradient(layout.elements(), 0.1f);
  for (const DenseRun& run : runs[0]) residual.Round(run, gradient);
  residual.Clear(runs[0][0]);
  for (const DenseRun& run : runs[0]) {
    for (uint64_t i = run.begin; i < run.end; ++i) {
      EXPECT_EQ(residual.values()[i] == 0, &run == &runs[0][0]);
    }
  }
}

TEST(DenseResidualTest, APartitionsPartIsItsBlocksInOrder) {
  const DenseLayout layout = Layout();
  DenseResidual residual(layout, DType::kBf16, 1);
  residual.BeginStep();
  std::vector<float> gradient(layout.elements());
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = 1 + 0.0001f * static_cast<float>(i);
  for (const auto& unit : DenseRunsByUnit(layout, 2, 128)) {
    for (const DenseRun& run : unit) residual.Round(run, gradient);
  }
  for (uint32_t partition = 0; partition < 2; ++partition) {
    std::string bytes = "x";
    residual.Append(partition, bytes);
    size_t at = 1;
    for (uint32_t id : layout.partition_blocks(partition)) {
      const DenseLayout::Block& block = layout.blocks()[id];
      for (uint64_t i = block.begin; i < block.end; ++i, at += 4) {
        float value;
        std::memcpy(&value, &bytes[at], 4);
        EXPECT_EQ(value, residual.values()[i]);
      }
    }
    EXPECT_EQ(at, bytes.size());
  }
}

}  // namespace
}  // namespace muster
