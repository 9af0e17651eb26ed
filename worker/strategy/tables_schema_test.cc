#include "worker/strategy/tables_schema.h"

#include "common/partition/schema.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

ModelDescription Description() {
  ModelDescription model;
  TensorSpec& tensor = model.tensors.emplace_back();
  tensor.name = "w";
  tensor.shape = {2, 3};
  tensor.unit = 1;
  SparseTableSpec& table = model.sparse_tables.emplace_back();
  table.name = "rows";
  table.dim = 4;
  model.units = 2;
  return model;
}

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.mutable_optimizer()->set_name("adam");
  spec.mutable_optimizer()->set_learning_rate(0.5);
  spec.mutable_clipping()->set_by_value(3);
  spec.mutable_schedule()->set_warmup_steps(7);
  spec.set_seed(9);
  return spec;
}

TEST(TablesSchemaTest, CarriesTheModelAndTheJobsChoices) {
  v1::JobSpec spec = Spec();
  spec.mutable_update()->set_partitions(3);
  spec.mutable_update()->set_block_bytes(4096);
  v1::TablesSchema schema = MakeTablesSchema(Description(), spec, 100);
  ASSERT_EQ(ValidateSchema(schema), absl::OkStatus());
  EXPECT_EQ(schema.tensors(0).name(), "w");
  EXPECT_EQ(schema.tensors(0).unit(), 1);
  EXPECT_EQ(schema.sparse(0).dim(), 4);
  EXPECT_EQ(schema.partitions(), 3);
  EXPECT_EQ(schema.block_bytes(), 4096);
  EXPECT_EQ(schema.optimizer().name(), "adam");
  EXPECT_EQ(schema.clipping().by_value(), 3);
  EXPECT_EQ(schema.schedule().warmup_steps(), 7);
  EXPECT_EQ(schema.seed(), 9);
  EXPECT_EQ(schema.total_steps(), 100);
}

TEST(TablesSchemaTest, DefaultsAreThoseOfTheSpecification) {
  v1::TablesSchema schema = MakeTablesSchema(Description(), Spec(), 1);
  EXPECT_EQ(schema.partitions(), 8);
  EXPECT_EQ(schema.block_bytes(), 1 << 20);
}

TEST(TablesSchemaTest, TheLearningRateFollowsTheBatch) {
  v1::JobSpec spec = Spec();
  spec.set_batch_size(256);
  EXPECT_EQ(MakeTablesSchema(Description(), spec, 1).optimizer().learning_rate(), 0.5);
  spec.mutable_schedule()->set_scaling("linear");
  spec.mutable_schedule()->set_base_batch_size(64);
  EXPECT_EQ(MakeTablesSchema(Description(), spec, 1).optimizer().learning_rate(), 2);
}

}  // namespace
}  // namespace muster
