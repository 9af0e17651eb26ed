#include "tests/equivalence/slot_training.h"

#include <cstddef>
#include <memory>

#include "common/base/clock.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/partition/local_tensors.h"
#include "common/partition/schema.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/poisoning_strategy.h"
#include "tests/equivalence/watching_strategy.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/runtime/training/trainer.h"

namespace muster {
namespace {

// Makes the slot's engine. Of jobs without a pipeline the steps have the run's order.
absl::StatusOr<std::unique_ptr<StepEngine>> MakeEngine(const v1::JobSpec& spec,
                                                       const RunOptions& run,
                                                       const PreparedJob& job, Strategy& strategy,
                                                       const ModelPeers& peers) {
  if (peers.stages != nullptr) return MakeRankEngine(spec, job, strategy, peers);
  return std::make_unique<StepExecutor>(
      spec, *job.model, strategy,
      StepExecutor::Options{.tensor_group = peers.tensor_group,
                            .context_group = peers.context_group,
                            .expert_group = peers.expert_group,
                            .counting_group = peers.counting_group,
                            .stage = ModelStage{.shape = {.order = run.order},
                                                .sizes = {job.model->description().units}}});
}

}  // namespace

std::vector<TensorSpec> TensorsOf(const v1::JobSpec& spec, uint32_t slot, const PreparedJob& job) {
  return LocalTensors(job.model->description().tensors, DivisionOf(*job.schema, MeshOf(spec)),
                      MeshOf(spec).Position(static_cast<int>(slot), kShareAxes))
      .value();
}

absl::Status TrainSlot(const v1::JobSpec& spec, uint32_t slot, const RunOptions& run,
                       const PreparedJob& job, const RankStrategy& strategy,
                       CoordinatorClient& coordinator, std::function<void(absl::string_view)> log) {
  RealClock clock;
  TrainerOptions options;
  options.slot = slot;
  options.mesh = Mesh::FromSpec(spec.parallelism(), static_cast<int>(spec.workers())).value();
  options.rank = static_cast<int>(slot);
  if (run.from > 0) options.checkpoint_clock = run.from;
  options.adjustments = run.adjustments;
  options.log = std::move(log);
  StepObserver unobserved;
  StepObserver& observer = run.observer == nullptr ? unobserved : *run.observer;
  ObservedStrategy observed(strategy.strategy, slot, observer);
  const std::vector<TensorSpec> tensors = TensorsOf(spec, slot, job);
  WatchingStrategy watching(observed, tensors);
  PoisoningStrategy poisoning(watching, tensors, MakeHostMemory(),
                              strategy.peers.stages == nullptr
                                  ? PoisoningStrategy::Passes::kOneAfterAnother
                                  : PoisoningStrategy::Passes::kAlternate);
  const absl::StatusOr<std::unique_ptr<StepEngine>> engine =
      MakeEngine(spec, run, job, poisoning, strategy.peers);
  if (!engine.ok()) return engine.status();
  ObservedEngine observed_engine(**engine, slot, observer);
  absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(spec, options, job, {poisoning, observed_engine}, coordinator, clock);
  if (!trainer.ok()) return trainer.status();
  return (*trainer)->Run();
}

TrainedValues ReadValues(const PreparedJob& job, absl::Span<const TensorSpec> tensors,
                         uint64_t clock, Strategy& strategy,
                         const std::map<std::string, std::vector<uint64_t>>& keys) {
  const ModelDescription& model = job.model->description();
  TrainedValues result;
  EXPECT_EQ(strategy.BeginStep(clock), absl::OkStatus());
  for (int unit = 0; unit < model.units; ++unit) {
    EXPECT_EQ(strategy.Acquire(unit, Direction::kForward), absl::OkStatus());
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (static_cast<int>(tensors[i].unit) != unit) continue;
      const absl::Span<const float> values = strategy.parameters().values[i];
      result.values[tensors[i].name].assign(values.begin(), values.end());
    }
    strategy.Release(unit, Direction::kForward);
  }
  MicroBatch rows;
  rows.sparse.resize(model.sparse_tables.size());
  for (size_t t = 0; t < model.sparse_tables.size(); ++t) {
    auto it = keys.find(model.sparse_tables[t].name);
    if (it != keys.end()) rows.sparse[t].keys = it->second;
  }
  EXPECT_EQ(strategy.Prefetch(rows), absl::OkStatus());
  EXPECT_EQ(strategy.LookUp(rows), absl::OkStatus());
  for (size_t t = 0; t < model.sparse_tables.size(); ++t) {
    const std::string& name = model.sparse_tables[t].name;
    if (rows.sparse[t].keys.empty()) continue;
    result.values[name] = rows.sparse[t].rows;
    result.keys[name] = rows.sparse[t].keys;
  }
  return result;
}

void AddEvaluations(const FakeCoordinatorClient& coordinator, LossSums& sums) {
  for (const v1::ReportEvaluationRequest& report : coordinator.evaluations()) {
    sums[report.clock()].first += report.loss_sum();
    sums[report.clock()].second += static_cast<double>(report.loss_weight());
  }
}

LossCurve Means(const LossSums& sums) {
  LossCurve curve;
  for (const auto& entry : sums) curve[entry.first] = entry.second.first / entry.second.second;
  return curve;
}

}  // namespace muster
