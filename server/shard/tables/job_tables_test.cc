#include "server/shard/tables/job_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/shard/calls/test_exchange.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const v1::OpenTablesRequest& request) {
  const absl::Status status = JobTables::Create(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(JobTablesTest, NamesTheFieldThatIsWrong) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.clear_job_id();
  EXPECT_THAT(Refusal(request), HasSubstr("job_id"));
  request = TestOpenRequest(0);
  EXPECT_THAT(Refusal(request), HasSubstr("slots is 0"));
  request = TestOpenRequest(2);
  request.mutable_update()->set_staleness_bound(-1);
  EXPECT_THAT(Refusal(request), HasSubstr("staleness_bound is -1"));
  request = TestOpenRequest(2);
  request.mutable_update()->set_staleness_bound(1);
  request.mutable_update()->set_deterministic(true);
  EXPECT_THAT(Refusal(request), HasSubstr("deterministic"));
  request = TestOpenRequest(2);
  request.mutable_update()->set_backup_workers(2);
  EXPECT_THAT(Refusal(request), HasSubstr("backup_workers is 2"));
  request.mutable_update()->set_backup_workers(1);
  request.mutable_update()->set_staleness_bound(1);
  EXPECT_THAT(Refusal(request), HasSubstr("backup_workers is 1"));
  request = TestOpenRequest(2);
  request.mutable_update()->set_unlimited_staleness(true);
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(1);
  EXPECT_THAT(Refusal(request), HasSubstr("by_global_norm is 1"));
  request = TestOpenRequest(2);
  request.mutable_update()->set_staleness_bound(1);
  request.set_pushed_micro_batches(2);
  EXPECT_THAT(Refusal(request), HasSubstr("pushed_micro_batches is 2"));
  request = TestOpenRequest(2);
  request.mutable_schema()->set_tensor_ranks(2);
  request.mutable_update()->set_staleness_bound(1);
  EXPECT_THAT(Refusal(request), HasSubstr("tensor_ranks is 2"));
  request.mutable_schema()->clear_tensor_ranks();
  request.mutable_schema()->set_pipeline(2);
  for (int group = 0; group < 2; ++group) request.mutable_schema()->add_pipeline_layers(1);
  EXPECT_THAT(Refusal(request), HasSubstr("schema.pipeline 2"));
  request = TestOpenRequest(3);
  request.mutable_schema()->set_tensor_ranks(2);
  EXPECT_THAT(Refusal(request), HasSubstr("slots is 3"));
  request = TestOpenRequest(6);
  request.mutable_schema()->set_tensor_ranks(2);
  for (const uint32_t ranks : {2u, ~0u}) {
    request.set_context_ranks(ranks);
    EXPECT_THAT(Refusal(request), HasSubstr("slots is 6"));
  }
  request.set_context_ranks(3);
  request.mutable_update()->set_staleness_bound(1);
  EXPECT_THAT(Refusal(request), HasSubstr("context_ranks 3"));
  for (const auto& [slots, context, experts] :
       {std::tuple(6u, 2u, 3u), {6u, 3u, 2u}, {6u, 1u, 4u}, {8u, 2u, 16u}}) {
    request = TestOpenRequest(slots);
    request.set_context_ranks(context);
    request.mutable_schema()->set_expert_ranks(experts);
    EXPECT_THAT(Refusal(request), HasSubstr(absl::StrCat("expert_ranks is ", experts, ", but")));
  }
  request = TestOpenRequest(4);
  request.mutable_schema()->set_expert_ranks(2);
  request.mutable_update()->set_staleness_bound(1);
  EXPECT_THAT(Refusal(request), HasSubstr("schema.expert_ranks 2"));
  request = TestOpenRequest(2);
  request.add_partitions()->set_partition(0);
  EXPECT_THAT(Refusal(request), HasSubstr("partition 0 twice"));
  request.mutable_partitions(1)->set_partition(1);
  EXPECT_THAT(Refusal(request), HasSubstr("partition 1 of 1"));
  request = TestOpenRequest(2);
  request.mutable_schema()->mutable_optimizer()->set_name("magic");
  EXPECT_THAT(Refusal(request), HasSubstr("magic"));
}

TEST(JobTablesTest, OneRuleForTheRate) {
  v1::OpenTablesRequest request = TestOpenRequest(4);
  request.mutable_schema()->mutable_clipping()->set_by_value(0.5);
  const OptimizerStep synchronous = (*JobTables::Create(request))->StepAt(9, 0.25);
  EXPECT_EQ(synchronous.learning_rate, 1);
  EXPECT_EQ(synchronous.step, 10u);
  EXPECT_EQ(synchronous.gradient_scale, 0.25f);
  EXPECT_EQ(synchronous.clip_value, 0.5f);
  request.mutable_update()->set_staleness_bound(2);
  EXPECT_EQ((*JobTables::Create(request))->StepAt(9, 0.25).learning_rate, 0.25f);
  EXPECT_EQ((*JobTables::Create(request))->StepAt(9, 0.25, 0.5).learning_rate, 0.125f);
}

TEST(JobTablesTest, PredictsTheDenseBytes) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 2 * 32u);
  request.mutable_update()->set_deterministic(true);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 4 * 32u);
  request.mutable_update()->set_deterministic(false);
  request.mutable_update()->set_unlimited_staleness(true);
  request.mutable_schema()->mutable_optimizer()->set_name("adam");
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 3 * 32u);
}

// Values before the last step are kept, and in slot order each slot has a gradient that waits.
TEST(JobTablesTest, PredictsTheDenseBytesOfContextRanks) {
  v1::OpenTablesRequest request = TestOpenRequest(4);
  request.set_context_ranks(2);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 3 * 32u);
  request.mutable_update()->set_deterministic(true);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 6 * 32u);
}

// Fewer slots' gradients of experts wait.
TEST(JobTablesTest, PredictsTheDenseBytesOfExpertRanks) {
  v1::OpenTablesRequest request = TestOpenRequest(4);
  v1::TablesSchema& schema = *request.mutable_schema();
  schema.set_expert_ranks(2);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 3 * 32u);
  request.mutable_update()->set_deterministic(true);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 6 * 32u);
  v1::TensorPlacement& placement = *schema.mutable_tensors(0)->mutable_placement();
  placement.set_kind(v1::TensorPlacement::EXPERTS);
  v1::TensorPlacement::Section& section = *placement.add_sections();
  section.set_extent(8);
  section.set_units(4);
  EXPECT_EQ((*JobTables::Create(request))->PredictedDenseBytes(0), 4 * 32u);
}

TEST(JobTablesTest, TheFingerprintCoversWhatMustBeEqual) {
  const v1::OpenTablesRequest request = TestOpenRequest(2);
  const uint64_t fingerprint = (*JobTables::Create(request))->fingerprint();
  v1::OpenTablesRequest other = request;
  other.set_shard_map_version(9);
  other.set_expect_state(true);
  EXPECT_EQ((*JobTables::Create(other))->fingerprint(), fingerprint);
  other.set_slots(3);
  EXPECT_NE((*JobTables::Create(other))->fingerprint(), fingerprint);
  other = request;
  other.set_pushed_micro_batches(1);
  EXPECT_NE((*JobTables::Create(other))->fingerprint(), fingerprint);
  other = request;
  other.set_context_ranks(1);
  EXPECT_EQ((*JobTables::Create(other))->fingerprint(), fingerprint);
  other.set_context_ranks(2);
  EXPECT_NE((*JobTables::Create(other))->fingerprint(), fingerprint);
  other = request;
  other.mutable_schema()->set_expert_ranks(1);
  EXPECT_EQ((*JobTables::Create(other))->fingerprint(), fingerprint);
  other.mutable_schema()->set_expert_ranks(2);
  EXPECT_NE((*JobTables::Create(other))->fingerprint(), fingerprint);
  other = request;
  other.mutable_schema()->set_seed(8);
  EXPECT_NE((*JobTables::Create(other))->fingerprint(), fingerprint);
  other = request;
  other.mutable_update()->set_staleness_bound(1);
  EXPECT_NE((*JobTables::Create(other))->fingerprint(), fingerprint);
}

}  // namespace
}  // namespace muster
