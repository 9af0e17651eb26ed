#include "tests/golden/golden_jobs.h"

#include "absl/strings/str_cat.h"
#include "tests/equivalence/training_jobs.h"

namespace muster {
namespace {

constexpr uint64_t kSteps = 4;

// Sizes are no multiples of the kernels' vectors and tiles, so that rests are computed, too.
void SetGptLike(v1::TransformerSpec& model) {
  model.set_layers(2);
  model.set_width(40);
  model.set_heads(4);
  model.set_context(40);
  model.set_vocabulary(261);
  model.set_norm(v1::TransformerSpec::LAYER_NORM);
  model.set_positions(v1::TransformerSpec::LEARNED);
  model.set_activation(v1::TransformerSpec::GELU);
}

void SetLlamaLike(v1::TransformerSpec& model) {
  model.set_layers(2);
  model.set_width(48);
  model.set_heads(4);
  model.set_kv_heads(2);
  model.set_feed_forward(72);
  model.set_context(40);
  model.set_vocabulary(261);
  model.set_norm(v1::TransformerSpec::RMS_NORM);
  model.set_positions(v1::TransformerSpec::ROTARY);
  model.set_activation(v1::TransformerSpec::SWIGLU);
  model.set_separate_head(true);
  model.set_no_biases(true);
}

// One job of each road, each with settings of its own.
struct Variant {
  const char* name;
  GoldenRoad road;
  bool dropout;
  v1::ComputeSpec::Recompute recompute;
  uint32_t micro_batches;
  float max_norm;
};

constexpr Variant kTransformerVariants[] = {
    {"alone_dropout", GoldenRoad::kAlone, true, v1::ComputeSpec::NONE, 1, 0},
    {"alone_full_3_micro_batches", GoldenRoad::kAlone, false, v1::ComputeSpec::FULL, 3, 0},
    {"servers_clipped", GoldenRoad::kServers, false, v1::ComputeSpec::NONE, 1, 0.5f},
    {"servers_dropout_full_2_micro_batches", GoldenRoad::kServers, true, v1::ComputeSpec::FULL, 2,
     0},
    {"all_reduce_clipped_selective_dropout", GoldenRoad::kAllReduce, true,
     v1::ComputeSpec::SELECTIVE, 1, 0.5f},
    {"all_reduce_2_micro_batches", GoldenRoad::kAllReduce, false, v1::ComputeSpec::NONE, 2, 0},
};

constexpr Variant kOtherVariants[] = {
    {"alone_3_micro_batches", GoldenRoad::kAlone, false, v1::ComputeSpec::NONE, 3, 0},
    {"servers_clipped", GoldenRoad::kServers, false, v1::ComputeSpec::NONE, 1, 0.05f},
    {"all_reduce_clipped_2_micro_batches", GoldenRoad::kAllReduce, false, v1::ComputeSpec::NONE, 2,
     0.05f},
};

// Fills in all of a golden job but its model, data and optimizer.
void Complete(const Variant& variant, GoldenJob& job) {
  v1::JobSpec& spec = job.spec;
  job.road = variant.road;
  spec.set_workers(variant.road == GoldenRoad::kAlone ? 1 : 2);
  spec.mutable_stop()->set_steps(kSteps);
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_evaluation()->set_every_steps(kSteps);
  spec.mutable_update()->set_deterministic(true);
  spec.set_micro_batches(variant.micro_batches);
  if (variant.max_norm > 0) spec.mutable_clipping()->set_by_global_norm(variant.max_norm);
  if (variant.road == GoldenRoad::kAllReduce) {
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_bucket_bytes(16384);
  }
}

void AddTransformers(const std::string& text_path, v1::ComputeSpec::Type type, const char* file,
                     std::vector<GoldenJob>& jobs) {
  for (const bool llama : {false, true}) {
    for (const Variant& variant : kTransformerVariants) {
      GoldenJob job;
      job.file = file;
      job.name = absl::StrCat(llama ? "llama" : "gpt", "_", variant.name);
      job.spec = TinyJob("transformer", "adamw", text_path);
      v1::TransformerSpec& model = *job.spec.mutable_model()->mutable_transformer();
      model.Clear();
      llama ? SetLlamaLike(model) : SetGptLike(model);
      if (variant.dropout) {
        model.set_dropout(0.1f);
        model.set_attention_dropout(0.2f);
      }
      job.spec.mutable_optimizer()->clear_epsilon();
      job.spec.mutable_optimizer()->set_learning_rate(0.003f);
      job.spec.mutable_compute()->set_type(type);
      job.spec.mutable_compute()->set_recompute(variant.recompute);
      job.spec.mutable_update()->set_block_bytes(4096);
      job.spec.set_batch_size(10);
      Complete(variant, job);
      jobs.push_back(std::move(job));
    }
  }
}

// Two workers share out the experts.
void AddExperts(const std::string& text_path, std::vector<GoldenJob>& jobs) {
  for (const Variant& variant : kOtherVariants) {
    GoldenJob job;
    job.file = "experts_f32";
    job.name = variant.name;
    job.spec = TinyJob("transformer", "adamw", text_path);
    v1::TransformerSpec& model = *job.spec.mutable_model()->mutable_transformer();
    model.Clear();
    SetLlamaLike(model);
    v1::MoeSpec& moe = *model.mutable_moe();
    moe.set_experts(6);
    moe.set_top_k(2);
    moe.set_expert_width(20);
    moe.set_shared_width(12);
    moe.set_normalize(true);
    moe.set_auxiliary_loss(0.01f);
    moe.set_z_loss(0.001f);
    moe.set_selection_bias(true);
    moe.add_dense_layers(0);
    job.spec.mutable_optimizer()->clear_epsilon();
    job.spec.mutable_optimizer()->set_learning_rate(0.003f);
    job.spec.mutable_update()->set_block_bytes(4096);
    job.spec.set_batch_size(10);
    Complete(variant, job);
    if (variant.road != GoldenRoad::kAlone) job.spec.mutable_parallelism()->set_expert(2);
    jobs.push_back(std::move(job));
  }
}

void AddOthers(std::vector<GoldenJob>& jobs) {
  for (const char* model : {"mlp", "deep_fm"}) {
    for (const Variant& variant : kOtherVariants) {
      GoldenJob job;
      job.file = "other_models";
      job.name = absl::StrCat(model, "_", variant.name);
      job.spec = TinyJob(model, model == std::string("mlp") ? "momentum" : "adagrad", "");
      Complete(variant, job);
      jobs.push_back(std::move(job));
    }
  }
}

}  // namespace

std::vector<GoldenJob> GoldenJobs(const std::string& text_path) {
  std::vector<GoldenJob> jobs;
  AddTransformers(text_path, v1::ComputeSpec::F32, "transformers_f32", jobs);
  AddTransformers(text_path, v1::ComputeSpec::BF16, "transformers_bf16", jobs);
  AddTransformers(text_path, v1::ComputeSpec::F16, "transformers_f16", jobs);
  AddExperts(text_path, jobs);
  AddOthers(jobs);
  return jobs;
}

}  // namespace muster
