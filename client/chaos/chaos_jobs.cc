#include "client/chaos/chaos_jobs.h"

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"

namespace muster {
namespace {

constexpr int kTextWords = 4000;
// More than a round waits for.
constexpr uint64_t kF16Steps = 100000;

}  // namespace

std::string RoadName(ChaosRoad road) {
  switch (road) {
    case ChaosRoad::kEveryPush:
      return "EVERY_PUSH";
    case ChaosRoad::kCheckpoint:
      return "CHECKPOINT";
    case ChaosRoad::kAllReduce:
      return "ALL_REDUCE";
    case ChaosRoad::kZeroEveryPush:
      return "EVERY_PUSH under ZeRO";
    case ChaosRoad::kZeroAllReduce:
      return "ALL_REDUCE under ZeRO";
    case ChaosRoad::kElastic:
      return "ALL_REDUCE under ZeRO with one to three workers";
  }
  return "unknown";
}

v1::JobSpec ChaosJob(ChaosRoad road, uint64_t steps, uint64_t checkpoint_every) {
  v1::JobSpec job;
  job.set_name("chaos");
  auto& model = *job.mutable_model()->mutable_deep_fm();
  model.set_embedding_dim(8);
  model.add_hidden(32);
  auto& data = *job.mutable_data()->mutable_synthetic_clicks();
  data.set_examples(20000);
  data.set_fields(6);
  data.set_cardinality(2000);
  data.set_numeric(2);
  data.set_seed(5);
  job.mutable_data()->set_holdout(0.1);
  job.mutable_optimizer()->set_name("adagrad");
  job.mutable_optimizer()->set_learning_rate(0.05f);
  auto& update = *job.mutable_update();
  const bool under_zero = road == ChaosRoad::kZeroEveryPush || road == ChaosRoad::kZeroAllReduce;
  if (under_zero) job.mutable_parallelism()->mutable_zero()->set_stage(3);
  if (road == ChaosRoad::kElastic) {
    job.mutable_parallelism()->mutable_zero()->set_stage(2);
    job.set_min_workers(1);
    job.set_max_workers(3);
  }
  if (road == ChaosRoad::kAllReduce || road == ChaosRoad::kZeroAllReduce ||
      road == ChaosRoad::kElastic) {
    update.set_dense(v1::UpdateSpec::ALL_REDUCE);
    update.set_sparse(v1::UpdateSpec::ALL_REDUCE);
  } else {
    update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_durability(road == ChaosRoad::kCheckpoint ? v1::UpdateSpec::CHECKPOINT
                                                         : v1::UpdateSpec::EVERY_PUSH);
    job.mutable_sparse_tables()->set_expire_after_clocks(100);
    job.mutable_checkpoint()->set_full_every(3);
  }
  update.set_deterministic(true);
  update.set_partitions(4);
  job.set_workers(2);
  job.set_batch_size(64);
  job.mutable_stop()->set_steps(steps);
  job.mutable_checkpoint()->set_every_steps(checkpoint_every);
  // A delta on the newest may still be committed once that is damaged; the one before is sound.
  job.mutable_checkpoint()->set_keep(3);
  job.set_seed(11);
  return job;
}

v1::JobSpec F16Job(const std::string& text_file) {
  v1::JobSpec job;
  job.set_name("chaos f16");
  auto& model = *job.mutable_model()->mutable_transformer();
  model.set_layers(1);
  model.set_width(32);
  model.set_heads(2);
  model.set_context(32);
  job.mutable_data()->mutable_sequences()->set_path(text_file);
  job.mutable_data()->set_holdout(0.1);
  job.mutable_optimizer()->set_name("adamw");
  job.mutable_optimizer()->set_learning_rate(0.001f);
  job.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  job.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  job.set_workers(2);
  job.set_batch_size(8);
  job.mutable_compute()->set_type(v1::ComputeSpec::F16);
  job.mutable_stop()->set_steps(kF16Steps);
  job.mutable_checkpoint()->set_every_steps(1);
  job.mutable_checkpoint()->set_keep(kF16Steps);
  job.set_seed(1);
  return job;
}

std::string ChaosText() {
  const Philox random(1, "chaos", "text");
  std::string text;
  for (int i = 0; i < kTextWords; ++i) {
    absl::StrAppend(&text, "word", random.Below(50, i), i % 12 == 11 ? "\n" : " ");
  }
  return text;
}

}  // namespace muster
