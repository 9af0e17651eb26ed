#include "tests/equivalence/training_run.h"

#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/types/optional.h"
#include "common/mesh/job_mesh.h"
#include "gtest/gtest.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/meeting.h"
#include "tests/equivalence/run_world.h"
#include "tests/equivalence/served_ranks_run.h"
#include "tests/equivalence/slot_training.h"
#include "worker/nn/loss_scaling.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/strategy/group/sharded_strategy.h"
#include "worker/strategy/local_strategy_for_testing.h"
#include "worker/strategy/row_keys_for_testing.h"

namespace muster {
namespace {

// ‖a − b‖₂ / ‖b‖₂.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// Runs one task of a slot that trains by all-reduce, which meets the others as often as it takes.
// Returns OK at the end of the training, or the error of a task that has died or failed. `dying` is
// a form of `strategy`.
absl::Status TrainInRounds(uint32_t slot, ShardedStrategy& strategy, DyingStrategy& dying,
                           Meeting& meeting, RunWorld& world, FakeCoordinatorClient& coordinator) {
  while (true) {
    strategy.Leave();
    absl::StatusOr<Meeting::Place> place = meeting.Arrive(slot, strategy.replica_clock());
    if (!place.ok()) return place.status();
    absl::Status status = strategy.Join(std::move(place->communicator), place->source);
    if (status.ok()) {
      status = world.Train(slot,
                           {dying,
                            {.tensor_group = strategy.tensor_group(),
                             .context_group = strategy.context_group(),
                             .expert_group = strategy.expert_group(),
                             .counting_group = strategy.counting_group(),
                             .stages = strategy.stage_group()}},
                           coordinator);
    }
    if (dying.died()) {
      meeting.Kill(slot);
      return status;
    }
    if (absl::IsUnavailable(status) || absl::IsAborted(status)) continue;
    if (!status.ok()) meeting.Fail(slot, status);
    return status;
  }
}

}  // namespace

void ExpectClose(const TrainedValues& actual, const TrainedValues& expected, double tolerance) {
  ASSERT_EQ(actual.values.size(), expected.values.size());
  EXPECT_EQ(actual.keys, expected.keys);
  for (const auto& [name, values] : expected.values) {
    ASSERT_EQ(actual.values.count(name), 1) << name;
    ASSERT_EQ(actual.values.at(name).size(), values.size()) << name;
    EXPECT_LE(RelativeDistance(actual.values.at(name), values), tolerance) << name;
  }
}

RunResult TrainAlone(v1::JobSpec spec, const RunOptions& options) {
  spec.set_workers(1);
  spec.mutable_parallelism()->clear_tensor();
  spec.mutable_parallelism()->clear_pipeline();
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  FakeCoordinatorClient coordinator;
  RunResult run;
  const auto note = [&run](absl::string_view line) { run.log.emplace_back(line); };
  std::unique_ptr<LocalStrategy> strategy =
      LocalStrategy::Create(*job->schema, LossScaling(spec.compute(), {.log = note})).value();
  EXPECT_EQ(TrainSlot(spec, 0,
                      {.observer = options.observer,
                       .adjustments = options.adjustments,
                       .order = options.order},
                      *job, {*strategy}, coordinator, note),
            absl::OkStatus());
  LossSums sums;
  AddEvaluations(coordinator, sums);
  run.curve = Means(sums);
  std::map<std::string, std::vector<uint64_t>> keys;
  const auto& tables = job->model->description().sparse_tables;
  for (size_t t = 0; t < tables.size(); ++t) keys[tables[t].name] = KeysOf(strategy->state(), t);
  run.trained = {
      ReadValues(*job, job->model->description().tensors, job->total_steps, *strategy, keys)};
  return run;
}

TrainedValues TrainLocally(v1::JobSpec spec, LossCurve* curve, std::vector<std::string>* log) {
  spec.clear_micro_batches();
  RunResult run = TrainAlone(std::move(spec), {});
  if (curve != nullptr) *curve = run.curve;
  if (log != nullptr) log->insert(log->end(), run.log.begin(), run.log.end());
  return run.trained.empty() ? TrainedValues() : std::move(run.trained[0]);
}

RunResult TrainOnServers(const v1::JobSpec& spec, const RunOptions& options) {
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  if (RanksTogether(spec) > 1) return TrainServedRanks(spec, options, *std::move(job));
  RunWorld world(spec, options, *std::move(job));
  return world.ForEachSlot([&world](uint32_t slot) {
    world.ForEachTask(slot, [&](uint64_t incarnation, const absl::optional<Death>& death) {
      auto strategy = world.OnServers(slot, incarnation);
      DyingStrategy dying(*strategy, death);
      FakeCoordinatorClient coordinator;
      const absl::Status status = world.Train(slot, {dying}, coordinator);
      if (dying.died()) return TaskEnd::kDied;
      EXPECT_EQ(status, absl::OkStatus());
      auto reader = world.OnServers(slot, incarnation + 1, {.pull_f32 = true});
      EXPECT_EQ(reader->Start().status(), absl::OkStatus());
      world.Finish(slot, dying, *reader, coordinator);
      return TaskEnd::kFinished;
    });
  });
}

RunResult TrainByAllReduce(const v1::JobSpec& spec, const RunOptions& options) {
  absl::StatusOr<PreparedJob> job = PrepareJob(spec);
  EXPECT_EQ(job.status(), absl::OkStatus());
  if (!job.ok()) return {};
  InProcessOptions transport;
  transport.write_bytes = options.write_bytes;
  transport.share_memory = options.share_memory;
  Meeting meeting(static_cast<int>(spec.workers()), transport);
  RunWorld world(spec, options, *std::move(job));
  std::barrier<> all_done(spec.workers());
  RunResult run = world.ForEachSlot([&](uint32_t slot) {
    world.ForEachTask(slot, [&](uint64_t incarnation, const absl::optional<Death>& death) {
      auto strategy = world.ByAllReduce(slot, incarnation);
      DyingStrategy dying(*strategy, death);
      FakeCoordinatorClient coordinator;
      const absl::Status status =
          TrainInRounds(slot, *strategy, dying, meeting, world, coordinator);
      if (dying.died()) return TaskEnd::kDied;
      EXPECT_EQ(status, absl::OkStatus());
      if (status.ok()) {
        world.NoteCalls(slot, strategy->recorders());
        world.Finish(slot, dying, *strategy, coordinator);
        world.AddRank(slot, *strategy);
      }
      all_done.arrive_and_wait();
      if (status.ok()) world.TakeFromShards(slot);
      return TaskEnd::kFinished;
    });
  });
  run.rounds = meeting.rounds();
  return run;
}

}  // namespace muster
