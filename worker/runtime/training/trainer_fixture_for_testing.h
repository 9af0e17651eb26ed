#ifndef MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_FIXTURE_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_FIXTURE_FOR_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/nn/loss_scaling.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/runtime/training/trainer.h"
#include "worker/runtime/training/trainer_doubles_for_testing.h"
#include "worker/strategy/local_strategy_for_testing.h"

namespace muster {

inline v1::JobSpec Spec(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// An MLP on Gaussian clusters: learns within a few dozen steps.
inline v1::JobSpec MlpSpec() {
  return Spec(R"pb(
    model { mlp { hidden: 16 classes: 3 } }
    data {
      synthetic_classification { examples: 600 features: 8 classes: 3 seed: 5 }
      holdout: 0.2
    }
    optimizer { name: "sgd" learning_rate: 0.2 }
    workers: 1
    batch_size: 32
    stop { steps: 40 }
    seed: 7
  )pb");
}

class TrainerTest : public ::testing::Test {
 protected:
  absl::Status Run(const v1::JobSpec& spec, uint64_t start = 0) {
    absl::StatusOr<PreparedJob> job = PrepareJob(spec);
    if (!job.ok()) return job.status();
    job_ = std::make_unique<PreparedJob>(*std::move(job));
    local_ =
        LocalStrategy::Create(*job_->schema, LossScaling(spec.compute(), {.log = options_.log}))
            .value();
    strategy_ = std::make_unique<CountingStrategy>(*local_, start);
    if (hears_of_a_scale_) strategy_->HearOfAGroupsScale();
    strategy_->LeaveOut(left_out_);
    // Notes how many commits the coordinator has seen by then.
    strategy_->OnCommitted([this] { committed_.push_back(coordinator_.checkpoints().size()); });
    const PoisonedModel model(*job_->model, poisons_);
    StepExecutor engine(spec, model, *strategy_);
    absl::StatusOr<std::unique_ptr<Trainer>> trainer =
        Trainer::Create(spec, options_, *job_, {*strategy_, engine}, coordinator_, clock_);
    if (!trainer.ok()) return trainer.status();
    const absl::Status status = (*trainer)->Run();
    coordinator_status_ = (*trainer)->coordinator_status();
    return status;
  }

  std::vector<uint64_t> EvaluatedClocks() const {
    std::vector<uint64_t> clocks;
    for (const auto& share : coordinator_.evaluations()) clocks.push_back(share.clock());
    return clocks;
  }

  TrainerOptions options_;
  RealClock clock_;
  FakeCoordinatorClient coordinator_;
  std::unique_ptr<PreparedJob> job_;
  std::unique_ptr<LocalStrategy> local_;
  std::unique_ptr<CountingStrategy> strategy_;
  std::vector<size_t> committed_;
  int poisons_ = 0;
  bool hears_of_a_scale_ = false;
  std::function<absl::optional<uint64_t>(uint64_t clock)> left_out_;
  absl::Status coordinator_status_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_TRAINER_FIXTURE_FOR_TESTING_H_
