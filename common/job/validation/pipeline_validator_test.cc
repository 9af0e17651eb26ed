#include "common/job/validation/pipeline_validator.h"

#include <functional>
#include <string>

#include "common/job/test_jobs.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

v1::ParallelismSpec& Parallelism(v1::JobSpec& spec) { return *spec.mutable_parallelism(); }

// A transformer of four blocks, so of six layers, on two stages with four micro-batches.
v1::JobSpec PipelineJob() {
  v1::JobSpec spec = AllReduceJob();
  spec.mutable_data()->mutable_sequences()->set_path("p");
  v1::TransformerSpec& transformer = *spec.mutable_model()->mutable_transformer();
  transformer.set_layers(4);
  transformer.set_width(4);
  transformer.set_heads(1);
  transformer.set_context(4);
  spec.mutable_optimizer()->set_name("adamw");
  spec.set_micro_batches(4);
  Parallelism(spec).set_pipeline(2);
  return spec;
}

struct BadPipeline {
  const char* name;
  std::function<void(v1::JobSpec&)> spoil;
  Matcher<std::string> message;
};

class BadPipelineTest : public ::testing::TestWithParam<BadPipeline> {};

TEST_P(BadPipelineTest, IsRefusedByName) {
  v1::JobSpec spec = PipelineJob();
  GetParam().spoil(spec);
  const absl::Status status = ValidatePipeline(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPipelineTest,
    ::testing::Values(
        BadPipeline{"UnknownSchedule",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline_schedule(
                          static_cast<v1::ParallelismSpec::PipelineSchedule>(77));
                    },
                    HasSubstr("parallelism.pipeline_schedule is 77; it must be LAYER_WISE")},
        BadPipeline{"MoreStagesThanLayers", [](v1::JobSpec& s) { Parallelism(s).set_pipeline(7); },
                    HasSubstr("parallelism.pipeline is 7; but the model has 6 layers (its blocks, "
                              "the embedding and the head)")},
        BadPipeline{"MoreStagesThanLayersOfAPerceptron",
                    [](v1::JobSpec& s) {
                      *s.mutable_model() = SmallJob().model();
                      Parallelism(s).set_pipeline(3);
                    },
                    HasSubstr("parallelism.pipeline is 3; but the model has 2 layers, and")},
        BadPipeline{
            "MoreGroupsThanLayers",
            [](v1::JobSpec& s) {
              Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
              Parallelism(s).set_pipeline_chunks(4);
            },
            AllOf(HasSubstr("parallelism.pipeline_chunks is 4"), HasSubstr("have 8 groups"))},
        BadPipeline{"MoreChunksThanCanBeCounted",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                      Parallelism(s).set_pipeline_chunks(~0u);
                    },
                    HasSubstr("parallelism.pipeline_chunks is 4294967295")},
        BadPipeline{"ChunksByDefaultThatAreTooMany",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline(4);
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                    },
                    HasSubstr("parallelism.pipeline_chunks is 2; but the model has 6 layers")},
        BadPipeline{"ChunksOfAnotherSchedule",
                    [](v1::JobSpec& s) { Parallelism(s).set_pipeline_chunks(2); },
                    HasSubstr("parallelism.pipeline_chunks is 2; but parallelism.pipeline_schedule "
                              "is ONE_F_ONE_B")},
        BadPipeline{"OneChunk",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                      Parallelism(s).set_pipeline_chunks(1);
                    },
                    HasSubstr("parallelism.pipeline_chunks is 1; but parallelism.pipeline_schedule "
                              "is INTERLEAVED")},
        BadPipeline{"MicroBatchesThatMakeNoRounds",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                      s.set_micro_batches(5);
                    },
                    AllOf(HasSubstr("micro_batches is 5"),
                          HasSubstr("a multiple of parallelism.pipeline, which is 2"))},
        BadPipeline{"FewerMicroBatchesThanStages",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                      s.clear_micro_batches();
                    },
                    HasSubstr("micro_batches is 1; but parallelism.pipeline_schedule is")},
        BadPipeline{"LayerWiseWithMicroBatches",
                    [](v1::JobSpec& s) {
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::LAYER_WISE);
                    },
                    HasSubstr("parallelism.pipeline_schedule is LAYER_WISE; but micro_batches is "
                              "4, and this order has one")},
        BadPipeline{
            "ListOfAnotherLength", [](v1::JobSpec& s) { Parallelism(s).add_pipeline_layers(6); },
            HasSubstr("parallelism.pipeline_layers is a list of 1; it must have 2 numbers")},
        BadPipeline{"ListWithAnEmptyGroup",
                    [](v1::JobSpec& s) {
                      Parallelism(s).add_pipeline_layers(6);
                      Parallelism(s).add_pipeline_layers(0);
                    },
                    HasSubstr("parallelism.pipeline_layers is a list with a 0")},
        BadPipeline{"ListOfOtherLayers",
                    [](v1::JobSpec& s) {
                      Parallelism(s).add_pipeline_layers(3);
                      Parallelism(s).add_pipeline_layers(4);
                    },
                    HasSubstr("parallelism.pipeline_layers is a list of 7 layers; but the model "
                              "has 6")},
        BadPipeline{"SparseTables",
                    [](v1::JobSpec& s) { *s.mutable_model() = HybridJob().model(); },
                    HasSubstr("parallelism.pipeline is 2; but only the layers of")},
        BadPipeline{"UnlimitedStaleness",
                    [](v1::JobSpec& s) {
                      s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                      s.mutable_update()->set_unlimited_staleness(true);
                    },
                    AllOf(HasSubstr("parallelism.pipeline is 2"), HasSubstr("staleness_bound 0"))},
        BadPipeline{"Staleness",
                    [](v1::JobSpec& s) {
                      s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                      s.mutable_update()->set_staleness_bound(1);
                    },
                    HasSubstr("staleness_bound 0")},
        BadPipeline{"RoundedPushes",
                    [](v1::JobSpec& s) {
                      s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                      s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
                    },
                    HasSubstr("update.wire is BF16; but update.dense is PARAMETER_SERVER and "
                              "parallelism.pipeline 2")},
        BadPipeline{"ScatteredGradientsOfSplitBackward",
                    [](v1::JobSpec& s) {
                      Parallelism(s).mutable_zero()->set_stage(2);
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::ZERO_BUBBLE);
                    },
                    HasSubstr("parallelism.zero.stage is 2; but parallelism.pipeline_schedule is "
                              "ZERO_BUBBLE")},
        BadPipeline{"ScatteredGradientsOfSeveralChunks",
                    [](v1::JobSpec& s) {
                      Parallelism(s).mutable_zero()->set_stage(2);
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                    },
                    HasSubstr("parallelism.zero.stage is 2; but parallelism.pipeline_schedule is "
                              "INTERLEAVED")},
        BadPipeline{"GatheredLayersOfSeveralChunks",
                    [](v1::JobSpec& s) {
                      Parallelism(s).mutable_zero()->set_stage(3);
                      Parallelism(s).set_pipeline_schedule(v1::ParallelismSpec::INTERLEAVED);
                    },
                    AllOf(HasSubstr("parallelism.zero.stage is 3; but "
                                    "parallelism.pipeline_schedule is INTERLEAVED"),
                          HasSubstr("take stage 1, or GPIPE or ONE_F_ONE_B"))},
        BadPipeline{"GatheredLayersFromServers",
                    [](v1::JobSpec& s) {
                      Parallelism(s).mutable_zero()->set_stage(3);
                      s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                    },
                    HasSubstr("parallelism.zero.stage is 3; but update.dense is "
                              "PARAMETER_SERVER and parallelism.pipeline 2")},
        BadPipeline{"FewerWorkers", [](v1::JobSpec& s) { s.set_min_workers(1); },
                    HasSubstr("min_workers is 1; but parallelism.pipeline is 2")}),
    [](const auto& info) { return info.param.name; });

TEST(PipelineValidatorTest, TakesEverySchedule) {
  for (const auto schedule : {v1::ParallelismSpec::PIPELINE_SCHEDULE_UNSPECIFIED,
                              v1::ParallelismSpec::GPIPE, v1::ParallelismSpec::ONE_F_ONE_B,
                              v1::ParallelismSpec::INTERLEAVED, v1::ParallelismSpec::ZERO_BUBBLE}) {
    v1::JobSpec spec = PipelineJob();
    Parallelism(spec).set_pipeline_schedule(schedule);
    EXPECT_TRUE(ValidatePipeline(spec).ok()) << ValidatePipeline(spec);
    spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
    EXPECT_TRUE(ValidatePipeline(spec).ok()) << ValidatePipeline(spec);
  }
  v1::JobSpec spec = PipelineJob();
  spec.set_micro_batches(1);
  Parallelism(spec).set_pipeline_schedule(v1::ParallelismSpec::LAYER_WISE);
  for (const uint32_t layers : {1, 5}) Parallelism(spec).add_pipeline_layers(layers);
  EXPECT_TRUE(ValidatePipeline(spec).ok()) << ValidatePipeline(spec);
  for (const uint32_t stage : {1, 2, 3}) {
    Parallelism(spec).mutable_zero()->set_stage(stage);
    EXPECT_TRUE(ValidatePipeline(spec).ok()) << ValidatePipeline(spec);
  }
}

TEST(PipelineValidatorTest, IsNamedWithItsSchedule) {
  v1::JobSpec spec = PipelineJob();
  EXPECT_EQ(DivisionName(spec), "pipeline 2 by ONE_F_ONE_B");
  Parallelism(spec).set_tensor(2);
  EXPECT_EQ(DivisionName(spec), "tensor 2 with sequence, pipeline 2 by ONE_F_ONE_B");
}

TEST(PipelineValidatorTest, FieldsOfAPipelineAreRefusedWithoutOne) {
  const struct {
    std::function<void(v1::ParallelismSpec&)> set;
    std::string field;
  } cases[] = {
      {[](auto& p) { p.set_pipeline_schedule(v1::ParallelismSpec::GPIPE); },
       "parallelism.pipeline_schedule is GPIPE"},
      {[](auto& p) { p.set_pipeline_chunks(2); }, "parallelism.pipeline_chunks is 2"},
      {[](auto& p) { p.add_pipeline_layers(2); }, "parallelism.pipeline_layers is a list of 1"},
  };
  for (const auto& one : cases) {
    for (const uint32_t stages : {0, 1}) {
      v1::JobSpec spec = AllReduceJob();
      Parallelism(spec).set_pipeline(stages);
      one.set(Parallelism(spec));
      // The job's validator calls this one.
      for (const absl::Status& status : {ValidatePipeline(spec), ValidateJob(spec)}) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(status.message()),
                    AllOf(HasSubstr(one.field), HasSubstr("which makes no pipeline")));
      }
    }
  }
}

}  // namespace
}  // namespace muster
