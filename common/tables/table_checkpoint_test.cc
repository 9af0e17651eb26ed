#include "common/tables/table_checkpoint.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/partition/local_tensors.h"
#include "common/partition/schema.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

constexpr char kRoot[] = "/checkpoints";
constexpr uint64_t kClock = 3;
const std::vector<std::string> kState = {"m", "v"};

TensorSpec Tensor(std::string name, std::vector<int64_t> shape, Placement placement) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  tensor.placement = std::move(placement);
  return tensor;
}

// The tensors of an attention and a feed-forward part: rows in sections, columns, vectors, one that
// all ranks have and one that only the first has.
std::vector<TensorSpec> Tensors() {
  using Kind = Placement::Kind;
  TensorSpec first = Tensor("proj.bias", {8}, {.kind = Kind::kFirst});
  return {Tensor("qkv.weight", {32, 8}, {Kind::kShard, 0, {{16, 8}, {8, 4}, {8, 4}}}),
          Tensor("qkv.bias", {32}, {Kind::kShard, 0, {{16, 8}, {8, 4}, {8, 4}}}),
          Tensor("down.weight", {8, 16}, {Kind::kShard, 1, {{16, 16}}}), std::move(first)};
}

DenseLayout Layout(absl::Span<const TensorSpec> tensors) {
  return DenseLayout::Create(tensors, {.block_bytes = 4 * 48, .partitions = 1}).value();
}

// A value that tells apart all elements of all tensors and state arrays.
float ValueOf(int tensor, int array, uint64_t global) {
  return static_cast<float>(tensor * 4096 + array * 1024) + static_cast<float>(global);
}

class LocalTensorsOfCheckpointsTest : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void Write(int ranks) {
    v1::CheckpointManifest manifest;
    manifest.set_job_id("job");
    manifest.set_clock(kClock);
    SetTables(Tensors(), {}, *manifest.mutable_schema());
    manifest.mutable_schema()->set_partitions(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<TensorSpec> local =
          LocalTensors(Tensors(), {Mesh({.tensor = ranks})}, rank).value();
      const DenseLayout layout = Layout(local);
      std::vector<std::vector<float>> arrays;
      PartitionContent content;
      content.job_id = "job";
      content.generation = 1;
      content.clock = kClock;
      content.partition = rank;
      content.state_names = kState;
      content.tensors = local;
      for (const DenseLayout::Block& block : layout.blocks()) {
        std::vector<float>& values = arrays.emplace_back(3 * block.elements());
        Fill(local, block, absl::MakeSpan(values));
      }
      for (size_t i = 0; i < arrays.size(); ++i) {
        const size_t n = layout.blocks()[i].elements();
        content.blocks.push_back({&layout.blocks()[i], absl::MakeSpan(arrays[i]).first(n),
                                  absl::MakeSpan(arrays[i]).subspan(n), kClock});
      }
      const auto info = WritePartition(storage_, kRoot, content);
      ASSERT_TRUE(info.ok()) << info.status();
      v1::CheckpointFile& file = *manifest.add_files();
      file.set_partition(rank);
      file.set_path(info->path);
      file.set_bytes(info->bytes);
      file.set_checksum(info->checksum);
    }
    ASSERT_TRUE(WriteManifest(storage_, CheckpointFolder(kRoot, "job", kClock), manifest).ok());
  }

  // Fills weights and two state arrays of a block, one after another.
  static void Fill(absl::Span<const TensorSpec> local, const DenseLayout::Block& block,
                   absl::Span<float> values) {
    for (int array = 0; array < 3; ++array) {
      uint64_t at = array * block.elements();
      for (const DenseLayout::Piece& piece : block.pieces) {
        ForEachGlobal(local[piece.tensor], piece.begin, piece.end,
                      [&](uint64_t, uint64_t global, uint64_t count) {
                        for (uint64_t i = 0; i < count; ++i) {
                          values[at++] = ValueOf(piece.tensor, array, global + i);
                        }
                      });
      }
    }
  }

  MemoryStorage storage_;
};

// Ranks of any number read what ranks of any other number write.
TEST_P(LocalTensorsOfCheckpointsTest, GoToAnyNumberOfRanks) {
  const auto [writers, readers] = GetParam();
  ASSERT_NO_FATAL_FAILURE(Write(writers));
  const auto reader = CheckpointReader::Open(storage_, CheckpointFolder(kRoot, "job", kClock));
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (int rank = 0; rank < readers; ++rank) {
    const std::vector<TensorSpec> local =
        LocalTensors(Tensors(), {Mesh({.tensor = readers})}, rank).value();
    const DenseLayout layout = Layout(local);
    for (const DenseLayout::Block& block : layout.blocks()) {
      const size_t n = block.elements();
      std::vector<float> expected(3 * n), restored(3 * n, -1);
      Fill(local, block, absl::MakeSpan(expected));
      const auto steps =
          RestoreBlock(**reader, RestoreExtent::kAll, local, block, {kState},
                       absl::MakeSpan(restored).first(n), absl::MakeSpan(restored).subspan(n));
      ASSERT_TRUE(steps.ok()) << steps.status();
      EXPECT_EQ(*steps, kClock);
      EXPECT_EQ(restored, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WritersAndReaders, LocalTensorsOfCheckpointsTest,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(1, 2, 4)));

}  // namespace
}  // namespace muster
