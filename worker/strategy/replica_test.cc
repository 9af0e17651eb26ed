#include "worker/strategy/replica.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "common/base/philox.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

std::vector<RowSum> RowSums(std::initializer_list<uint32_t> dims) {
  return std::vector<RowSum>(dims.begin(), dims.end());
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two units, several blocks, a tensor without decay and one that is tied, two sparse tables.
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
  for (uint32_t dim : {2, 3}) {
    v1::SparseTableSchema* table = schema.add_sparse();
    table->set_name(dim == 2 ? "s" : "t");
    table->set_dim(dim);
    table->mutable_initializer()->set_kind(v1::Initializer::NORMAL);
    table->mutable_initializer()->set_scale(0.5);
  }
  schema.set_partitions(partitions);
  schema.set_block_bytes(16);
  schema.mutable_optimizer()->set_name(optimizer);
  schema.mutable_optimizer()->set_learning_rate(0.1);
  schema.set_seed(4);
  schema.set_total_steps(100);
  return schema;
}

std::unique_ptr<Replica> Make(const v1::TablesSchema& schema) {
  return Replica::Create(schema).value();
}

// Steps with gradients that depend on the clock alone.
class Gradients {
 public:
  explicit Gradients(const Replica& replica) : dense_(replica.layout().elements()) {
    for (const SparseTableSpec& table : replica.tables().sparse) rows_.emplace_back(table.dim);
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
    return {8, dense_, rows_};
  }

 private:
  static float Value(const Philox& random, uint64_t clock, uint64_t i) {
    return static_cast<float>(random.Below(2001, clock, i)) / 100 - 10;
  }

  std::vector<float> dense_;
  std::vector<RowSum> rows_;
};

void Train(Replica& replica, uint64_t end) {
  Gradients gradients(replica);
  while (replica.clock() < end) {
    const GradientSums sums = gradients.At(replica.clock());
    const absl::StatusOr<NormClipping> clipping = replica.Clipping(sums);
    ASSERT_EQ(clipping.status(), absl::OkStatus());
    replica.Apply(sums, clipping->scale);
  }
}

// Everything that training changes, to the bit.
void ExpectSame(Replica& a, Replica& b) {
  EXPECT_EQ(a.clock(), b.clock());
  const Replica::State left = a.state(), right = b.state();
  EXPECT_EQ(left.weights, right.weights);
  EXPECT_EQ(left.optimizer_state, right.optimizer_state);
  EXPECT_EQ(left.steps, right.steps);
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

// Writes a complete checkpoint, and opens it.
std::unique_ptr<CheckpointReader> Checkpoint(const Replica& replica, const v1::TablesSchema& schema,
                                             CheckpointStorage& storage) {
  v1::CheckpointManifest manifest;
  manifest.set_job_id("job");
  manifest.set_generation(3);
  manifest.set_clock(replica.clock());
  *manifest.mutable_schema() = schema;
  for (uint32_t p = 0; p < schema.partitions(); ++p) {
    ReplicaFile file = {"/root", "job", 3, p, p};
    const PartitionFileInfo info = replica.Save(file, storage).value();
    v1::CheckpointFile* stored = manifest.add_files();
    stored->set_partition(p);
    stored->set_path(info.path);
    stored->set_bytes(info.bytes);
    stored->set_checksum(info.checksum);
  }
  const std::string folder = CheckpointFolder("/root", "job", replica.clock());
  EXPECT_EQ(WriteManifest(storage, folder, manifest), absl::OkStatus());
  return CheckpointReader::Open(storage, folder).value();
}

class ReplicaOptimizerTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ReplicaOptimizerTest, GoesOnFromACheckpointAsIfNothingHadHappened) {
  const v1::TablesSchema schema = Schema(GetParam(), 3);
  const auto undisturbed = Make(schema);
  Train(*undisturbed, 9);
  const auto saved = Make(schema);
  Train(*saved, 5);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, schema, storage);
  // Another number of partitions reads the same, with other blocks.
  for (uint32_t partitions : {3, 1, 5}) {
    v1::TablesSchema other = Schema(GetParam(), partitions);
    const auto restored = Make(other);
    ASSERT_EQ(restored->Restore(*checkpoint, RestoreExtent::kAll, 5), absl::OkStatus());
    ExpectSame(*restored, *saved);
    Train(*restored, 9);
    ExpectSame(*restored, *undisturbed);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaOptimizerTest,
                         ::testing::Values("sgd", "momentum", "row_wise_adagrad", "adam", "ftrl"));

TEST(ReplicaTest, TakesWeightsAloneFromAnotherJob) {
  const auto saved = Make(Schema("adam", 2));
  Train(*saved, 4);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, Schema("adam", 2), storage);
  const auto fresh = Make(Schema("adam", 2));
  const auto restored = Make(Schema("adam", 2));
  ASSERT_EQ(restored->Restore(*checkpoint, RestoreExtent::kWeights, 0), absl::OkStatus());
  EXPECT_EQ(restored->clock(), 0);
  EXPECT_EQ(restored->weights(), saved->weights());
  EXPECT_EQ(restored->state().optimizer_state, fresh->state().optimizer_state);
  EXPECT_EQ(restored->state().steps, fresh->state().steps);
  EXPECT_EQ(restored->Keys(1), saved->Keys(1));
  const SparseTable::Row& row = *restored->state().rows[1].Sorted()[0];
  EXPECT_EQ(row.steps, 0);
  EXPECT_EQ(row.values()[0], saved->state().rows[1].Sorted()[0]->values()[0]);
  EXPECT_EQ(row.values()[3], 0);
}

TEST(ReplicaTest, RefusesWeightsOfAnotherTokenizer) {
  v1::TablesSchema schema = Schema("sgd", 2);
  schema.mutable_tokenizer()->set_fingerprint(1);
  schema.mutable_tokenizer()->set_name("a.json");
  const auto saved = Make(schema);
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, schema, storage);
  // Wherever it lies.
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

TEST(ReplicaTest, NamesWhatACheckpointLacks) {
  const auto saved = Make(Schema("sgd", 2));
  MemoryStorage storage;
  const auto checkpoint = Checkpoint(*saved, Schema("sgd", 2), storage);
  v1::TablesSchema schema = Schema("sgd", 2);
  schema.mutable_tensors(1)->set_name("other");
  const absl::Status status = Make(schema)->Restore(*checkpoint, RestoreExtent::kAll, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other"));
}

TEST(ReplicaTest, ResetBringsInitialValuesBack) {
  const auto replica = Make(Schema("adam", 2));
  Train(*replica, 3);
  replica->Reset();
  const auto fresh = Make(Schema("adam", 2));
  ExpectSame(*replica, *fresh);
}

TEST(ReplicaTest, ATiedTensorIsSteppedOnce) {
  v1::TablesSchema schema = Schema("sgd", 1);
  const auto replica = Make(schema);
  const float before = replica->parameters()[2][0];
  std::vector<float> dense(replica->layout().elements());
  dense[replica->layout().tensor_offset(2)] = 8;
  std::vector<RowSum> rows = RowSums({2, 3});
  replica->Apply({4, dense, rows}, 1);
  EXPECT_FLOAT_EQ(replica->parameters()[2][0], before - 0.1f * 2);
  EXPECT_EQ(replica->parameters()[3][0], replica->parameters()[2][0]);
}

TEST(ReplicaTest, DecaysOnlyWhatIsToDecay) {
  v1::TablesSchema schema = Schema("sgd", 1);
  schema.mutable_optimizer()->set_weight_decay(0.5);
  const auto replica = Make(schema);
  const float w = replica->parameters()[0][0], b = replica->parameters()[1][0];
  const std::vector<float> dense(replica->layout().elements());
  std::vector<RowSum> rows = RowSums({2, 3});
  replica->Apply({4, dense, rows}, 1);
  EXPECT_FLOAT_EQ(replica->parameters()[0][0], w * (1 - 0.05f));
  EXPECT_EQ(replica->parameters()[1][0], b);
}

TEST(ReplicaTest, TheGlobalNormIsThatOfAllParametersHoweverTheyAreDealt) {
  for (uint32_t partitions : {1, 4}) {
    v1::TablesSchema schema = Schema("sgd", partitions);
    schema.mutable_clipping()->set_by_global_norm(1);
    const auto replica = Make(schema);
    std::vector<float> dense(replica->layout().elements());
    dense[0] = 8;
    dense.back() = 16;
    std::vector<RowSum> rows = RowSums({2, 3});
    rows[0].Add({1, 2}, {8, 0, 0, 8});
    rows[1].Add({3}, {0, 0, 8});
    // Means over 8 examples: 1, 2, 1, 1, 1.
    EXPECT_DOUBLE_EQ(replica->Clipping({8, dense, rows})->scale, 1 / std::sqrt(8.0));
    EXPECT_DOUBLE_EQ(*replica->Clipping({8, dense, rows})->norm, std::sqrt(8.0));
    // Nobody's gradient at all.
    EXPECT_EQ(replica->Clipping({0, dense, rows})->scale, 1);
    EXPECT_FALSE(replica->Clipping({0, dense, rows})->norm.has_value());
    dense[1] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(replica->Clipping({8, dense, rows}).status().code(), absl::StatusCode::kOutOfRange);
  }
}

TEST(ReplicaTest, ClipsByValueAfterTheMean) {
  v1::TablesSchema schema = Schema("sgd", 1);
  schema.mutable_clipping()->set_by_value(0.5);
  const auto replica = Make(schema);
  const float before = replica->parameters()[0][0], next = replica->parameters()[0][1];
  std::vector<float> dense(replica->layout().elements());
  dense[0] = 8;
  dense[1] = 1;
  std::vector<RowSum> rows = RowSums({2, 3});
  replica->Apply({4, dense, rows}, 1);
  EXPECT_FLOAT_EQ(replica->parameters()[0][0], before - 0.1f * 0.5f);
  EXPECT_FLOAT_EQ(replica->parameters()[0][1], next - 0.1f * 0.25f);
}

TEST(ReplicaTest, RowsReadAsTheirInitialValueBeforeTheirFirstPush) {
  const auto replica = Make(Schema("sgd", 2));
  const auto other = Make(Schema("sgd", 2));
  std::vector<float> row(2), again(2);
  replica->LookUp(0, {77}, absl::MakeSpan(row));
  EXPECT_THAT(replica->Keys(0), ElementsAre());
  Train(*other, 1);
  other->LookUp(0, {77}, absl::MakeSpan(again));
  EXPECT_EQ(row, again);
  EXPECT_NE(row[0], 0);
}

}  // namespace
}  // namespace muster
