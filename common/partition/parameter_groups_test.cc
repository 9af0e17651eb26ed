#include "common/partition/parameter_groups.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::vector<TensorSpec> Model() {
  std::vector<TensorSpec> tensors;
  const auto add = [&](const char* name, bool decays) -> TensorSpec& {
    const std::vector<int64_t> shape =
        decays ? std::vector<int64_t>{2, 2} : std::vector<int64_t>{4};
    tensors.push_back({.name = name, .shape = shape, .weight_decay = decays});
    return tensors.back();
  };
  add("embedding.weight", true);
  add("block0.qkv.weight", true);
  add("block0.qkv.bias", false);
  add("block0.query.adapter.down", true);
  add("block0.router.bias", false).sign_rate = 0.5f;
  add("head.weight", true).tied_to = "embedding.weight";
  return tensors;
}

v1::ParameterGroup& AddGroup(const std::string& name, v1::JobSpec& spec) {
  v1::ParameterGroup& group = *spec.mutable_optimizer()->add_groups();
  group.add_names(name);
  return group;
}

TEST(ParameterGroupsTest, TheFirstGroupWithATensorCounts) {
  v1::JobSpec spec;
  AddGroup("block*qkv.b*s", spec).set_weight_decay(0.25f);
  AddGroup("*qkv*", spec).set_rate(2);
  AddGroup("embedding.weight", spec).set_frozen(true);
  std::vector<TensorSpec> tensors = Model();
  ASSERT_TRUE(SetParameterGroups(spec, absl::MakeSpan(tensors)).ok());
  EXPECT_TRUE(tensors[0].frozen);
  EXPECT_EQ(tensors[1].rate, 2);
  EXPECT_TRUE(tensors[1].weight_decay);
  EXPECT_EQ(tensors[2].rate, 1);
  EXPECT_EQ(tensors[2].own_weight_decay, 0.25f);
  EXPECT_FALSE(tensors[2].weight_decay);
  EXPECT_FALSE(tensors[3].frozen);
  EXPECT_TRUE(tensors[5].frozen) << "the head is the embedding";
}

TEST(ParameterGroupsTest, AdaptersAloneAreTrained) {
  v1::JobSpec spec;
  spec.mutable_adapter()->set_rank(1);
  std::vector<TensorSpec> tensors = Model();
  ASSERT_TRUE(SetParameterGroups(spec, absl::MakeSpan(tensors)).ok());
  for (const TensorSpec& tensor : tensors) {
    EXPECT_EQ(tensor.frozen, tensor.name != "block0.query.adapter.down") << tensor.name;
    EXPECT_EQ(tensor.sign_rate, 0);
  }
}

TEST(ParameterGroupsTest, MuonMovesWholeMatricesThatAreTrained) {
  v1::JobSpec spec;
  AddGroup("*adapter*", spec).set_frozen(true);
  for (const bool muon : {false, true}) {
    spec.mutable_optimizer()->set_name(muon ? "muon" : "adamw");
    std::vector<TensorSpec> tensors = Model();
    ASSERT_TRUE(SetParameterGroups(spec, absl::MakeSpan(tensors)).ok());
    for (const TensorSpec& tensor : tensors) {
      const bool moves_as_matrix = muon && tensor.name == "block0.qkv.weight";
      EXPECT_EQ(tensor.matrix_rows.empty(), !moves_as_matrix) << tensor.name;
    }
  }
}

TEST(ParameterGroupsTest, WrongNamesAreRefused) {
  const struct {
    const char* name;
    const char* message;
  } bad[] = {
      {"blok*",
       "optimizer.groups[0].names is \"blok*\", which names none of the model's 6 tensors"},
      {"head.weight", "name that one instead"},
      {"weight", "names none"},
      {"*0.q*v.weight.weight", "names none"},
      {"block0.router.bias", "moves by signs"},
      {"*", "by signs"},
  };
  for (const auto& [name, message] : bad) {
    v1::JobSpec spec;
    AddGroup(name, spec).set_frozen(true);
    std::vector<TensorSpec> tensors = Model();
    const absl::Status status = SetParameterGroups(spec, absl::MakeSpan(tensors));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << name;
  }
}

TEST(ParameterGroupsTest, SomethingIsLeftToTrain) {
  v1::JobSpec spec;
  AddGroup("w", spec).set_frozen(true);
  std::vector<TensorSpec> tensors = {{.name = "w", .shape = {3}}};
  EXPECT_THAT(std::string(SetParameterGroups(spec, absl::MakeSpan(tensors)).message()),
              HasSubstr("freeze all tensors"));
}

}  // namespace
}  // namespace muster
