// Shards with frozen tensors, and adapters that begin beside weights without any.
#include <cmath>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/memory_storage.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "worker/strategy/shard_checkpoints_for_testing.h"
#include "worker/strategy/shard_state.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

enum class Adapters { kNone, kSome };

// Two units with a frozen matrix each and, with adapters, a trained one beside the first.
v1::TablesSchema FrozenSchema(Adapters adapters, const std::string& optimizer = "adam") {
  v1::TablesSchema schema;
  const auto add = [&schema](const std::string& name, int64_t n, uint32_t unit) {
    v1::TensorSchema* tensor = schema.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(n);
    tensor->set_unit(unit);
    tensor->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
    tensor->mutable_initializer()->set_scale(1);
    return tensor;
  };
  add("w", 21, 0)->set_frozen(adapters == Adapters::kSome);
  if (adapters == Adapters::kSome) add("w.adapter.up", 7, 0);
  add("v", 9, 1)->set_frozen(adapters == Adapters::kSome);
  schema.set_partitions(2);
  schema.set_block_bytes(16);
  schema.mutable_optimizer()->set_name(optimizer);
  schema.mutable_optimizer()->set_learning_rate(0.1);
  schema.set_seed(4);
  return schema;
}

std::vector<float> WeightsOf(const ShardState& state) {
  return {state.weights().begin(), state.weights().end()};
}

// Makes a step with gradients of 1, 2 and so on.
void StepOnce(ShardState& state) {
  std::vector<float> sums(state.trained_shards().slice_elements());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i + 1);
  const std::vector<absl::Span<float>> slices = state.PartSlices(absl::MakeSpan(sums));
  state.Apply({.examples = 1, .dense = slices, .rows = {}}, 1);
}

TEST(FrozenStateTest, StepsMoveWhatIsTrainedAlone) {
  const auto state = ShardState::Create(FrozenSchema(Adapters::kSome)).value();
  EXPECT_EQ(state->trained_shards().slice_elements(), 7);
  EXPECT_EQ(state->state().optimizer_state.size(), 14);
  const std::vector<float> before = WeightsOf(*state);
  StepOnce(*state);
  const std::vector<float> after = WeightsOf(*state);
  ASSERT_EQ(after.size(), 37);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i] != before[i], i < 7) << i;
}

TEST(FrozenStateTest, NormsLeaveFrozenTensorsOut) {
  v1::TablesSchema schema = FrozenSchema(Adapters::kSome);
  schema.mutable_clipping()->set_by_global_norm(1);
  const auto state = ShardState::Create(schema).value();
  std::vector<float> sums(7, 2);
  const std::vector<absl::Span<float>> slices = state->PartSlices(absl::MakeSpan(sums));
  const auto clipping = state->Clipping({.examples = 1, .dense = slices, .rows = {}});
  ASSERT_TRUE(clipping.ok()) << clipping.status();
  EXPECT_FLOAT_EQ(*clipping->norm, std::sqrt(28.0));
}

TEST(FrozenStateTest, CheckpointsHaveAllWeightsAndTheStateOfWhatIsTrained) {
  const TempFolder folder;
  const v1::TablesSchema schema = FrozenSchema(Adapters::kSome);
  for (const bool offloaded : {false, true}) {
    MemoryStorage storage;
    absl::optional<std::string> offload_folder;
    if (offloaded) offload_folder = folder.path();
    const auto state = ShardState::Create(schema, {}, offload_folder).value();
    StepOnce(*state);
    const auto checkpoint = Checkpoint(*state, schema, storage);
    StepOnce(*state);
    const auto restored = ShardState::Create(schema, {}, offload_folder).value();
    ASSERT_EQ(restored->Restore(*checkpoint, RestoreExtent::kAll, 1), absl::OkStatus());
    StepOnce(*restored);
    EXPECT_EQ(WeightsOf(*restored), WeightsOf(*state));
  }
}

TEST(FrozenStateTest, AdaptersBeginBesideWeightsOfAJobWithoutAny) {
  MemoryStorage storage;
  const v1::TablesSchema plain = FrozenSchema(Adapters::kNone);
  const auto base = ShardState::Create(plain).value();
  StepOnce(*base);
  const auto checkpoint = Checkpoint(*base, plain, storage);
  const v1::TablesSchema schema = FrozenSchema(Adapters::kSome);
  const auto state = ShardState::Create(schema).value();
  const std::vector<float> initial = WeightsOf(*state);
  ASSERT_EQ(state->Restore(*checkpoint, RestoreExtent::kWeights, 0), absl::OkStatus());
  const std::vector<float> weights = WeightsOf(*state);
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 7),
            std::vector<float>(initial.begin(), initial.begin() + 7));
  EXPECT_EQ(std::vector<float>(weights.begin() + 7, weights.end()), WeightsOf(*base));

  // A job that goes on lacks them, and so does one whose weights have other adapters.
  EXPECT_THAT(std::string(state->Restore(*checkpoint, RestoreExtent::kAll, 1).message()),
              HasSubstr("w.adapter.up"));
  v1::TablesSchema other = schema;
  other.mutable_tensors(1)->set_name("v.adapter.up");
  state->Reset();
  const auto adapted = Checkpoint(*state, schema, storage);
  const auto wrong = ShardState::Create(other).value();
  EXPECT_THAT(std::string(wrong->Restore(*adapted, RestoreExtent::kWeights, 0).message()),
              HasSubstr("v.adapter.up"));
}

}  // namespace
}  // namespace muster
