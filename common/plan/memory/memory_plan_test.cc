#include "common/plan/memory/memory_plan.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/distinct_rows.h"
#include "common/plan/size/model_size.h"
#include "common/text/format_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// 8 -> 16 -> 3 with biases.
v1::JobSpec SmallMlp() {
  return Job(
      "model { mlp { hidden: 16 classes: 3 } } "
      "data { synthetic_classification { examples: 100 features: 8 classes: 3 } } "
      "optimizer { name: 'sgd' learning_rate: 0.1 } workers: 2 batch_size: 8");
}
constexpr uint64_t kSmallMlp = 9 * 16 + 17 * 3;

std::map<std::string, uint64_t> ServersOf(const v1::JobSpec& spec) {
  return ByName(PlanOf(spec).servers);
}

TEST(MemoryPlanTest, MuonOrthogonalisesOneMatrixAtATime) {
  v1::JobSpec spec = Gpt();
  std::map<std::string, uint64_t> parts = WorkerOf(spec);
  spec.mutable_optimizer()->set_name("muon");
  std::map<std::string, uint64_t> with_muon = WorkerOf(spec);
  // The largest, beside two squares of its smaller extent.
  EXPECT_EQ(with_muon["one matrix to orthogonalise"], 4 * (4 * 384 * 384 + 2 * 384 * 384));
  with_muon.erase("one matrix to orthogonalise");
  EXPECT_EQ(with_muon, parts) << "state is as large";
  // Two shards have half of a block each, and may own one matrix more.
  spec.set_workers(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  EXPECT_EQ(WorkerOf(spec)["matrices of a unit brought together"],
            3 * 4 * (6 * 384 * 384 + 4 * 384 * 384));
  spec.clear_parallelism();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_partitions(3);
  EXPECT_EQ(ServersOf(spec)["matrices to orthogonalise"], 3 * 4 * 6 * 384 * 384);
}

TEST(MemoryPlanTest, CountsDenseParametersAndOptimizerState) {
  v1::JobSpec spec = SmallMlp();
  // Weights, sums, and what each worker sends.
  EXPECT_EQ(PlanOf(spec).server_bytes(), 4 * kSmallMlp * (2 + 2));
  EXPECT_EQ(WorkerOf(spec)["parameters"], 4 * kSmallMlp);
  EXPECT_EQ(WorkerOf(spec)["gradients"], 4 * kSmallMlp);
  EXPECT_EQ(WorkerOf(spec).count("optimizer state"), 0u);
  // Half of that, as much that each is sent, and what they owe, which a cut holds.
  spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  EXPECT_EQ(PlanOf(spec).server_bytes(), 4 * kSmallMlp * (2 + 2 + 2));
  spec.mutable_update()->clear_wire();
  spec.mutable_optimizer()->set_name("adam");
  EXPECT_EQ(PlanOf(spec).server_bytes(), 4 * kSmallMlp * (4 + 2));
  spec.mutable_update()->set_deterministic(true);
  EXPECT_EQ(PlanOf(spec).server_bytes(), 4 * kSmallMlp * (4 + 2 + 2));
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(PlanOf(spec).server_bytes(), 0u);
  EXPECT_EQ(WorkerOf(spec)["optimizer state"], 8 * kSmallMlp);
  spec.mutable_optimizer()->set_state_type(v1::OptimizerSpec::BF16);
  EXPECT_EQ(WorkerOf(spec)["optimizer state"], 4 * kSmallMlp);
  spec.mutable_optimizer()->set_average_decay(0.999f);
  EXPECT_EQ(WorkerOf(spec)["optimizer state"], 8 * kSmallMlp);
}

TEST(MemoryPlanTest, LaysOutATransformer) {
  const std::map<std::string, uint64_t> parts = WorkerOf(Gpt());
  EXPECT_EQ(parts.at("parameters"), 4 * kGpt);
  EXPECT_EQ(parts.at("optimizer state"), 8 * kGpt);
  // 3 C + Q + U + F and two streams of f32, statistics of norms and of heads; 2048 tokens.
  EXPECT_EQ(parts.at("activations kept"),
            6 * 2048 * 4 * (3 * 384 + 1152 + 2 * 1536 + 2 * 384 + 4 + 6));
  EXPECT_EQ(parts.at("logits"), 2048 * 256 * 4);
  EXPECT_EQ(parts.count("16-bit weights"), 0u);
  EXPECT_EQ(parts.count("others' gradients, if on one machine"), 0u);
}

// Adapters of queries and values, of rank 8, in each of six blocks.
TEST(MemoryPlanTest, FrozenParametersHaveNeitherGradientsNorState) {
  constexpr uint64_t kAdapters = 6 * 2 * 2 * 8 * 384;
  const v1::JobSpec spec = Gpt("adapter { rank: 8 }");
  EXPECT_EQ(SizeOfModel(spec, SizeOfData(spec.data())).trained(), kAdapters);
  std::map<std::string, uint64_t> parts = WorkerOf(spec);
  EXPECT_EQ(parts["parameters"], 4 * (kGpt + kAdapters));
  EXPECT_EQ(parts["gradients"], 4 * kAdapters);
  EXPECT_EQ(parts["optimizer state"], 8 * kAdapters);
  parts = WorkerOf(Gpt("adapter { rank: 8 } workers: 2 parallelism { zero { stage: 2 } }"));
  EXPECT_NEAR(parts["slice of optimizer state"], 4 * kAdapters, 4 * 1024 * 7);
  EXPECT_NEAR(parts["slice of sums of gradients"], 2 * kAdapters, 4 * 1024 * 7);
  EXPECT_GT(parts["gathered parameters"], 4 * kGpt);
  v1::JobSpec served = spec;
  served.mutable_update()->Clear();
  std::map<std::string, uint64_t> servers = ServersOf(served);
  EXPECT_EQ(servers["parameters"], 4 * (kGpt + kAdapters));
  EXPECT_EQ(servers["optimizer state"], 8 * kAdapters);
  EXPECT_EQ(servers["sums of the open clock"], 4 * kAdapters);
}

TEST(MemoryPlanTest, TensorRanksHaveSharesOfLayersAndTokens) {
  constexpr uint64_t C = 384;
  std::map<std::string, uint64_t> whole = WorkerOf(Gpt());
  std::map<std::string, uint64_t> parts = WorkerOf(Gpt("workers: 2 parallelism { tensor: 2 }"));
  // Matrices are halved, as are biases of outputs that ranks divide. Norms are whole, and the first
  // rank has the positions and the other biases.
  constexpr uint64_t kOfRank =
      6 * (6 * C * C + 4 * C + (3 + 4) * C / 2 + 2 * C) + 256 * C / 2 + 256 * C + 2 * C;
  EXPECT_EQ(parts["parameters"], 4 * kOfRank);
  EXPECT_EQ(parts["gradients"], 4 * kOfRank);
  EXPECT_EQ(parts["optimizer state"], 8 * kOfRank);
  EXPECT_EQ(parts.count("others' gradients, if on one machine"), 0u) << "there is one data rank";
  EXPECT_EQ(2 * parts["activations kept"], whole["activations kept"]);
  EXPECT_GT(2 * parts["activations of one block"], whole["activations of one block"])
      << "a gathered block is scratch";
  const std::map<std::string, uint64_t> tokens_whole =
      WorkerOf(Gpt("workers: 2 parallelism { tensor: 2 sequence: false }"));
  EXPECT_EQ(tokens_whole.at("activations kept"),
            6 * 2048 * 4 * (4 * C + (C + 1152 + 2 * 1536) / 2 + 4 + 3));
  parts = WorkerOf(Gpt("workers: 4 parallelism { tensor: 2 }"));
  EXPECT_EQ(parts["others' gradients, if on one machine"], 4 * kOfRank);
  parts = WorkerOf(Gpt("workers: 4 parallelism { tensor: 2 zero { stage: 3 } }"));
  EXPECT_NEAR(parts["slice of parameters"], 2 * kOfRank, 0.01 * kOfRank);
}

TEST(MemoryPlanTest, TensorRanksDividePairsOfLayers) {
  v1::JobSpec spec = SmallMlp();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_EQ(WorkerOf(spec)["parameters"], 4 * (8 * 9 + 3 * 8 + 3));
}

TEST(MemoryPlanTest, RecomputationKeepsLess) {
  const uint64_t none = WorkerOf(Gpt())["activations kept"];
  const uint64_t selective = WorkerOf(Gpt("compute { recompute: SELECTIVE }"))["activations kept"];
  const uint64_t full = WorkerOf(Gpt("compute { recompute: FULL }"))["activations kept"];
  EXPECT_EQ(selective, 6 * 2048 * 4 * (1152 + 1536 + 2 * 384));
  EXPECT_EQ(full, 6 * 2048 * 4 * 384);
  EXPECT_GT(none, selective);
}

TEST(MemoryPlanTest, SixteenBitsHalveActivationsAndCopyMatrices) {
  for (const std::string type : {"BF16", "F16"}) {
    const std::map<std::string, uint64_t> parts =
        WorkerOf(Gpt(absl::StrCat("compute { type: ", type, " }")));
    EXPECT_EQ(parts.at("16-bit weights"), 2 * kGptMatrices);
    EXPECT_EQ(parts.at("activations kept"),
              6 * 2048 * (2 * (3 * 384 + 1152 + 2 * 1536) + 4 * (2 * 384 + 4 + 6)));
  }
}

// A block has 12 * 384^2 elements and two gains; the tied embedding stays beside two blocks.
TEST(MemoryPlanTest, WorkersOfServersHoldUnitsInFlight) {
  constexpr uint64_t kBlock = 12 * 384 * 384 + 2 * 384;
  v1::JobSpec spec = Gpt("workers: 2 parallelism { zero { stage: 3 } }");
  spec.clear_update();
  std::map<std::string, uint64_t> parts = WorkerOf(spec);
  EXPECT_EQ(parts.count("parameters"), 0u);
  EXPECT_EQ(parts.count("gradients"), 0u);
  const uint64_t in_flight = parts["parameters of units in flight"];
  EXPECT_GT(in_flight, 4 * 2 * kBlock);
  EXPECT_LT(in_flight, 4 * (kGpt - 3 * kBlock));
  EXPECT_EQ(parts["gradients of units in flight"], in_flight);
  EXPECT_EQ(ServersOf(spec)["values before the last step"], 4 * kGpt);
  spec.mutable_update()->set_deterministic(true);
  EXPECT_EQ(ServersOf(spec).count("values before the last step"), 0u);
  spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  EXPECT_EQ(WorkerOf(spec)["gradients of units in flight"], in_flight);
  EXPECT_LT(WorkerOf(spec)["parameters of units in flight"], in_flight);
}

// What servers send rounded is held so, and not in f32 as well. A tied head's matrix is the
// embedding's, which is looked up in f32.
TEST(MemoryPlanTest, SixteenBitsComeFromServers) {
  constexpr uint64_t kBlocks = 6 * 12 * 384 * 384, kHead = 256 * 384;
  v1::JobSpec spec = Gpt("compute { type: BF16 } workers: 2");
  spec.clear_update();
  std::map<std::string, uint64_t> parts = WorkerOf(spec);
  EXPECT_EQ(parts["parameters"], 4 * kGpt - 2 * kBlocks);
  EXPECT_EQ(parts["16-bit weights"], 2 * kHead);
  EXPECT_EQ(parts["gradients"], 4 * kGpt);
  EXPECT_EQ(parts["messages with servers"], 0u);
  spec.mutable_model()->mutable_transformer()->set_separate_head(true);
  parts = WorkerOf(spec);
  EXPECT_EQ(parts["parameters"], 4 * (kGpt + kHead) - 2 * (kBlocks + kHead));
  EXPECT_EQ(parts.count("16-bit weights"), 0);
}

TEST(MemoryPlanTest, ScratchOfBf16IsForProcessorsThatDoNotMultiplyIt) {
  const auto scratch = [](const std::string& type, const WorkerProcessors& processors) {
    const v1::JobSpec spec = Gpt(absl::StrCat("compute { type: ", type, " }"));
    return ByName(PlanMemory(spec, SizeOfData(spec.data()), processors).worker)["kernels' scratch"];
  };
  const WorkerProcessors known = {.multiply_bf16 = true};
  // Of one head: queries, keys, values and two gradients of 320 rows with 64 columns.
  EXPECT_EQ(scratch("BF16", known), 5 * 320 * 64 * 4);
  EXPECT_GT(scratch("BF16", {}), uint64_t{20} << 20);
  EXPECT_EQ(scratch("F16", known), scratch("BF16", {})) << "f16 is always made f32";
  EXPECT_EQ(scratch("F32", known), scratch("F32", {}));
}

TEST(MemoryPlanTest, MicroBatchesAndWorkersShareTheBatch) {
  EXPECT_EQ(WorkerOf(Gpt("micro_batches: 4"))["activations kept"],
            WorkerOf(Gpt())["activations kept"] / 4);
  // Others' memory is mapped, not needed again.
  std::map<std::string, uint64_t> parts = WorkerOf(Gpt("workers: 3"));
  EXPECT_EQ(parts["others' gradients, if on one machine"], 2 * 4 * kGpt);
  const MemoryPlan plan = PlanOf(Gpt("workers: 3"));
  EXPECT_EQ(plan.worker_own_bytes(),
            plan.worker_bytes() - 2 * 4 * kGpt -
                parts["rings that other ranks have made, if on one machine"]);
}

// A pass takes 1,024 labels, or all examples that a worker has.
TEST(MemoryPlanTest, AnEvaluationTakesWhatAPassDoes) {
  v1::JobSpec spec = SmallMlp();
  EXPECT_EQ(WorkerOf(spec)["evaluation"], 0u);
  v1::SyntheticClassificationData& data = *spec.mutable_data()->mutable_synthetic_classification();
  data.set_examples(100000);
  spec.mutable_data()->set_holdout(0.1);
  // Outputs; features, a label and an offset, twice.
  const uint64_t each = 4 * (16 + 3) + 2 * (4 * 8 + 4 + 8);
  EXPECT_EQ(WorkerOf(spec)["evaluation"], 1024 * each);
  spec.mutable_evaluation()->set_max_examples(101);
  EXPECT_EQ(WorkerOf(spec)["evaluation"], 51 * each);
  data.set_examples(305);
  EXPECT_EQ(WorkerOf(spec)["evaluation"], 16 * each);
  // Sequences of 256 labels.
  spec = Gpt();
  spec.mutable_data()->set_holdout(0.1);
  const uint64_t four = WorkerOf(spec)["evaluation"];
  spec.mutable_evaluation()->set_max_examples(1);
  EXPECT_EQ(WorkerOf(spec)["evaluation"], four / 4);
}

// For the AUC of two classes: an f32 score and a label of each example, in two places.
TEST(MemoryPlanTest, ScoresOfAllExamplesAreKept) {
  const auto scores = [](const v1::JobSpec& spec) {
    return WorkerOf(spec)["scores of an evaluation"];
  };
  v1::JobSpec spec = SmallMlp();
  spec.mutable_model()->mutable_mlp()->set_classes(2);
  spec.mutable_data()->mutable_synthetic_classification()->set_examples(10000);
  spec.mutable_data()->set_holdout(0.1);
  EXPECT_EQ(scores(spec), 0u);
  spec.mutable_evaluation()->set_metric("auc");
  EXPECT_EQ(scores(spec), 2 * 5 * 500) << "of two workers";
  spec.mutable_evaluation()->set_metric("accuracy");
  spec.mutable_stop()->set_evaluate_only(true);
  EXPECT_EQ(scores(spec), 2 * 5 * 500) << "whatever the metric is";
  spec.mutable_evaluation()->set_max_examples(101);
  EXPECT_EQ(scores(spec), 2 * 5 * 51);
  spec.mutable_evaluation()->set_metric("binned_auc");
  EXPECT_EQ(scores(spec), 0u);
  spec.clear_evaluation();
  spec.mutable_data()->mutable_synthetic_classification()->set_examples(1'000'000'000);
  EXPECT_EQ(scores(spec), 128u << 20) << "more are counted by bins";
  spec.mutable_model()->mutable_mlp()->set_classes(3);
  EXPECT_EQ(scores(spec), 0u);
}

TEST(MemoryPlanTest, WhatOnlyEvaluatesHasNothingOfTraining) {
  for (const std::string type : {"F32", "F16"}) {
    v1::JobSpec spec = Gpt(absl::StrCat("compute { type: ", type, " }"));
    spec.mutable_data()->set_holdout(1);
    std::map<std::string, uint64_t> trains = WorkerOf(spec);
    spec.mutable_stop()->set_evaluate_only(true);
    std::map<std::string, uint64_t> parts = WorkerOf(spec);
    for (const std::string name :
         {"gradients", "activations kept", "activations of one block", "logits", "data"}) {
      EXPECT_EQ(parts[name], 0u) << name;
    }
    for (const std::string name :
         {"parameters", "optimizer state", "evaluation", "16-bit weights"}) {
      EXPECT_EQ(parts[name], trains[name]) << name;
    }
    EXPECT_LE(parts["kernels' scratch"], trains["kernels' scratch"]);
  }
  // Devices are laid out as for training.
  v1::JobSpec spec = Gpt("compute { device: CUDA }");
  const uint64_t device = PlanOf(spec).device_bytes();
  spec.mutable_stop()->set_evaluate_only(true);
  EXPECT_EQ(PlanOf(spec).device_bytes(), device);
}

TEST(MemoryPlanTest, MessagesWithServersAreBounded) {
  const auto messages = [](const std::string& model, const std::string& more) {
    return WorkerOf(Job(absl::StrCat(
        "model { transformer { layers: 6 width: 384 heads: 6 context: 256 ", model, " } } ",
        "data { sequences { path: 't' } } optimizer { name: 'adamw' learning_rate: 0.1 } ",
        "batch_size: 8 ", more)))["messages with servers"];
  };
  // Servers read gradients where they are, and parameters come where they belong.
  EXPECT_EQ(messages("", "workers: 1"), 0u);
  EXPECT_EQ(messages("", "workers: 2"), 0u);
  // But for those of 16 bits that are kept in f32: 16 MiB that it asks for, or those of the
  // embedding and the next unit.
  const std::string half = "workers: 2 update { wire: BF16 }";
  const uint64_t block = 12 * 384 * 384 + 13 * 384;
  const uint64_t embedding = (32768 + 256) * 384;
  EXPECT_EQ(messages("", half), 16 * kMiB);
  EXPECT_EQ(messages("vocabulary: 32768", half), 2 * (embedding + block));
  // What is computed with in the wire's type is kept so.
  EXPECT_LT(messages("", absl::StrCat(half, " compute { type: BF16 }")), 1 * kMiB);
}

TEST(MemoryPlanTest, WhatServersHaveReceivedIsBounded) {
  const auto messages = [](const std::string& model, const std::string& more) {
    return ServersOf(Job(absl::StrCat(
        "model { transformer { layers: 6 width: 384 heads: 6 context: 256 ", model, " } } ",
        "data { sequences { path: 't' } } optimizer { name: 'adamw' learning_rate: 0.1 } ",
        "batch_size: 8 ", more)))["messages with workers"];
  };
  // An only worker's gradients are the sums.
  EXPECT_EQ(messages("", "workers: 1"), 0u);
  // Of several workers 8 MiB, and a block of each partition; of all there are at most.
  EXPECT_EQ(messages("", "workers: 2"), 2 * (8 + 8) * kMiB);
  EXPECT_EQ(messages("", "workers: 2 update { partitions: 12 }"), 2 * (8 + 12) * kMiB);
  EXPECT_EQ(messages("", "workers: 2 update { partitions: 64 }"), 2 * 4 * kGpt);
  // Of larger units one's.
  const uint64_t embedding = (32768 + 256) * 384;
  EXPECT_EQ(messages("vocabulary: 32768", "workers: 2"), 2 * (4 * embedding + 8 * kMiB));
  // No more than a connection lets wait.
  EXPECT_EQ(messages("vocabulary: 131072", "workers: 2"), 2 * 72 * kMiB);
}

TEST(MemoryPlanTest, PadsTheVocabulary) {
  v1::JobSpec spec = Gpt();
  spec.mutable_model()->mutable_transformer()->set_vocabulary(300);
  spec.mutable_model()->mutable_transformer()->set_pad_vocabulary_to(128);
  EXPECT_EQ(WorkerOf(spec)["logits"], 2048 * 384 * 4);
}

TEST(MemoryPlanTest, LogitsAreBounded) {
  v1::JobSpec spec = Gpt();
  spec.mutable_model()->mutable_transformer()->set_vocabulary(1 << 20);
  EXPECT_EQ(WorkerOf(spec)["logits"], 256 * kMiB);
}

TEST(MemoryPlanTest, TheLargestJobDoesNotOverflow) {
  v1::JobSpec spec = Gpt();
  v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
  model.set_layers(1024);
  model.set_width(1 << 16);
  model.set_heads(256);
  model.set_feed_forward(1 << 18);
  model.set_context(1 << 20);
  model.set_vocabulary(1 << 24);
  const uint64_t one = PlanOf(spec).worker_bytes();
  spec.set_batch_size(std::numeric_limits<uint32_t>::max());
  EXPECT_GE(PlanOf(spec).worker_bytes(), one);
  EXPECT_GT(one, uint64_t{1} << 50);
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  EXPECT_GT(PlanOf(spec).device_bytes(), uint64_t{1} << 60);
  EXPECT_LT(PlanOf(spec).device_bytes(), uint64_t{1} << 63);
}

TEST(MemoryPlanTest, TheLargestBatchDoesNotOverflow) {
  v1::JobSpec spec =
      Job("model { deep_fm { embedding_dim: 65536 hidden: 16 } } "
          "data { synthetic_clicks { fields: 4096 numeric: 2 } } "
          "optimizer { name: 'sgd' learning_rate: 0.1 } "
          "update { dense: ALL_REDUCE sparse: ALL_REDUCE }");
  spec.mutable_data()->mutable_synthetic_clicks()->set_cardinality(uint64_t{1} << 62);
  spec.set_batch_size(std::numeric_limits<uint32_t>::max());
  const DataSize data = SizeOfData(spec.data());
  const auto rows =
      static_cast<double>(DistinctRows(SizeOfModel(spec, data), data, spec.batch_size()));
  EXPECT_GT(rows, 1e12);
  for (const uint32_t workers : {1u, 1u << 10, 1u << 20}) {
    spec.set_workers(workers);
    // What all workers gather, and its sums.
    EXPECT_GT(static_cast<double>(WorkerOf(spec)["rows of a step"]), 2 * rows * 4 * 65536)
        << workers;
  }
  // An owner's sums alone.
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  spec.set_workers(2);
  EXPECT_GT(static_cast<double>(WorkerOf(spec)["rows of a step"]), rows / 2 * 4 * 65536);
}

// Not fewer rows for steps beyond all numbers than for some.
TEST(MemoryPlanTest, TheLongestJobDoesNotOverflow) {
  v1::JobSpec spec =
      Job("model { deep_fm { embedding_dim: 4096 hidden: 16 } } "
          "data { synthetic_clicks { fields: 1000 numeric: 2 } } "
          "optimizer { name: 'adam' learning_rate: 0.1 } workers: 2 batch_size: 64");
  spec.mutable_data()->mutable_synthetic_clicks()->set_cardinality(uint64_t{1} << 62);
  for (const bool by_all_reduce : {false, true}) {
    if (by_all_reduce) {
      spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
      spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    }
    uint64_t before = 0;
    for (const int bits : {10, 30, 50, 56, 58, 60, 62, 63}) {
      spec.mutable_stop()->set_steps(uint64_t{1} << bits);
      const MemoryPlan plan = PlanOf(spec);
      const uint64_t bytes = by_all_reduce ? plan.worker_bytes() : plan.server_bytes();
      EXPECT_GE(bytes, before) << bits;
      EXPECT_LT(bytes, uint64_t{1} << 63) << bits;
      before = bytes;
    }
    EXPECT_GT(before, uint64_t{1} << 55);
  }
}

TEST(MemoryPlanTest, SumsItsParts) {
  const MemoryPlan plan = PlanOf(Gpt());
  uint64_t sum = 0;
  for (const MemoryPart& part : plan.worker) sum += part.bytes;
  EXPECT_EQ(plan.worker_bytes(), sum);
  const std::string table = MemoryTable(plan.worker, "  ");
  EXPECT_THAT(table, StartsWith("  activations kept"));
  EXPECT_THAT(table, HasSubstr(absl::StrCat("together")));
  EXPECT_THAT(table, HasSubstr(FormatBytes(sum)));
}

}  // namespace
}  // namespace muster
