#include "common/plan/passes/step_costs.h"

#include <string>
#include <vector>

#include "common/plan/memory/plan_jobs_for_testing.h"
#include "common/plan/passes/unit_costs.h"
#include "common/plan/size/data_size.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

v1::JobSpec Gpt2(const std::string& more = "") {
  return Job(
      "model { transformer { layers: 12 width: 768 heads: 12 context: 1024 vocabulary: 50257 } } "
      "data { sequences { path: 't' } } optimizer { name: 'adamw' learning_rate: 0.1 } batch_size: "
      "4 " +
      more);
}

ModelSize SizeOf(const v1::JobSpec& spec) { return SizeOfModel(spec, SizeOfData(spec.data())); }

TEST(StepCostsTest, CountsSixTimesTheParametersAndAttention) {
  const StepCosts costs = CostsOfStep(Gpt2(), SizeOf(Gpt2()));
  constexpr uint64_t kMatrices = 12 * 12 * 768 * 768 + 50257 * 768;
  EXPECT_EQ(costs.multiplied, kMatrices);
  EXPECT_TRUE(costs.items_are_tokens);
  EXPECT_EQ(costs.items, 4096u);
  EXPECT_DOUBLE_EQ(costs.flops_per_item, 6.0 * kMatrices + 6.0 * 12 * 768 * 1024);
  EXPECT_DOUBLE_EQ(costs.flops(), 4096 * costs.flops_per_item);
  EXPECT_EQ(costs.recomputed_flops_per_item, 0);
}

TEST(StepCostsTest, AttentionStaysWithinDocuments) {
  const v1::JobSpec spec = Gpt2("compute { recompute: SELECTIVE }");
  const StepCosts whole = CostsOfStep(spec, SizeOf(spec)),
                  apart = CostsOfStep(spec, SizeOf(spec), 64);
  EXPECT_DOUBLE_EQ(whole.flops_per_item - apart.flops_per_item, 6.0 * 12 * 768 * (1024 - 64));
  EXPECT_DOUBLE_EQ(apart.recomputed_flops_per_item, 2.0 * 12 * 768 * 64);
}

TEST(StepCostsTest, AttentionIsThatOfAllHeadsWithinTheWindow) {
  v1::JobSpec spec = Gpt2("compute { recompute: SELECTIVE }");
  v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
  model.set_head_width(128);
  model.set_kv_heads(4);
  constexpr uint64_t kMatrices = 12 * 768 * ((12 + 2 * 4) * 128 + 12 * 128 + 8 * 768) + 50257 * 768;
  constexpr double kColumns = 12 * 128;
  const StepCosts whole = CostsOfStep(spec, SizeOf(spec));
  EXPECT_EQ(whole.multiplied, kMatrices);
  EXPECT_DOUBLE_EQ(whole.flops_per_item, 6.0 * kMatrices + 6.0 * 12 * kColumns * 1024);
  EXPECT_DOUBLE_EQ(whole.recomputed_flops_per_item, 2.0 * 12 * kColumns * 1024);
  // Twice the mean number of keys: 256 of all but the first tokens.
  model.set_sliding_window(256);
  EXPECT_DOUBLE_EQ(CostsOfStep(spec, SizeOf(spec)).flops_per_item,
                   6.0 * kMatrices + 6.0 * 12 * kColumns * (512 - 64));
  model.add_whole_layers(3);
  model.add_whole_layers(4);
  EXPECT_DOUBLE_EQ(CostsOfStep(spec, SizeOf(spec)).flops_per_item,
                   6.0 * kMatrices + 6.0 * kColumns * (10 * (512 - 64) + 2 * 1024));
  model.clear_whole_layers();
  model.set_sliding_window(1024);
  EXPECT_DOUBLE_EQ(CostsOfStep(spec, SizeOf(spec)).flops_per_item, whole.flops_per_item);
}

TEST(StepCostsTest, CountsWhatIsMadeAgain) {
  const v1::JobSpec selective = Gpt2("compute { recompute: SELECTIVE }");
  EXPECT_DOUBLE_EQ(CostsOfStep(selective, SizeOf(selective)).recomputed_flops_per_item,
                   2.0 * 12 * 768 * 1024);
  const v1::JobSpec full = Gpt2("compute { recompute: FULL }");
  EXPECT_DOUBLE_EQ(CostsOfStep(full, SizeOf(full)).recomputed_flops_per_item,
                   2.0 * 12 * 768 * 1024 + 2.0 * 12 * 8 * 768 * 768);
}

TEST(StepCostsTest, CountsLayersOfOtherModels) {
  const v1::JobSpec spec =
      Job("model { mlp { hidden: [ 512, 512 ] classes: 10 } } data { idx {} } batch_size: 128 "
          "optimizer { name: 'sgd' learning_rate: 0.1 }");
  const StepCosts costs = CostsOfStep(spec, SizeOf(spec));
  EXPECT_FALSE(costs.items_are_tokens);
  EXPECT_EQ(costs.items, 128u);
  EXPECT_EQ(costs.multiplied, 784u * 512 + 512 * 512 + 512 * 10);
}

// Returns the operations of a step of all units together.
double OperationsOf(const v1::JobSpec& spec) {
  double operations = 0;
  for (const UnitCost& unit : CostsOfUnits(spec, SizeOf(spec))) {
    operations += unit.operations.total();
  }
  return operations;
}

TEST(UnitCostsTest, AddUpToTheStep) {
  for (const char* more : {"", "compute { recompute: SELECTIVE }", "compute { recompute: FULL }"}) {
    const v1::JobSpec spec = Gpt2(more);
    const StepCosts costs = CostsOfStep(spec, SizeOf(spec));
    const double looked_up = 2.0 * 4096 * 768;
    EXPECT_DOUBLE_EQ(OperationsOf(spec),
                     4096 * (costs.flops_per_item + costs.recomputed_flops_per_item) + looked_up);
  }
  const v1::JobSpec mlp =
      Job("model { mlp { hidden: [ 512, 512 ] classes: 10 } } data { idx {} } batch_size: 128 "
          "optimizer { name: 'sgd' learning_rate: 0.1 }");
  EXPECT_DOUBLE_EQ(OperationsOf(mlp), CostsOfStep(mlp, SizeOf(mlp)).flops());
}

TEST(UnitCostsTest, ATiedHeadTakesACopyOnItsStage) {
  const v1::JobSpec spec = Gpt2("update { dense: ALL_REDUCE }");
  const std::vector<UnitCost> units = CostsOfUnits(spec, SizeOf(spec));
  ASSERT_EQ(units.size(), 14u);
  EXPECT_EQ(units.front().state_bytes, 16.0 * (50257 + 1024) * 768);
  EXPECT_EQ(units.back().state_bytes, 8.0 * 50257 * 768 + 16.0 * 2 * 768);
  EXPECT_EQ(units[1].activation_bytes, units[12].activation_bytes);
}

TEST(UnitCostsTest, ZeroBubbleKeepsMoreOfABlock) {
  const v1::JobSpec plain = Gpt2();
  const v1::JobSpec zero_bubble =
      Gpt2("micro_batches: 1 parallelism { pipeline_schedule: ZERO_BUBBLE }");
  EXPECT_GT(CostsOfUnits(zero_bubble, SizeOf(plain))[1].activation_bytes,
            CostsOfUnits(plain, SizeOf(plain))[1].activation_bytes);
}

// The head of GPT-2 costs almost as much as five blocks.
TEST(UnitCostsTest, GroupsAreTheJobsListOrBalanced) {
  v1::JobSpec spec = Gpt2("micro_batches: 2 parallelism { pipeline: 2 } workers: 2");
  const std::vector<UnitCost> units = CostsOfUnits(spec, SizeOf(spec));
  EXPECT_EQ(*VirtualStageSizes(spec, units), std::vector<int>({9, 5}));
  for (const uint32_t layers : {5, 9}) spec.mutable_parallelism()->add_pipeline_layers(layers);
  EXPECT_EQ(*VirtualStageSizes(spec, units), std::vector<int>({5, 9}));
}

}  // namespace
}  // namespace muster
