#include "worker/strategy/shard_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/row_keys_for_testing.h"
#include "worker/strategy/shard_checkpoints_for_testing.h"

namespace muster {
namespace {

std::vector<RowSum> RowSums(std::initializer_list<uint32_t> dims) {
  return std::vector<RowSum>(dims.begin(), dims.end());
}

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// `optimizer` is a name, perhaps with options in text format after it.
//
// Two units, several blocks, a tensor without decay, one that is tied and one that moves by signs,
// two sparse tables.
v1::TablesSchema Schema(const std::string& optimizer, uint32_t partitions) {
  v1::TablesSchema schema;
  const auto add = [&schema](const std::string& name, int64_t n, uint32_t unit, bool decay) {
    v1::TensorSchema* tensor = schema.add_tensors();
    tensor->set_name(name);
    tensor->add_shape(n);
    tensor->set_unit(unit);
    tensor->set_weight_decay(decay);
    tensor->mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
    tensor->mutable_initializer()->set_scale(1);
    return tensor;
  };
  add("w", 11, 0, true);
  add("b", 3, 0, false);
  add("v", 6, 1, true);
  add("u", 6, 1, true)->set_tied_to("v");
  add("signs", 10, 0, true)->set_sign_rate(0.01);
  for (uint32_t dim : {2, 3}) {
    v1::SparseTableSchema* table = schema.add_sparse();
    table->set_name(dim == 2 ? "s" : "t");
    table->set_dim(dim);
    table->mutable_initializer()->set_kind(v1::Initializer::NORMAL);
    table->mutable_initializer()->set_scale(0.5);
  }
  schema.set_partitions(partitions);
  schema.set_block_bytes(16);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(absl::StrCat("name: ", optimizer),
                                                            schema.mutable_optimizer()));
  schema.mutable_optimizer()->set_learning_rate(0.1);
  schema.set_seed(4);
  schema.set_total_steps(100);
  return schema;
}

std::unique_ptr<ShardState> Make(const v1::TablesSchema& schema) {
  return ShardState::Create(schema).value();
}

// Makes steps whose gradients depend on the clock alone.
class Gradients {
 public:
  explicit Gradients(const ShardState& state)
      : dense_(state.layout().elements()), slices_(state.PartSlices(absl::MakeSpan(dense_))) {
    for (const SparseTableSpec& table : state.tables().sparse) rows_.emplace_back(table.dim);
  }

  GradientSums At(uint64_t clock) {
    const Philox random(7, "gradients", "");
    for (size_t i = 0; i < dense_.size(); ++i) dense_[i] = Value(random, clock, i);
    for (size_t t = 0; t < rows_.size(); ++t) {
      rows_[t].Clear();
      std::vector<uint64_t> keys;
      std::vector<float> rows;
      for (uint64_t key = clock; key < clock + 5; ++key) {
        keys.push_back(key * 1000);
        for (uint32_t i = 0; i < rows_[t].dim(); ++i) {
          rows.push_back(Value(random, clock, 100 * (t + 1) + 10 * (key - clock) + i));
        }
      }
      rows_[t].Add(keys, rows);
    }
    return {8, slices_, rows_};
  }

 private:
  static float Value(const Philox& random, uint64_t clock, uint64_t i) {
    return static_cast<float>(random.Below(2001, clock, i)) / 100 - 10;
  }

  std::vector<float> dense_;
  std::vector<absl::Span<float>> slices_;
  std::vector<RowSum> rows_;
};

void Train(ShardState& state, uint64_t end) {
  Gradients gradients(state);
  while (state.clock() < end) {
    const GradientSums sums = gradients.At(state.clock());
    const absl::StatusOr<NormClipping> clipping = state.Clipping(sums);
    ASSERT_EQ(clipping.status(), absl::OkStatus());
    state.Apply(sums, clipping->scale);
  }
}

// Expects that rows are the same, to the bit.
void ExpectSameRows(ShardState& a, ShardState& b) {
  const ShardState::State left = a.state(), right = b.state();
  for (size_t t = 0; t < left.rows.size(); ++t) {
    const auto rows = left.rows[t].Sorted(), others = right.rows[t].Sorted();
    ASSERT_EQ(rows.size(), others.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i]->key, others[i]->key);
      EXPECT_EQ(rows[i]->steps, others[i]->steps);
      EXPECT_EQ(rows[i]->last_use, others[i]->last_use);
      const uint32_t width = left.rows[t].width();
      EXPECT_EQ(absl::MakeConstSpan(rows[i]->values(), width),
                absl::MakeConstSpan(others[i]->values(), width));
    }
  }
}

// Expects that everything that training changes is the same, to the bit.
void ExpectSame(ShardState& a, ShardState& b) {
  EXPECT_EQ(a.clock(), b.clock());
  const ShardState::State left = a.state(), right = b.state();
  EXPECT_EQ(left.weights, right.weights);
  EXPECT_EQ(left.optimizer_state, right.optimizer_state);
  EXPECT_EQ(left.steps, right.steps);
  ExpectSameRows(a, b);
}

// Creates the states of all shards of a group.
std::vector<std::unique_ptr<ShardState>> MakeShards(
    const v1::TablesSchema& schema, int count,
    const absl::optional<std::string>& offload_folder = absl::nullopt) {
  std::vector<std::unique_ptr<ShardState>> shards;
  for (int shard = 0; shard < count; ++shard) {
    shards.push_back(
        ShardState::Create(schema, {Mesh({.shard = count}), shard}, offload_folder).value());
  }
  return shards;
}

// Returns the rows that a shard owns.
std::vector<RowSum> OwnRows(absl::Span<const RowSum> rows, const ShardState& shard) {
  std::vector<RowSum> own;
  for (const RowSum& sum : rows) {
    own.emplace_back(sum.dim());
    for (size_t i = 0; i < sum.keys().size(); ++i) {
      if (shard.OwnerOf(sum.keys()[i]) != static_cast<uint32_t>(shard.shard().at(Axis::kShard)))
        continue;
      own.back().Add({sum.keys()[i]},
                     absl::MakeConstSpan(sum.sums()).subspan(i * sum.dim(), sum.dim()));
    }
  }
  return own;
}

// Trains a group's shards on the gradients of Train, those of signs multiplied by a factor.
void TrainShards(const std::vector<std::unique_ptr<ShardState>>& shards, uint64_t end,
                 float sign_factor = 1) {
  const auto whole = ShardState::Create(Schema("'sgd'", 1)).value();
  Gradients gradients(*whole);
  while (shards[0]->clock() < end) {
    const GradientSums sums = gradients.At(shards[0]->clock());
    // Memory that the shard does not own is NaN, so that a read of it shows.
    std::vector<std::vector<float>> memory;
    std::vector<std::vector<absl::Span<float>>> slices;
    std::vector<double> cells;
    std::vector<std::vector<RowSum>> rows;
    for (const auto& shard : shards) {
      rows.push_back(OwnRows(sums.rows, *shard));
      memory.emplace_back(shard->shard_layout().slice_elements(), NAN);
      slices.push_back(shard->PartSlices(absl::MakeSpan(memory.back())));
      for (const ShardLayout::OwnedBlock& owned : shard->owned_blocks()) {
        for (uint64_t i = 0; i < owned.block.elements(); ++i) {
          const DenseLayout::Part& part = shard->layout().parts()[owned.block.part];
          memory.back()[owned.slice_begin + i] =
              sums.dense[owned.block.part][owned.block.begin - part.begin + i] *
              (owned.block.sign_rate > 0 ? sign_factor : 1);
        }
      }
      const std::vector<double> own = shard->CellNorms(slices.back(), rows.back());
      ASSERT_EQ(own.size(), shard->cells_by_shard()[shard->shard().rank]);
      cells.insert(cells.end(), own.begin(), own.end());
    }
    for (size_t s = 0; s < shards.size(); ++s) {
      const GradientSums own = {sums.examples, slices[s], rows[s], cells};
      const absl::StatusOr<NormClipping> clipping = shards[s]->Clipping(own);
      ASSERT_EQ(clipping.status(), absl::OkStatus());
      shards[s]->Apply(own, clipping->scale);
    }
  }
}

// Returns all weights and optimizer state of a checkpoint, by the names of the files' arrays.
std::map<std::string, std::vector<float>> Stored(const CheckpointReader& checkpoint,
                                                 const v1::TablesSchema& schema) {
  std::map<std::string, std::vector<float>> stored;
  std::vector<std::string> arrays = {""};
  arrays.insert(arrays.end(), checkpoint.state_names().begin(), checkpoint.state_names().end());
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    if (!tensor.tied_to().empty()) continue;
    for (const std::string& array : arrays) {
      std::vector<float>& values = stored[tensor.name() + "/" + array];
      values.resize(tensor.shape(0));
      EXPECT_EQ(checkpoint.ReadTensor(tensor.name(), array, 0, absl::MakeSpan(values)),
                absl::OkStatus());
    }
  }
  return stored;
}

class ShardStateOptimizerTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ShardStateOptimizerTest, GoesOnFromACheckpointAsIfNothingHadHappened) {
  const v1::TablesSchema schema = Schema(GetParam(), 3);
  const auto undisturbed = Make(schema);
  Train(*undisturbed, 9);
  const auto saved = Make(schema);
  Train(*saved, 5);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, schema, storage);
  // With another number of partitions the state reads the same, in other blocks.
  for (uint32_t partitions : {3, 1, 5}) {
    v1::TablesSchema other = Schema(GetParam(), partitions);
    const auto restored = Make(other);
    ASSERT_EQ(restored->Restore(*checkpoint, RestoreExtent::kAll, 5), absl::OkStatus());
    ExpectSame(*restored, *saved);
    Train(*restored, 9);
    ExpectSame(*restored, *undisturbed);
  }
}

// Results are the same to the bit, whatever the number of shards that trained, wrote and read.
TEST_P(ShardStateOptimizerTest, ShardsAreTheWhole) {
  v1::TablesSchema schema = Schema(GetParam(), 3);
  schema.mutable_clipping()->set_by_global_norm(3);
  const auto whole = Make(schema);
  Train(*whole, 5);
  MemoryStorage whole_storage;
  const auto expected = Stored(*Checkpoint(*whole, schema, whole_storage), schema);
  Train(*whole, 8);
  MemoryStorage end_storage;
  const auto expected_end = Stored(*Checkpoint(*whole, schema, end_storage), schema);

  const auto trained = MakeShards(schema, 3);
  TrainShards(trained, 5);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(trained, schema, storage);
  EXPECT_EQ(Stored(*checkpoint, schema), expected);
  for (const int count : {1, 2, 4, 8}) {
    SCOPED_TRACE(count);
    v1::TablesSchema other = schema;
    other.set_partitions(count);
    const auto shards = MakeShards(other, count);
    for (const auto& shard : shards) {
      ASSERT_EQ(shard->Restore(*checkpoint, RestoreExtent::kAll, 5), absl::OkStatus());
    }
    TrainShards(shards, 8);
    MemoryStorage again;
    const auto end = Checkpoint(shards, other, again);
    EXPECT_EQ(Stored(*end, schema), expected_end);
    const auto read = Make(other);
    ASSERT_EQ(read->Restore(*end, RestoreExtent::kAll, 8), absl::OkStatus());
    ExpectSameRows(*read, *whole);
    for (size_t table = 0; table < 2; ++table) {
      size_t rows = 0;
      for (const auto& shard : shards) rows += KeysOf(*shard, table).size();
      EXPECT_EQ(rows, KeysOf(*whole, table).size());
    }
  }
}

TEST_P(ShardStateOptimizerTest, WeightsMayLieElsewhereForATime) {
  const v1::TablesSchema schema = Schema(GetParam(), 2);
  const auto undisturbed = MakeShards(schema, 2);
  TrainShards(undisturbed, 6);
  const auto moved = MakeShards(schema, 2);
  TrainShards(moved, 2);
  ASSERT_EQ(moved[1]->slices().size(), 2);
  std::vector<float> elsewhere(moved[1]->slices()[1].size());
  moved[1]->PlaceWeights({nullptr, elsewhere.data()});
  EXPECT_EQ(moved[1]->slices()[1].data(), elsewhere.data());
  TrainShards(moved, 4);
  EXPECT_NE(elsewhere, std::vector<float>(elsewhere.size()));
  moved[1]->PlaceWeights({});
  std::fill(elsewhere.begin(), elsewhere.end(), NAN);
  TrainShards(moved, 6);
  EXPECT_EQ(moved[1]->weights(), undisturbed[1]->weights());
  EXPECT_EQ(moved[1]->state().optimizer_state, undisturbed[1]->state().optimizer_state);
}

TEST_P(ShardStateOptimizerTest, OffloadedStateMakesTheSameSteps) {
  const v1::TablesSchema schema = Schema(GetParam(), 2);
  const TempFolder folder;
  const auto in_memory = MakeShards(schema, 2);
  const auto offloaded = MakeShards(schema, 2, folder.path());
  for (const uint64_t clock : {0, 3}) {
    TrainShards(in_memory, clock);
    TrainShards(offloaded, clock);
    for (int shard = 0; shard < 2; ++shard) ExpectSame(*offloaded[shard], *in_memory[shard]);
  }
  MemoryStorage storage, other_storage;
  const auto checkpoint = Checkpoint(offloaded, schema, storage);
  EXPECT_EQ(Stored(*checkpoint, schema),
            Stored(*Checkpoint(in_memory, schema, other_storage), schema));
  for (const auto& shard : offloaded) shard->Reset();
  ExpectSame(*offloaded[1], *MakeShards(schema, 2)[1]);
  for (const auto& shard : offloaded) {
    ASSERT_EQ(shard->Restore(*checkpoint, RestoreExtent::kAll, 3), absl::OkStatus());
  }
  TrainShards(in_memory, 5);
  TrainShards(offloaded, 5);
  for (int shard = 0; shard < 2; ++shard) ExpectSame(*offloaded[shard], *in_memory[shard]);
}

INSTANTIATE_TEST_SUITE_P(All, ShardStateOptimizerTest,
                         ::testing::Values("'sgd'", "'momentum'", "'row_wise_adagrad'", "'adam'",
                                           "'lion' average_decay: 0.75",
                                           "'adamw' state_type: BF16 average_decay: 0.75",
                                           "'ftrl'"));

TEST(ShardStateTest, TakesWeightsAloneFromAnotherJob) {
  const auto saved = Make(Schema("'adam'", 2));
  Train(*saved, 4);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, Schema("'adam'", 2), storage);
  const auto fresh = Make(Schema("'adam'", 2));
  const auto restored = Make(Schema("'adam'", 2));
  ASSERT_EQ(restored->Restore(*checkpoint, RestoreExtent::kWeights, 0), absl::OkStatus());
  EXPECT_EQ(restored->clock(), 0);
  EXPECT_EQ(restored->weights(), saved->weights());
  EXPECT_EQ(restored->state().optimizer_state, fresh->state().optimizer_state);
  EXPECT_EQ(restored->state().steps, fresh->state().steps);
  EXPECT_EQ(KeysOf(*restored, 1), KeysOf(*saved, 1));
  const SparseTable::Row& row = *restored->state().rows[1].Sorted()[0];
  EXPECT_EQ(row.steps, 0);
  EXPECT_EQ(row.values()[0], saved->state().rows[1].Sorted()[0]->values()[0]);
  EXPECT_EQ(row.values()[3], 0);
}

TEST(ShardStateTest, TakesAveragesInTheWeightsPlace) {
  const v1::TablesSchema schema = Schema("'adam' average_decay: 0.75", 2);
  const auto saved = MakeShards(schema, 2);
  TrainShards(saved, 4);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(saved, schema, storage);
  const auto stored = Stored(*checkpoint, schema);
  EXPECT_NE(stored.at("w/average"), stored.at("w/"));
  // Also of what signs move.
  EXPECT_NE(stored.at("signs/average"), stored.at("signs/"));
  for (const RestoreExtent extent : {RestoreExtent::kAverages, RestoreExtent::kWeights}) {
    const auto restored = Make(schema);
    ASSERT_EQ(restored->Restore(*checkpoint, extent, 0), absl::OkStatus());
    MemoryStorage again;
    const auto read = Stored(*Checkpoint(*restored, schema, again), schema);
    const char* const array = extent == RestoreExtent::kAverages ? "/average" : "/";
    for (const std::string tensor : {"w", "b", "v", "signs"}) {
      EXPECT_EQ(read.at(tensor + "/"), stored.at(tensor + array)) << tensor;
      // Averages begin anew, at the weights.
      EXPECT_EQ(read.at(tensor + "/average"), read.at(tensor + "/")) << tensor;
      EXPECT_THAT(read.at(tensor + "/m"), Each(0)) << tensor;
    }
  }
}

TEST(ShardStateTest, AveragesThatACheckpointLacksBeginAtTheWeights) {
  const v1::TablesSchema without = Schema("'adam'", 2);
  const auto saved = Make(without);
  Train(*saved, 4);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, without, storage);
  const v1::TablesSchema with = Schema("'adam' average_decay: 0.75", 2);
  const auto resumed = Make(with);
  ASSERT_EQ(resumed->Restore(*checkpoint, RestoreExtent::kAll, 4), absl::OkStatus());
  MemoryStorage again;
  const auto read = Stored(*Checkpoint(*resumed, with, again), with);
  EXPECT_EQ(read.at("w/average"), read.at("w/"));
  EXPECT_EQ(read.at("w/m"), Stored(*checkpoint, without).at("w/m"));

  const absl::Status refused = Make(with)->Restore(*checkpoint, RestoreExtent::kAverages, 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("kept no averages"));
}

// What is in 16 bits goes into checkpoints as any state, and the other way round.
TEST(ShardStateTest, CheckpointsOfEitherStateTypeAreRead) {
  for (const bool packed_first : {true, false}) {
    const v1::TablesSchema packed = Schema("'adam' state_type: BF16", 2);
    const v1::TablesSchema wide = Schema("'adam'", 2);
    const v1::TablesSchema& first = packed_first ? packed : wide;
    const v1::TablesSchema& second = packed_first ? wide : packed;
    const auto saved = Make(first);
    Train(*saved, 4);
    MemoryStorage storage, again;
    const auto checkpoint = Checkpoint(*saved, first, storage);
    const auto resumed = Make(second);
    ASSERT_EQ(resumed->Restore(*checkpoint, RestoreExtent::kAll, 4), absl::OkStatus());
    const auto expected = Stored(*checkpoint, first);
    const auto read = Stored(*Checkpoint(*resumed, second, again), second);
    EXPECT_EQ(read.at("w/"), expected.at("w/"));
    for (const char* array : {"w/m", "w/v"}) {
      for (size_t i = 0; i < read.at(array).size(); ++i) {
        // To the nearest of 8 bits.
        EXPECT_NEAR(read.at(array)[i], expected.at(array)[i],
                    packed_first ? 0 : std::abs(expected.at(array)[i]) / 256);
      }
    }
  }
  EXPECT_EQ(2 * Make(Schema("'adam' state_type: BF16", 2))->state().optimizer_state.size(),
            Make(Schema("'adam'", 2))->state().optimizer_state.size());
}

TEST(ShardStateTest, RefusesWeightsOfAnotherTokenizer) {
  v1::TablesSchema schema = Schema("'sgd'", 2);
  schema.mutable_tokenizer()->set_fingerprint(1);
  schema.mutable_tokenizer()->set_name("a.json");
  const auto saved = Make(schema);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, schema, storage);
  // The tokenizer counts by its content, wherever its file lies.
  schema.mutable_tokenizer()->set_name("b.json");
  EXPECT_EQ(Make(schema)->Restore(*checkpoint, RestoreExtent::kWeights, 0), absl::OkStatus());
  schema.mutable_tokenizer()->set_fingerprint(2);
  for (const RestoreExtent extent : {RestoreExtent::kWeights, RestoreExtent::kAll}) {
    const absl::Status refused = Make(schema)->Restore(*checkpoint, extent, 0);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("learned from tokens of a.json"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("b.json"));
  }
  schema.clear_tokenizer();
  EXPECT_EQ(Make(schema)->Restore(*checkpoint, RestoreExtent::kWeights, 0), absl::OkStatus());
}

TEST(ShardStateTest, NamesWhatACheckpointLacks) {
  const auto saved = Make(Schema("'sgd'", 2));
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, Schema("'sgd'", 2), storage);
  v1::TablesSchema schema = Schema("'sgd'", 2);
  schema.mutable_tensors(1)->set_name("other");
  const absl::Status status = Make(schema)->Restore(*checkpoint, RestoreExtent::kAll, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
}

TEST(ShardStateTest, ResetBringsInitialValuesBack) {
  const auto state = Make(Schema("'adam'", 2));
  Train(*state, 3);
  state->Reset();
  const auto fresh = Make(Schema("'adam'", 2));
  ExpectSame(*state, *fresh);
}

TEST(ShardStateTest, ATiedTensorIsSteppedOnce) {
  v1::TablesSchema schema = Schema("'sgd'", 1);
  const auto state = Make(schema);
  const float before = state->parameters()[2][0];
  std::vector<float> dense(state->layout().elements());
  dense[state->layout().tensor_offset(2)] = 8;
  std::vector<RowSum> rows = RowSums({2, 3});
  state->Apply({4, state->PartSlices(absl::MakeSpan(dense)), rows}, 1);
  EXPECT_FLOAT_EQ(state->parameters()[2][0], before - 0.1f * 2);
  EXPECT_EQ(state->parameters()[3][0], state->parameters()[2][0]);
}

TEST(ShardStateTest, DecaysOnlyWhatIsToDecay) {
  v1::TablesSchema schema = Schema("'sgd'", 1);
  schema.mutable_optimizer()->set_weight_decay(0.5);
  const auto state = Make(schema);
  const float w = state->parameters()[0][0], b = state->parameters()[1][0];
  std::vector<float> dense(state->layout().elements());
  std::vector<RowSum> rows = RowSums({2, 3});
  state->Apply({4, state->PartSlices(absl::MakeSpan(dense)), rows}, 1);
  EXPECT_FLOAT_EQ(state->parameters()[0][0], w * (1 - 0.05f));
  EXPECT_EQ(state->parameters()[1][0], b);
}

TEST(ShardStateTest, WhatMovesBySignsCountsInNoNorm) {
  for (const int count : {1, 3}) {
    v1::TablesSchema schema = Schema("'adam'", count);
    schema.mutable_clipping()->set_by_global_norm(1);
    std::vector<std::map<std::string, std::vector<float>>> stored;
    for (const float factor : {1.0f, 1e30f}) {
      const auto shards = MakeShards(schema, count);
      TrainShards(shards, 4, factor);
      MemoryStorage storage;
      stored.push_back(Stored(*Checkpoint(shards, schema, storage), schema));
    }
    // Of the gradient, the sign alone matters.
    EXPECT_EQ(stored[0], stored[1]);
    EXPECT_THAT(stored[0]["signs/m"], Each(0));
    const auto fresh = Make(schema);
    int moved = 0;
    for (size_t i = 0; i < 10; ++i) {
      // Four steps of the rate, each up or down.
      const float steps = (stored[0]["signs/"][i] - fresh->parameters()[4][i]) / 0.01f;
      EXPECT_NEAR(steps, std::round(steps), 1e-3);
      EXPECT_LE(std::abs(steps), 4.001);
      if (steps != 0) ++moved;
    }
    EXPECT_GT(moved, 0);
  }
}

TEST(ShardStateTest, TheGlobalNormIsThatOfAllParametersHoweverTheyAreDealt) {
  for (uint32_t partitions : {1, 4}) {
    v1::TablesSchema schema = Schema("'sgd'", partitions);
    schema.mutable_clipping()->set_by_global_norm(1);
    const auto state = Make(schema);
    std::vector<float> dense(state->layout().elements());
    dense[0] = 8;
    dense.back() = 16;
    std::vector<RowSum> rows = RowSums({2, 3});
    rows[0].Add({1, 2}, {8, 0, 0, 8});
    rows[1].Add({3}, {0, 0, 8});
    const auto slices = state->PartSlices(absl::MakeSpan(dense));
    // Means over 8 examples: 1, 2, 1, 1, 1.
    EXPECT_DOUBLE_EQ(state->Clipping({8, slices, rows})->scale, 1 / std::sqrt(8.0));
    EXPECT_DOUBLE_EQ(*state->Clipping({8, slices, rows})->norm, std::sqrt(8.0));
    // There is no gradient at all.
    EXPECT_EQ(state->Clipping({0, slices, rows})->scale, 1);
    EXPECT_FALSE(state->Clipping({0, slices, rows})->norm.has_value());
    dense[1] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(state->Clipping({8, slices, rows}).status().code(), absl::StatusCode::kOutOfRange);
  }
}

TEST(ShardStateTest, ClipsByValueAfterTheMean) {
  v1::TablesSchema schema = Schema("'sgd'", 1);
  schema.mutable_clipping()->set_by_value(0.5);
  const auto state = Make(schema);
  const float before = state->parameters()[0][0], next = state->parameters()[0][1];
  std::vector<float> dense(state->layout().elements());
  dense[0] = 8;
  dense[1] = 1;
  std::vector<RowSum> rows = RowSums({2, 3});
  state->Apply({4, state->PartSlices(absl::MakeSpan(dense)), rows}, 1);
  EXPECT_FLOAT_EQ(state->parameters()[0][0], before - 0.1f * 0.5f);
  EXPECT_FLOAT_EQ(state->parameters()[0][1], next - 0.1f * 0.25f);
}

TEST(ShardStateTest, RowsReadAsTheirInitialValueBeforeTheirFirstPush) {
  const auto state = Make(Schema("'sgd'", 2));
  const auto other = Make(Schema("'sgd'", 2));
  std::vector<float> row(2), again(2);
  state->LookUp(0, {77}, absl::MakeSpan(row));
  EXPECT_THAT(KeysOf(*state, 0), ElementsAre());
  Train(*other, 1);
  other->LookUp(0, {77}, absl::MakeSpan(again));
  EXPECT_EQ(row, again);
  EXPECT_NE(row[0], 0);
}

}  // namespace
}  // namespace muster
