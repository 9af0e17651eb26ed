#include "common/partition/schema.h"

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "common/partition/layout_from_schema_for_testing.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::TablesSchema GoodSchema() {
  v1::TablesSchema schema;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        tensors {
          name: "w"
          shape: [ 4, 3 ]
          initializer { kind: UNIFORM scale: 0.5 }
          unit: 2
          weight_decay: true
        }
        tensors {
          name: "b"
          shape: 3
          initializer { kind: CONSTANT value: 0.25 }
        }
        tensors { name: "w_again" shape: 12 tied_to: "w" compute: BF16 }
        sparse {
          name: "rows"
          dim: 16
          initializer { kind: NORMAL scale: 0.01 }
          weight_decay: true
        }
        partitions: 4
        block_bytes: 1024
        optimizer { name: "adam" learning_rate: 0.001 }
        schedule { name: "cosine" warmup_steps: 10 }
        clipping { by_value: 1 }
        seed: 5
        total_steps: 100
      )pb",
      &schema));
  return schema;
}

TEST(SchemaTest, ValidSchemaIsAccepted) {
  EXPECT_EQ(ValidateSchema(GoodSchema()), absl::OkStatus());
}

TEST(SchemaTest, StagesOfAPipelineHaveGroupsOfLayers) {
  v1::TablesSchema schema = GoodSchema();
  const uint64_t fingerprint = SchemaFingerprint(schema);
  schema.set_pipeline(1);
  EXPECT_EQ(SchemaFingerprint(schema), fingerprint);
  schema.set_pipeline(2);
  schema.add_pipeline_layers(2);
  schema.add_pipeline_layers(1);
  EXPECT_EQ(ValidateSchema(schema), absl::OkStatus());
  EXPECT_NE(SchemaFingerprint(schema), fingerprint);
  const ServedTensors served = *ServedFromSchema(schema);
  EXPECT_EQ(served.ranks(), 2);
  EXPECT_EQ(LayoutOfRank(served, 0).elements(), 3 + 12) << "b, and what is tied to w";
  EXPECT_EQ(LayoutOfRank(served, 1).elements(), 12);
}

TEST(SchemaTest, SparseTablesAloneAreEnough) {
  v1::TablesSchema schema = GoodSchema();
  schema.clear_tensors();
  EXPECT_EQ(ValidateSchema(schema), absl::OkStatus());
  EXPECT_EQ(LayoutFromSchema(schema).elements(), 0);
}

TEST(SchemaTest, TablesComeThroughBothWays) {
  v1::TablesSchema schema = GoodSchema();
  schema.mutable_tensors(1)->set_sign_rate(0.125);
  schema.mutable_tensors(1)->set_rate(0);
  schema.mutable_tensors(1)->set_own_weight_decay(0.75);
  schema.mutable_tensors(0)->set_frozen(true);
  const Tables tables = TablesFromSchema(schema);
  EXPECT_EQ(tables.tensors[0].sign_rate, 0);
  ASSERT_EQ(tables.tensors.size(), 3);
  EXPECT_EQ(tables.tensors[0].name, "w");
  EXPECT_THAT(tables.tensors[0].shape, ElementsAre(4, 3));
  EXPECT_EQ(tables.tensors[0].initializer.kind, Initializer::Kind::kUniform);
  EXPECT_EQ(tables.tensors[0].initializer.scale, 0.5f);
  EXPECT_EQ(tables.tensors[0].unit, 2);
  EXPECT_TRUE(tables.tensors[0].weight_decay);
  EXPECT_EQ(tables.tensors[1].initializer.kind, Initializer::Kind::kConstant);
  EXPECT_EQ(tables.tensors[1].initializer.value, 0.25f);
  EXPECT_FALSE(tables.tensors[1].weight_decay);
  EXPECT_EQ(tables.tensors[2].tied_to, "w");
  EXPECT_EQ(tables.tensors[2].compute, DType::kBf16);
  EXPECT_EQ(tables.tensors[0].compute, DType::kF32);
  ASSERT_EQ(tables.sparse.size(), 1);
  EXPECT_EQ(tables.sparse[0].name, "rows");
  EXPECT_EQ(tables.sparse[0].dim, 16);
  EXPECT_EQ(tables.sparse[0].initializer.kind, Initializer::Kind::kNormal);
  EXPECT_TRUE(tables.sparse[0].weight_decay);

  v1::TablesSchema again = GoodSchema();
  again.add_tensors()->set_name("replaced");
  SetTables(tables.tensors, tables.sparse, again);
  const Tables back = TablesFromSchema(again);
  ASSERT_EQ(back.tensors.size(), 3);
  EXPECT_EQ(back.tensors[1].sign_rate, 0.125f);
  EXPECT_EQ(back.tensors[1].rate, 0);
  EXPECT_EQ(back.tensors[0].rate, 1);
  EXPECT_EQ(back.tensors[1].own_weight_decay, 0.75f);
  EXPECT_FALSE(back.tensors[0].own_weight_decay.has_value());
  EXPECT_TRUE(back.tensors[0].frozen);
  EXPECT_FALSE(back.tensors[1].frozen);
  EXPECT_EQ(back.tensors[0].initializer.scale, 0.5f);
  EXPECT_EQ(back.tensors[2].tied_to, "w");
  EXPECT_EQ(back.tensors[2].compute, DType::kBf16);
  EXPECT_EQ(back.sparse[0].initializer.kind, Initializer::Kind::kNormal);
  EXPECT_EQ(again.optimizer().name(), "adam");
  EXPECT_EQ(ValidateSchema(again), absl::OkStatus());
}

TEST(SchemaTest, MatricesComeThroughBothWays) {
  v1::TablesSchema schema = GoodSchema();
  for (const int64_t rows : {1, 3}) schema.mutable_tensors(0)->add_matrix_rows(rows);
  EXPECT_EQ(ValidateSchema(schema), absl::OkStatus());
  const Tables tables = TablesFromSchema(schema);
  EXPECT_THAT(tables.tensors[0].matrix_rows, ElementsAre(1, 3));
  SetTables(tables.tensors, tables.sparse, schema);
  EXPECT_THAT(schema.tensors(0).matrix_rows(), ElementsAre(1, 3));
  EXPECT_EQ(schema.tensors(1).matrix_rows_size(), 0);
}

TEST(SchemaTest, PlacementsComeThroughBothWays) {
  Tables tables = TablesFromSchema(GoodSchema());
  v1::TablesSchema schema = GoodSchema();
  SetTables(tables.tensors, tables.sparse, schema);
  const uint64_t fingerprint = SchemaFingerprint(schema);
  tables.tensors[0].placement = {Placement::Kind::kShard, 0, {{3, 3}, {1, 1}}};
  tables.tensors[1].placement.kind = Placement::Kind::kFirst;
  SetTables(tables.tensors, tables.sparse, schema);
  EXPECT_EQ(ValidateSchema(schema), absl::OkStatus());
  EXPECT_EQ(SchemaFingerprint(schema), fingerprint);
  schema.set_expert_ranks(1);
  EXPECT_EQ(SchemaFingerprint(schema), fingerprint);
  schema.set_expert_ranks(2);
  EXPECT_NE(SchemaFingerprint(schema), fingerprint);
  EXPECT_EQ(ServedFromSchema(schema)->ranks(), 2);
  const Tables back = TablesFromSchema(schema);
  EXPECT_EQ(back.tensors[0].placement.kind, Placement::Kind::kShard);
  ASSERT_EQ(back.tensors[0].placement.sections.size(), 2u);
  EXPECT_EQ(back.tensors[0].placement.sections[0].extent, 3);
  EXPECT_EQ(back.tensors[0].placement.sections[1].units, 1);
  EXPECT_EQ(back.tensors[1].placement.kind, Placement::Kind::kFirst);
  EXPECT_EQ(back.tensors[2].placement.kind, Placement::Kind::kReplicate);
}

TEST(SchemaTest, LayoutOptionsAreTheJobsOrTheDefaults) {
  v1::UpdateSpec update;
  EXPECT_EQ(LayoutOptions(update).partitions, DenseLayout::Options().partitions);
  EXPECT_EQ(LayoutOptions(update).block_bytes, DenseLayout::Options().block_bytes);
  update.set_partitions(3);
  update.set_block_bytes(64);
  EXPECT_EQ(LayoutOptions(update).partitions, 3);
  EXPECT_EQ(LayoutOptions(update).block_bytes, 64);
}

TEST(SchemaTest, LayoutIsThatOfItsTensors) {
  const DenseLayout layout = LayoutFromSchema(GoodSchema());
  EXPECT_EQ(layout.partitions(), 4);
  EXPECT_EQ(layout.elements(), 15);
  EXPECT_EQ(layout.tensor_offset(0), 3);
  EXPECT_EQ(layout.tensor_offset(2), 3);
}

TEST(SchemaTest, FingerprintTellsSchemasApartAndNothingElse) {
  const v1::TablesSchema schema = GoodSchema();
  const uint64_t fingerprint = SchemaFingerprint(schema);
  v1::TablesSchema same;
  ASSERT_TRUE(same.ParseFromString(schema.SerializeAsString()));
  EXPECT_EQ(SchemaFingerprint(same), fingerprint);
  // A field from a newer client: number 100, varint 1.
  ASSERT_TRUE(same.MergeFromString(std::string("\xa0\x06\x01", 3)));
  EXPECT_EQ(SchemaFingerprint(same), fingerprint);

  // What workers compute with changes nothing of the tables.
  same.mutable_tensors(0)->set_compute(v1::UpdateSpec::F16);
  EXPECT_EQ(SchemaFingerprint(same), fingerprint);

  // Nor does what their data was made with: that of a store from before it was known goes on.
  same.mutable_tokenizer()->set_fingerprint(3);
  EXPECT_EQ(SchemaFingerprint(same), fingerprint);

  v1::TablesSchema other = schema;
  other.set_seed(6);
  EXPECT_NE(SchemaFingerprint(other), fingerprint);
  other = schema;
  other.mutable_tensors(1)->set_weight_decay(true);
  EXPECT_NE(SchemaFingerprint(other), fingerprint);
}

struct BadSchema {
  std::string what;
  std::function<void(v1::TablesSchema&)> spoil;
  std::vector<std::string> message;
};

class SchemaErrorTest : public testing::TestWithParam<BadSchema> {};

TEST_P(SchemaErrorTest, NamesFieldAndValue) {
  v1::TablesSchema schema = GoodSchema();
  GetParam().spoil(schema);
  const absl::Status status = ValidateSchema(schema);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& part : GetParam().message) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    All, SchemaErrorTest,
    testing::Values(
        BadSchema{"Nothing",
                  [](auto& s) {
                    s.clear_tensors();
                    s.clear_sparse();
                  },
                  {"neither tensors nor sparse tables"}},
        BadSchema{"SectionsLeaveSomethingOut",
                  [](auto& s) {
                    v1::TensorPlacement& placement = *s.mutable_tensors(0)->mutable_placement();
                    placement.set_kind(v1::TensorPlacement::SHARD);
                    v1::TensorPlacement::Section& section = *placement.add_sections();
                    section.set_extent(3);
                    section.set_units(1);
                  },
                  {"tensors[0].placement", "leave out 1 of 4"}},
        BadSchema{"UnitsDoNotDivideTheSection",
                  [](auto& s) {
                    v1::TensorPlacement& placement = *s.mutable_tensors(0)->mutable_placement();
                    placement.set_kind(v1::TensorPlacement::SHARD);
                    v1::TensorPlacement::Section& section = *placement.add_sections();
                    section.set_extent(4);
                    section.set_units(3);
                  },
                  {"tensors[0].placement", "4 indices in 3 units"}},
        BadSchema{"NoSuchDimension",
                  [](auto& s) {
                    v1::TensorPlacement& placement = *s.mutable_tensors(0)->mutable_placement();
                    placement.set_kind(v1::TensorPlacement::SHARD);
                    placement.set_dimension(2);
                  },
                  {"tensors[0].placement.dimension is 2", "2 dimensions"}},
        BadSchema{"NegativeSignRate",
                  [](auto& s) { s.mutable_tensors(1)->set_sign_rate(-1); },
                  {"tensors[1] (b).sign_rate is -1", "finite number above 0"}},
        BadSchema{"NegativeRate",
                  [](auto& s) { s.mutable_tensors(1)->set_rate(-1); },
                  {"tensors[1] (b).rate is -1", "finite number of at least 0"}},
        BadSchema{"NanDecay",
                  [](auto& s) { s.mutable_tensors(1)->set_own_weight_decay(kNan); },
                  {"tensors[1] (b).own_weight_decay is nan", "finite number of at least 0"}},
        BadSchema{"TwoDecays",
                  [](auto& s) { s.mutable_tensors(0)->set_own_weight_decay(1); },
                  {"tensors[0] (w) has both weight_decay and own_weight_decay"}},
        BadSchema{"FrozenButMoved",
                  [](auto& s) {
                    s.mutable_tensors(1)->set_frozen(true);
                    s.mutable_tensors(1)->set_sign_rate(1);
                  },
                  {"tensors[1] (b) is frozen", "leave one out"}},
        BadSchema{"MatricesLeaveRowsOut",
                  [](auto& s) { s.mutable_tensors(0)->add_matrix_rows(3); },
                  {"tensors[0] (w).matrix_rows leave out 1 of 4 rows"}},
        BadSchema{"MatricesHaveMoreRows",
                  [](auto& s) {
                    for (const int64_t rows : {2, 3}) s.mutable_tensors(0)->add_matrix_rows(rows);
                  },
                  {"tensors[0] (w).matrix_rows has 3 of the 2 rows that are left"}},
        BadSchema{"MatricesOfAVector",
                  [](auto& s) { s.mutable_tensors(1)->add_matrix_rows(1); },
                  {"tensors[1] (b) has matrix_rows", "two dimensions"}},
        BadSchema{"NoName",
                  [](auto& s) { s.mutable_tensors(1)->clear_name(); },
                  {"tensors[1].name is empty"}},
        BadSchema{"LongName",
                  [](auto& s) { s.mutable_sparse(0)->set_name(std::string(300, 'x')); },
                  {"sparse[0].name has 300 bytes", "256"}},
        BadSchema{"NameWithNewline",
                  [](auto& s) { s.mutable_tensors(0)->set_name("a\nb"); },
                  {"tensors[0].name", "a\\nb", "printable"}},
        BadSchema{"TableNamedLikeTensor",
                  [](auto& s) { s.mutable_sparse(0)->set_name("w"); },
                  {"sparse[0].name is \"w\"", "unique"}},
        BadSchema{"NoSuchType",
                  [](auto& s) {
                    s.mutable_tensors(2)->set_compute(static_cast<v1::UpdateSpec::WireType>(77));
                  },
                  {"tensors[2].compute", "77", "BF16"}},
        BadSchema{"NoInitializer",
                  [](auto& s) { s.mutable_tensors(0)->clear_initializer(); },
                  {"tensors[0] (w).initializer.kind is 0", "CONSTANT"}},
        BadSchema{"NanValue",
                  [](auto& s) { s.mutable_tensors(1)->mutable_initializer()->set_value(kNan); },
                  {"tensors[1] (b).initializer.value is nan"}},
        BadSchema{"NegativeScale",
                  [](auto& s) { s.mutable_sparse(0)->mutable_initializer()->set_scale(-1); },
                  {"sparse[0] (rows).initializer.scale is -1"}},
        BadSchema{"NoDim",
                  [](auto& s) { s.mutable_sparse(0)->set_dim(0); },
                  {"sparse[0] (rows).dim is 0", "[1, 65536]"}},
        BadSchema{"NegativeExtent",
                  [](auto& s) { s.mutable_tensors(0)->set_shape(1, -3); },
                  {"tensor w", "[4, -3]"}},
        BadSchema{"StagesWithoutLayers",
                  [](auto& s) { s.set_pipeline(2); },
                  {"pipeline is 2", "pipeline_layers has 0 groups"}},
        BadSchema{"LayersWithoutStages",
                  [](auto& s) { s.add_pipeline_layers(3); },
                  {"pipeline is 1", "pipeline_layers has 1 groups"}},
        BadSchema{"UnevenGroups",
                  [](auto& s) {
                    s.set_pipeline(2);
                    for (int i = 0; i < 3; ++i) s.add_pipeline_layers(1);
                  },
                  {"pipeline is 2", "3 groups"}},
        BadSchema{"NoLayersInAGroup",
                  [](auto& s) {
                    s.set_pipeline(2);
                    s.add_pipeline_layers(3);
                    s.add_pipeline_layers(0);
                  },
                  {"pipeline_layers has 0", "at least one layer"}},
        BadSchema{"TooFewLayers",
                  [](auto& s) {
                    s.set_pipeline(2);
                    for (int i = 0; i < 2; ++i) s.add_pipeline_layers(1);
                  },
                  {"pipeline_layers has 2 layers", "tensors are in 3"}},
        BadSchema{"TooManyStages",
                  [](auto& s) { s.set_pipeline(2000); },
                  {"schema: 1 tensor ranks and 2000 pipeline stages"}},
        BadSchema{"TooManyGroups",
                  [](auto& s) {
                    s.set_pipeline(2);
                    for (int i = 0; i < 1026; ++i) s.add_pipeline_layers(1);
                  },
                  {"pipeline_layers has 1026 virtual stages", "at most 1024"}},
        BadSchema{"TooManyTensorRanks",
                  [](auto& s) { s.set_tensor_ranks(1u << 31); },
                  {"schema: 2147483648 tensor ranks and 1 pipeline stages"}},
        BadSchema{"NoDimensions",
                  [](auto& s) {
                    s.set_pipeline(2);
                    for (int i = 0; i < 2; ++i) s.add_pipeline_layers(2);
                    s.mutable_tensors(1)->clear_shape();
                  },
                  {"tensor b has no dimensions"}},
        BadSchema{"TiedToNothing",
                  [](auto& s) {
                    s.set_pipeline(2);
                    for (int i = 0; i < 2; ++i) s.add_pipeline_layers(2);
                    s.mutable_tensors(2)->set_tied_to("v");
                  },
                  {"w_again is tied to v"}},
        BadSchema{"NoPartitions", [](auto& s) { s.set_partitions(0); }, {"partitions is 0"}},
        BadSchema{"BlockBytes", [](auto& s) { s.set_block_bytes(10); }, {"block_bytes is 10"}},
        BadSchema{"Optimizer",
                  [](auto& s) { s.mutable_optimizer()->set_name("adamm"); },
                  {"optimizer.name is \"adamm\"", "adamw"}},
        BadSchema{"Schedule",
                  [](auto& s) { s.mutable_schedule()->set_name("cosin"); },
                  {"schedule.name is \"cosin\"", "cosine"}},
        BadSchema{"Clipping",
                  [](auto& s) { s.mutable_clipping()->set_by_global_norm(-2); },
                  {"clipping.by_global_norm is -2"}}),
    [](const testing::TestParamInfo<BadSchema>& info) { return info.param.what; });

}  // namespace
}  // namespace muster
