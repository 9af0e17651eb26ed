#include "tests/equivalence/tensor_jobs.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "gtest/gtest.h"
#include "tests/equivalence/training_jobs.h"

namespace muster {

namespace {

void SetExperts(v1::TransformerSpec& model) {
  v1::MoeSpec& moe = *model.mutable_moe();
  moe.set_experts(5);
  moe.set_top_k(2);
  moe.set_expert_width(12);
  moe.set_shared_width(8);
  moe.set_shared_gate(true);
  moe.set_normalize(true);
  moe.set_auxiliary_loss(0.05f);
  moe.set_z_loss(0.01f);
  moe.set_selection_bias(true);
  moe.set_bias_rate(0.01f);
  moe.clear_dense_layers();
  for (uint32_t l = model.layers() % 2; l + 1 < model.layers(); l += 2) moe.add_dense_layers(l);
}

}  // namespace

v1::JobSpec TensorJob(TensorShape shape, const TempFolder& folder) {
  if (shape == TensorShape::kPerceptron) {
    v1::JobSpec spec = TinyJob("mlp", "adamw", WriteTinyText(folder));
    spec.mutable_update()->set_deterministic(true);
    spec.mutable_model()->mutable_mlp()->clear_hidden();
    for (const uint32_t width : {16, 6}) spec.mutable_model()->mutable_mlp()->add_hidden(width);
    return spec;
  }
  // In GPT-2's shape the gradient of the keys' biases is rounding error alone (training_jobs.cc).
  const bool gpt2 = shape == TensorShape::kGpt2;
  v1::JobSpec spec = TinyJob("transformer", gpt2 ? "momentum" : "adamw", WriteTinyText(folder));
  spec.mutable_update()->set_deterministic(true);
  v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
  model.set_heads(8);
  model.set_feed_forward(24);
  if (gpt2) {
    model.clear_norm();
    model.clear_activation();
    model.clear_no_biases();
    model.set_kv_heads(0);
    model.set_vocabulary(256);
    model.set_pad_vocabulary_to(24);
    model.set_dropout(0.1);
    model.set_attention_dropout(0.1);
    model.set_label_smoothing(0.1);
  } else {
    model.set_separate_head(true);
    model.set_positions(v1::TransformerSpec::ROTARY);
  }
  if (shape == TensorShape::kLlama) {
    model.set_head_width(4);
    model.set_attention_biases(true);
    model.set_query_key_norm(v1::TransformerSpec::PER_HEAD);
    model.set_sliding_window(5);
    model.set_label_smoothing(0.2);
    model.set_z_loss(0.01);
    v1::RotaryScaling& scaling = *model.mutable_rotary_scaling();
    scaling.set_type(v1::RotaryScaling::LINEAR);
    scaling.set_factor(2);
  }
  if (shape == TensorShape::kExperts) SetExperts(model);
  return spec;
}

std::string NameOf(TensorShape shape) {
  switch (shape) {
    case TensorShape::kGpt2:
      return "Gpt2";
    case TensorShape::kLlama:
      return "Llama";
    case TensorShape::kExperts:
      return "Experts";
    case TensorShape::kPerceptron:
      break;
  }
  return "Perceptron";
}

v1::JobSpec PipelineJob(TensorShape shape, const TempFolder& folder, uint32_t blocks) {
  v1::JobSpec spec = TensorJob(shape, folder);
  if (shape == TensorShape::kPerceptron) {
    for (uint32_t i = 2; i < blocks; ++i) spec.mutable_model()->mutable_mlp()->add_hidden(8);
  } else {
    v1::TransformerSpec& model = *spec.mutable_model()->mutable_transformer();
    model.set_layers(blocks);
    if (model.has_moe()) SetExperts(model);
  }
  spec.mutable_clipping()->set_by_global_norm(0.05);
  spec.set_micro_batches(4);
  return spec;
}

v1::JobSpec OnMesh(v1::JobSpec spec, uint32_t tensor, uint32_t data, uint32_t stage,
                   uint32_t shard) {
  spec.set_workers(tensor * data);
  if (tensor > 1) spec.mutable_parallelism()->set_tensor(tensor);
  if (stage > 0) spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  if (shard > 0) spec.mutable_parallelism()->mutable_zero()->set_shard(shard);
  return spec;
}

v1::JobSpec InContext(v1::JobSpec spec, uint32_t context,
                      v1::ParallelismSpec::ContextExchange exchange) {
  spec.set_workers(spec.workers() * context);
  spec.mutable_parallelism()->set_context(context);
  spec.mutable_parallelism()->set_context_exchange(exchange);
  return spec;
}

v1::JobSpec ForGradients(v1::JobSpec spec) {
  spec.clear_optimizer();
  spec.mutable_optimizer()->set_name("sgd");
  spec.mutable_optimizer()->set_learning_rate(1e6);
  spec.clear_clipping();
  spec.mutable_stop()->set_steps(1);
  return spec;
}

v1::JobSpec InPipeline(v1::JobSpec spec, uint32_t stages,
                       v1::ParallelismSpec::PipelineSchedule schedule) {
  spec.set_workers(spec.workers() * stages);
  spec.mutable_parallelism()->set_pipeline(stages);
  spec.mutable_parallelism()->set_pipeline_schedule(schedule);
  return spec;
}

v1::JobSpec ByAllReduce(v1::JobSpec spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  return spec;
}

v1::JobSpec InFloat16(v1::JobSpec spec, uint64_t steps) {
  spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  spec.mutable_compute()->set_loss_scale_window(1);
  spec.mutable_stop()->set_steps(steps);
  return spec;
}

v1::JobSpec WithoutSequence(v1::JobSpec spec) {
  spec.mutable_parallelism()->set_sequence(false);
  return spec;
}

TrainedValues SameOfAllRanks(const RunResult& run) {
  for (const TrainedValues& other : run.trained) EXPECT_EQ(other.values, run.trained[0].values);
  EXPECT_FALSE(run.trained[0].values.empty());
  return run.trained[0];
}

TrainedValues TakeBiases(TrainedValues& values) {
  TrainedValues biases;
  for (auto at = values.values.begin(); at != values.values.end();) {
    const auto here = at++;
    if (absl::EndsWith(here->first, ".bias")) biases.values.insert(values.values.extract(here));
  }
  return biases;
}

TrainedValues ValuesOnServers(const v1::JobSpec& spec, const RunOptions& options) {
  return SameOfAllRanks(TrainOnServers(spec, options));
}

TrainedValues ValuesByAllReduce(const v1::JobSpec& spec, const RunOptions& options) {
  return SameOfAllRanks(TrainByAllReduce(spec, options));
}

void ExpectLossIsRepaired(const v1::JobSpec& spec, const Death& death,
                          const TrainedValues& expected) {
  SCOPED_TRACE(absl::StrCat(spec.parallelism().ShortDebugString(), ", slot ", death.slot, ", step ",
                            death.at.step, ", hook ", static_cast<int>(death.at.hook), ", call ",
                            death.at.nth, death.takes_effect ? " takes effect" : ""));
  RunOptions options;
  options.deaths = {death};
  const bool by_all_reduce = TrainsByAllReduce(spec);
  const RunResult run =
      by_all_reduce ? TrainByAllReduce(spec, options) : TrainOnServers(spec, options);
  if (!by_all_reduce) {
    EXPECT_EQ(run.rounds, 2);
  }
  EXPECT_EQ(SameOfAllRanks(run).values, expected.values);
}

std::set<int> StepsLeftOut(const v1::JobSpec& spec, const RunResult& run) {
  std::vector<std::set<int>> of_slots(spec.workers());
  for (const std::string& line : run.log) {
    for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
      for (int step = 1; step < static_cast<int>(spec.stop().steps()); ++step) {
        const std::string left_out =
            absl::StrCat("slot ", slot, ": gradients of step ", step, " overflow");
        if (absl::StrContains(line, left_out)) of_slots[slot].insert(step);
      }
    }
  }
  for (const std::set<int>& of_slot : of_slots) EXPECT_EQ(of_slot, of_slots[0]);
  return of_slots[0];
}

void ExpectEvaluationsOf(const RunResult& alone, const RunResult& run) {
  EXPECT_EQ(run.evaluated, alone.evaluated);
  ASSERT_EQ(run.curve.size(), alone.curve.size());
  for (const auto& [clock, loss] : alone.curve) {
    EXPECT_NEAR(run.curve.at(clock), loss, 1e-5 * loss) << clock;
  }
}

}  // namespace muster
