// A ShardState whose optimizer state is in a file.
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/memory_storage.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "worker/strategy/shard_checkpoints_for_testing.h"
#include "worker/strategy/shard_state.h"

namespace muster {
namespace {

// 7 million weights, whose state of 56 MiB is in memory in two parts, one after the other.
class OffloadedStateTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 7, kColumns = 1 << 20;

  static v1::TablesSchema Large() {
    v1::TablesSchema schema;
    v1::TensorSchema* tensor = schema.add_tensors();
    tensor->set_name("w");
    tensor->add_shape(kRows);
    tensor->add_shape(kColumns);
    tensor->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
    tensor->mutable_initializer()->set_scale(1);
    schema.set_partitions(2);
    schema.set_block_bytes(1 << 20);
    schema.mutable_optimizer()->set_name("adam");
    schema.mutable_optimizer()->set_learning_rate(0.1);
    schema.set_total_steps(100);
    return schema;
  }

  // Trains some steps; writes a checkpoint and restores it.
  static std::unique_ptr<ShardState> Train(const absl::optional<std::string>& offload_folder,
                                           CheckpointStorage& storage) {
    const v1::TablesSchema schema = Large();
    auto state = ShardState::Create(schema, {}, offload_folder).value();
    const std::vector<absl::Span<float>> slices = state->PartSlices(Sums());
    for (int step = 0; step < 2; ++step) state->Apply({.examples = 4, .dense = slices}, 1);
    const auto checkpoint = Checkpoint(*state, schema, storage);
    state->Reset();
    EXPECT_EQ(state->Restore(*checkpoint, RestoreExtent::kAll, 2), absl::OkStatus());
    state->Apply({.examples = 4, .dense = slices}, 1);
    return state;
  }

  static absl::Span<float> Sums() {
    static std::vector<float>* const sums = [] {
      auto* made = new std::vector<float>(kRows * kColumns);
      for (size_t i = 0; i < made->size(); ++i) (*made)[i] = static_cast<float>(i % 97) - 48;
      return made;
    }();
    return absl::MakeSpan(*sums);
  }

  const TempFolder folder_;
};

TEST_F(OffloadedStateTest, GoesThroughMemoryPartByPart) {
  MemoryStorage storage, other_storage;
  const auto in_memory = Train(absl::nullopt, storage);
  const auto offloaded = Train(folder_.path(), other_storage);
  EXPECT_EQ(offloaded->weights(), in_memory->weights());
  EXPECT_EQ(offloaded->state().optimizer_state, in_memory->state().optimizer_state);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Returns the most memory that was resident at once, in MiB.
int PeakMebibytes() {
  std::ifstream status("/proc/self/status");
  uint64_t kib = 0;
  std::string field;
  while (status >> field && field != "VmHWM:") {
  }
  status >> kib;
  return static_cast<int>(kib / 1024);
}

TEST_F(OffloadedStateTest, TakesNoMemoryOfItsOwnForTheState) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  // Ends the process; its exit status is what training took, in MiB.
  const auto train = [this](bool offload) {
    const int before = PeakMebibytes();
    absl::optional<std::string> folder;
    if (offload) folder = folder_.path();
    const auto state = ShardState::Create(Large(), {}, folder).value();
    const std::vector<absl::Span<float>> slices = state->PartSlices(Sums());
    for (int step = 0; step < 2; ++step) state->Apply({.examples = 4, .dense = slices}, 1);
    state->Reset();
    std::_Exit(PeakMebibytes() - before);
  };
  const auto takes = [](int mebibytes) {
    return [mebibytes](int status) {
      const int taken = WEXITSTATUS(status);
      EXPECT_GE(taken, mebibytes);
      EXPECT_LE(taken, mebibytes + 5);
      return WIFEXITED(status);
    };
  };
  Sums();
  constexpr int kWeights = 28, kState = 56;
  EXPECT_EXIT(train(/*offload=*/false), takes(kWeights + kState), "");
  EXPECT_EXIT(train(/*offload=*/true), takes(kWeights), "");
}

}  // namespace
}  // namespace muster
