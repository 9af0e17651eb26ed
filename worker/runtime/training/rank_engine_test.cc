#include "worker/runtime/training/rank_engine.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/files/temp_folder.h"
#include "common/job_data/data_head.h"
#include "common/plan/ranks/planned_stages.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_spec.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/nn/tensor_group.h"

namespace muster {
namespace {

// A place among tensor ranks, which never talk.
class SilentTensorGroup final : public TensorGroup {
 public:
  SilentTensorGroup(int rank, int size) : rank_(rank), size_(size) {}
  int size() const override { return size_; }
  int rank() const override { return rank_; }
  void Gather(DType, int64_t, const void*, void*) override {}
  void ScatterSums(DType, int64_t, void*, void*) override {}
  void Sum(DType, int64_t, void*) override {}
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const int rank_;
  const int size_;
};

constexpr char kText[] = "It was the best of times, it was the worst of times; ";

class RankEngineTest : public ::testing::Test {
 protected:
  RankEngineTest() {
    std::string text;
    for (int i = 0; i < 100; ++i) text += kText;
    text_ = folder_.Write("text", text);
  }

  static v1::JobSpec SpecOf(const std::string& job) {
    v1::JobSpec spec;
    const std::string text =
        absl::StrCat(job,
                     " optimizer { name: 'sgd' learning_rate: 0.1 } "
                     "update { dense: ALL_REDUCE sparse: ALL_REDUCE } stop { steps: 1 }");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
    return spec;
  }

  // Sequences of 8 tokens, of 16 floats each.
  v1::JobSpec Transformer(const std::string& more, const std::string& data = "") const {
    return SpecOf(absl::StrCat(
        "model { transformer { layers: 4 width: 16 heads: 2 context: 8 } } data { sequences { ",
        "path: '", text_, "' } ", data, " } batch_size: 8 micro_batches: 4 workers: 2 ", more));
  }

  // Expects the memory that is planned, and returns the bytes of a message.
  static uint64_t MessageBytes(const v1::JobSpec& spec, TensorGroup* group = nullptr) {
    SCOPED_TRACE(spec.ShortDebugString());
    const absl::StatusOr<PreparedJob> job = PrepareJob(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return 0;
    const StageLinksOptions links = LinksOfStages(
        spec, *job, StageOfJob(spec, *job->schema, job->model->description().units, 1),
        {.tensor_group = group});
    const DataSize data = ReadDataHead(spec);
    const PlannedStages planned = PlanStages(spec, data, SizeOfModel(spec, data));
    EXPECT_EQ(RoundUp<uint64_t>(links.message_bytes, 64), planned.message_bytes);
    EXPECT_EQ(links.received + links.sent, planned.messages);
    return links.message_bytes;
  }

  const TempFolder folder_;
  std::string text_;
};

constexpr uint64_t kSequenceBytes = 8 * 16 * sizeof(float);

TEST_F(RankEngineTest, LinksHaveRoomForAMicroBatch) {
  for (const std::string schedule : {"GPIPE", "ONE_F_ONE_B", "INTERLEAVED", "ZERO_BUBBLE"}) {
    const std::string pipeline =
        absl::StrCat("parallelism { pipeline: 2 pipeline_schedule: ", schedule, " } ");
    EXPECT_EQ(MessageBytes(Transformer(pipeline)), 2 * kSequenceBytes);
    EXPECT_EQ(MessageBytes(Transformer(pipeline + "compute { type: BF16 }")), kSequenceBytes);
  }
}

TEST_F(RankEngineTest, LinksHaveRoomForAPassOfAnEvaluation) {
  const std::string pipeline = "parallelism { pipeline: 2 } ";
  // 1,024 labels of a pass are 128 sequences.
  EXPECT_EQ(MessageBytes(Transformer(pipeline, "holdout: 0.5")), 128 * kSequenceBytes);
  EXPECT_EQ(MessageBytes(Transformer(pipeline + "evaluation { max_examples: 10 }", "holdout: 0.5")),
            10 * kSequenceBytes);
  // No micro-batch is smaller than that of training.
  EXPECT_EQ(MessageBytes(Transformer(pipeline + "evaluation { max_examples: 1 }", "holdout: 0.5")),
            2 * kSequenceBytes);
  v1::JobSpec evaluates = Transformer(pipeline + "evaluation { max_examples: 1 }", "holdout: 1");
  evaluates.mutable_stop()->Clear();
  evaluates.mutable_stop()->set_evaluate_only(true);
  EXPECT_EQ(MessageBytes(evaluates), kSequenceBytes);
}

// Four ranks have 7, 7, 7 and 4 of 25 tokens, and 5 each of the other micro-batch's 20.
TEST_F(RankEngineTest, LinksHaveRoomForTheRowsOfEveryTensorRank) {
  const v1::JobSpec spec = SpecOf(absl::StrCat(
      "model { transformer { layers: 4 width: 16 heads: 4 context: 5 } } data { sequences { path: "
      "'",
      text_,
      "' } } workers: 8 batch_size: 9 micro_batches: 2 parallelism { pipeline: 2 tensor: 4 } "));
  for (const int rank : {0, 3}) {
    SilentTensorGroup group(rank, 4);
    EXPECT_EQ(MessageBytes(spec, &group), 7 * 16 * sizeof(float)) << rank;
  }
}

// The widest layer lies within a stage, and the validation data are few.
TEST_F(RankEngineTest, LinksHaveRoomForTheLayersAtTheirEnds) {
  const std::string classification = "{ synthetic_classification { features: 4 classes: 2 seed: 1 ";
  const std::string job =
      absl::StrCat("model { mlp { hidden: [64, 8, 32] classes: 2 } } data ", classification,
                   "examples: 100 } } ", "parallelism { pipeline: 2 pipeline_layers: [2, 2] } ",
                   "workers: 2 batch_size: 8 micro_batches: 4 ");
  EXPECT_EQ(MessageBytes(SpecOf(job)), 2 * 8 * sizeof(float));
  EXPECT_EQ(
      MessageBytes(SpecOf(absl::StrCat(job, "validation ", classification, "examples: 20 } }"))),
      20 * 8 * sizeof(float));
}

}  // namespace
}  // namespace muster
