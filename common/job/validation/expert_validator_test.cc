#include "common/job/validation/expert_validator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Validate(const std::string& moe) {
  v1::TransformerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("layers: 3 width: 8 heads: 2 context: 8 ", moe), &spec));
  return ValidateExperts(spec);
}

TEST(ExpertValidatorTest, TakesWhatCanBeComputed) {
  for (const char* moe :
       {"", "moe { experts: 2 top_k: 1 }",
        "moe { experts: 8 top_k: 8 expert_width: 3 auxiliary_scope: SEQUENCE }",
        "moe { experts: 8 top_k: 1 auxiliary_scope: GLOBAL_BATCH capacity_factor: 1.25 }",
        "moe { experts: 8 top_k: 2 shared_width: 4 shared_gate: true dense_layers: [0, 2] }",
        "moe { experts: 8 top_k: 4 groups: 4 top_groups: 2 scores: SIGMOID scaling: 2.5 }",
        "moe { experts: 8 top_k: 2 selection_bias: true bias_rate: 0.1 }",
        "moe { experts: 8 top_k: 2 auxiliary_loss: 0.01 auxiliary_scope: MICRO_BATCH z_loss: 1 "
        "}"}) {
    EXPECT_EQ(Validate(moe), absl::OkStatus()) << moe;
  }
}

TEST(ExpertValidatorTest, NamesWhatCannot) {
  const struct {
    const char* moe;
    const char* field;
    const char* remedy;
  } cases[] = {
      {"", "experts is 0", "from 2 to 1024"},
      {"experts: 2000 top_k: 2", "experts is 2000", "from 2 to 1024"},
      {"experts: 4", "top_k is 0", "from 1 to the number of experts, 4"},
      {"experts: 4 top_k: 5", "top_k is 5", "from 1 to the number of experts, 4"},
      {"experts: 4 top_k: 2 expert_width: 1000000", "expert_width is 1000000", "from 0 to"},
      {"experts: 4 top_k: 2 shared_gate: true", "shared_gate is true", "`shared_width`"},
      {"experts: 4 top_k: 2 dense_layers: 3", "dense_layers[0] is 3", "from 0 to 2"},
      {"experts: 4 top_k: 2 dense_layers: [1, 1]", "dense_layers[1] is 1", "once, in order"},
      {"experts: 4 top_k: 2 dense_layers: [0, 1, 2]", "dense_layers is all 3", "leave out `moe`"},
      {"experts: 4 top_k: 2 scores: 7", "scores is 7", "SOFTMAX or SIGMOID"},
      {"experts: 4 top_k: 2 scaling: -1", "scaling is -1", "positive"},
      {"experts: 4 top_k: 2 scaling: nan", "scaling is nan", "positive"},
      {"experts: 4 top_k: 2 top_groups: 1", "top_groups is 1", "no `groups`"},
      {"experts: 4 top_k: 2 groups: 3", "groups is 3", "divide the 4 experts"},
      {"experts: 4 top_k: 2 groups: 2 top_groups: 3", "top_groups is 3", "from 1 to 2"},
      {"experts: 4 top_k: 3 groups: 2 top_groups: 1", "top_k is 3", "more `top_groups`"},
      {"experts: 4 top_k: 2 auxiliary_loss: -0.1", "auxiliary_loss is -0.1", "positive"},
      {"experts: 4 top_k: 2 bias_rate: 0.1", "bias_rate is 0.1", "`selection_bias`"},
      {"experts: 4 top_k: 2 capacity_factor: -1", "capacity_factor is -1", "positive"},
      {"experts: 4 top_k: 2 selection_bias: true bias_rate: -1", "bias_rate is -1", "positive"},
      {"experts: 4 top_k: 2 z_loss: inf", "z_loss is inf", "positive"},
      {"experts: 4 top_k: 2 auxiliary_scope: 9", "auxiliary_scope is 9",
       "SEQUENCE, MICRO_BATCH or GLOBAL_BATCH"},
  };
  for (const auto& [moe, field, remedy] : cases) {
    const absl::Status status = Validate(absl::StrCat("moe { ", moe, " }"));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << moe;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(absl::StrCat("model.transformer.moe.", field)), HasSubstr(remedy)));
  }
}

absl::Status ValidateUpdates(bool bias, const std::string& update) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("model { transformer { moe { experts: 4 top_k: 2 selection_bias: ",
                   bias ? "true" : "false", " } } } update { ", update, " }"),
      &spec));
  return ValidateExpertUpdates(spec);
}

TEST(ExpertValidatorTest, BiasesMoveByTheLoadsOfAStep) {
  const std::string servers = "dense: PARAMETER_SERVER sparse: PARAMETER_SERVER ";
  const std::string all_reduce = "dense: ALL_REDUCE sparse: ALL_REDUCE ";
  EXPECT_EQ(ValidateUpdates(true, servers), absl::OkStatus());
  EXPECT_EQ(ValidateUpdates(true, servers + "wire: BF16"), absl::OkStatus());
  EXPECT_EQ(ValidateUpdates(true, all_reduce), absl::OkStatus());
  for (const char* bound : {"staleness_bound: 2", "staleness_bound: -1"}) {
    EXPECT_EQ(ValidateUpdates(false, servers + bound), absl::OkStatus());
    EXPECT_THAT(std::string(ValidateUpdates(true, servers + bound).message()),
                AllOf(HasSubstr("moe.selection_bias is true"), HasSubstr("set it to 0")));
  }
  EXPECT_EQ(ValidateUpdates(false, all_reduce + "wire: BF16"), absl::OkStatus());
  EXPECT_THAT(std::string(ValidateUpdates(true, all_reduce + "wire: BF16").message()),
              AllOf(HasSubstr("moe.selection_bias is true"), HasSubstr("travel as BF16")));
}

TEST(ExpertValidatorTest, WorkersOnServersCountChoicesInOneVersion) {
  v1::JobSpec spec;
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  v1::UpdateSpec& update = *spec.mutable_update();
  const auto refusal = [&spec] { return std::string(ValidateExpertUpdates(spec).message()); };
  moe.set_auxiliary_loss(0.01);
  moe.set_auxiliary_scope(v1::MoeSpec::GLOBAL_BATCH);
  EXPECT_EQ(refusal(), "") << "one rank counts for itself";
  spec.set_workers(2);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("auxiliary_scope is GLOBAL_BATCH"),
                               HasSubstr("set update.deterministic")));
  moe.clear_auxiliary_loss();
  EXPECT_EQ(refusal(), "") << "nothing is counted";
  moe.set_capacity_factor(1.5);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("capacity_factor is 1.5"), HasSubstr("set update.deterministic")));
  update.set_deterministic(true);
  EXPECT_EQ(refusal(), "");
  update.set_staleness_bound(1);
  EXPECT_THAT(refusal(), HasSubstr("update.staleness_bound 0"));
  update.clear_staleness_bound();
  update.set_wire(v1::UpdateSpec::BF16);
  EXPECT_THAT(refusal(), HasSubstr("update.wire BF16"));
  update.set_dense(v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(refusal(), "");
  update.Clear();
  spec.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_EQ(refusal(), "") << "servers keep former values";
  spec.clear_parallelism();
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(refusal(), "") << "one data rank";
}

std::string RankRefusal(const std::string& changes) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "workers: 4 model { transformer { moe { experts: 4 top_k: 2 } } } "
      "update { dense: ALL_REDUCE sparse: ALL_REDUCE } parallelism { expert: 2 }",
      &spec));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(changes, &spec));
  return std::string(ValidateExpertRanks(spec).message());
}

TEST(ExpertValidatorTest, ExpertRanks) {
  EXPECT_EQ(RankRefusal(""), "");
  EXPECT_EQ(RankRefusal("parallelism { zero { stage: 2 } }"), "");
  EXPECT_EQ(RankRefusal("compute { device: CUDA }"), "");
  EXPECT_EQ(RankRefusal("parallelism { pipeline: 2 pipeline_schedule: ZERO_BUBBLE }"), "");
  EXPECT_EQ(RankRefusal("parallelism { expert: 4 zero { stage: 2 shard: 2 } }"), "");
  EXPECT_EQ(RankRefusal("min_workers: 2"), "");
  const struct {
    const char* changes;
    const char* remedy;
  } cases[] = {
      {"model { transformer { moe { experts: 5 } } }", "divide the 5 experts"},
      {"model { mlp { hidden: 4 } }", "no experts"},
      {"update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER staleness_bound: 1 }",
       "update.staleness_bound 0"},
      {"min_workers: 3", "take a multiple of 2"},
      {"min_workers: 2 compute { device: CUDA }", "compute.device CPU"},
      {"min_workers: 2 parallelism { zero { stage: 1 } }", "leave one of the three out"},
      {"workers: 12 parallelism { expert: 4 zero { stage: 1 shard: 6 } }",
       "divide parameters among 6"},
  };
  for (const auto& [changes, remedy] : cases) {
    EXPECT_THAT(RankRefusal(changes), AllOf(HasSubstr("parallelism.expert"), HasSubstr(remedy)))
        << changes;
  }
}

}  // namespace
}  // namespace muster
