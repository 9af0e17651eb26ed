#include "common/job/validation/context_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

// A transformer whose sequences of 24 tokens 2 of 8 workers share out.
v1::JobSpec ContextJob() {
  v1::JobSpec spec = AllReduceJob();
  spec.set_workers(8);
  spec.set_batch_size(8);
  spec.mutable_data()->mutable_sequences()->set_path("p");
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(2);
  transformer.set_width(48);
  transformer.set_heads(6);
  transformer.set_context(24);
  transformer.set_vocabulary(96);
  spec.mutable_parallelism()->set_context(2);
  return spec;
}

void InContextOnServers(v1::JobSpec& spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
}

struct GoodContext {
  const char* name;
  std::function<void(v1::JobSpec&)> change;
};

class GoodContextTest : public ::testing::TestWithParam<GoodContext> {};

TEST_P(GoodContextTest, IsAccepted) {
  v1::JobSpec spec = ContextJob();
  GetParam().change(spec);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    All, GoodContextTest,
    ::testing::Values(
        GoodContext{"Alone", [](v1::JobSpec&) {}},
        GoodContext{"Gathers",
                    [](v1::JobSpec& s) {
                      s.mutable_parallelism()->set_context_exchange(v1::ParallelismSpec::GATHER);
                    }},
        GoodContext{"SharesOutHeads",
                    [](v1::JobSpec& s) {
                      s.mutable_parallelism()->set_context_exchange(v1::ParallelismSpec::HEADS);
                    }},
        GoodContext{"CopiesKeyValueHeads",
                    [](v1::JobSpec& s) {
                      s.mutable_parallelism()->set_context_exchange(v1::ParallelismSpec::HEADS);
                      s.mutable_parallelism()->set_context(4);
                      s.mutable_model()->mutable_transformer()->set_heads(8);
                      s.mutable_model()->mutable_transformer()->set_kv_heads(2);
                    }},
        GoodContext{"WithTensorRanks",
                    [](v1::JobSpec& s) { s.mutable_parallelism()->set_tensor(2); }},
        GoodContext{"InAPipeline",
                    [](v1::JobSpec& s) { s.mutable_parallelism()->set_pipeline(2); }},
        GoodContext{"UnderZero",
                    [](v1::JobSpec& s) { s.mutable_parallelism()->mutable_zero()->set_stage(3); }},
        GoodContext{"OnServers", InContextOnServers},
        GoodContext{"UnderStage3OnServers",
                    [](v1::JobSpec& s) {
                      InContextOnServers(s);
                      s.mutable_parallelism()->mutable_zero()->set_stage(3);
                    }},
        GoodContext{"GoesOnWithWholeDataRanks", [](v1::JobSpec& s) { s.set_min_workers(2); }}),
    [](const auto& test) { return test.param.name; });

struct BadContext {
  const char* name;
  std::function<void(v1::JobSpec&)> change;
  Matcher<std::string> message;
};

class BadContextTest : public ::testing::TestWithParam<BadContext> {};

TEST_P(BadContextTest, IsRefused) {
  v1::JobSpec spec = ContextJob();
  GetParam().change(spec);
  // The job's validator calls this one.
  for (const absl::Status& status : {ValidateContext(spec), ValidateJob(spec)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadContextTest,
    ::testing::Values(
        BadContext{
            "AnExchangeOfOneRank",
            [](v1::JobSpec& s) {
              s.mutable_parallelism()->set_context(1);
              s.mutable_parallelism()->set_context_exchange(v1::ParallelismSpec::RING);
            },
            AllOf(HasSubstr("parallelism.context_exchange is RING"), HasSubstr("leave it out"))},
        BadContext{"HeadsThatDoNotDivide",
                   [](v1::JobSpec& s) {
                     s.mutable_parallelism()->set_context_exchange(v1::ParallelismSpec::HEADS);
                     s.mutable_parallelism()->set_tensor(2);
                   },
                   AllOf(HasSubstr("parallelism.context_exchange is HEADS"),
                         HasSubstr("share out 3 query heads of each tensor rank"))},
        BadContext{"KeyValueHeadsThatDoNotDivide",
                   [](v1::JobSpec& s) {
                     s.mutable_parallelism()->set_context_exchange(v1::ParallelismSpec::HEADS);
                     s.mutable_parallelism()->set_context(4);
                     s.mutable_model()->mutable_transformer()->set_heads(12);
                     s.mutable_model()->mutable_transformer()->set_kv_heads(6);
                   },
                   HasSubstr("of 6 key-value heads and 4 context ranks neither divides")},
        BadContext{
            "TokensThatDoNotDivide",
            [](v1::JobSpec& s) { s.mutable_model()->mutable_transformer()->set_context(22); },
            AllOf(HasSubstr("parallelism.context is 2"), HasSubstr("that 4 divides"))},
        BadContext{"StaleParameters",
                   [](v1::JobSpec& s) {
                     InContextOnServers(s);
                     s.mutable_update()->set_staleness_bound(1);
                   },
                   AllOf(HasSubstr("parallelism.context is 2; but the workers of a data rank"),
                         HasSubstr("set update.staleness_bound 0"))},
        BadContext{"UnlimitedStaleness",
                   [](v1::JobSpec& s) {
                     InContextOnServers(s);
                     s.mutable_update()->set_unlimited_staleness(true);
                   },
                   HasSubstr("without update.unlimited_staleness")},
        BadContext{"RoundedPushes",
                   [](v1::JobSpec& s) {
                     InContextOnServers(s);
                     s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
                   },
                   AllOf(HasSubstr("update.wire is BF16"), HasSubstr("parallelism.context 2"))},
        BadContext{"HalfADataRank", [](v1::JobSpec& s) { s.set_min_workers(3); },
                   HasSubstr("take a multiple of 2")}),
    [](const auto& test) { return test.param.name; });

TEST(ContextValidatorTest, OtherModelsHaveNoSequences) {
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_parallelism()->set_context(2);
  EXPECT_THAT(std::string(ValidateJob(spec).message()),
              AllOf(HasSubstr("parallelism.context is 2"), HasSubstr("model.transformer")));
}

}  // namespace
}  // namespace muster
