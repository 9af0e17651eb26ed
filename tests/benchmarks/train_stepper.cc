#include "tests/benchmarks/train_stepper.h"

#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "proto/schema.pb.h"
#include "worker/models/create_model.h"
#include "worker/strategy/tables_schema.h"

namespace muster {

absl::StatusOr<std::unique_ptr<TrainStepper>> TrainStepper::Create(const v1::JobSpec& spec,
                                                                   const DatasetInfo& data,
                                                                   std::vector<Batch> batches) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Model> model,
                          CreateModel(spec.model(), spec.compute(), data));
  const v1::TablesSchema schema =
      MakeTablesSchema(model->description(), spec, std::numeric_limits<uint32_t>::max());
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<LocalStrategy> strategy, LocalStrategy::Create(schema));
  return absl::WrapUnique(
      new TrainStepper(std::move(model), std::move(strategy), std::move(batches)));
}

TrainStepper::TrainStepper(std::unique_ptr<const Model> model,
                           std::unique_ptr<LocalStrategy> strategy, std::vector<Batch> batches)
    : model_(std::move(model)),
      strategy_(std::move(strategy)),
      batches_(std::move(batches)),
      micro_batch_(model_->NewMicroBatch()) {}

absl::Status TrainStepper::Step() {
  LayerContext context;
  context.clock = clock_;
  context.parameters_version = clock_ + 1;
  MUSTER_RETURN_IF_ERROR(strategy_->BeginStep(clock_));
  MUSTER_RETURN_IF_ERROR(model_->Load(batches_[clock_ % batches_.size()], *micro_batch_));
  MUSTER_RETURN_IF_ERROR(strategy_->Prefetch(*micro_batch_));
  MUSTER_RETURN_IF_ERROR(strategy_->LookUp(*micro_batch_));
  const int units = model_->description().units;
  for (int unit = 0; unit < units; ++unit) {
    MUSTER_RETURN_IF_ERROR(strategy_->BeforeForward(unit));
    MUSTER_RETURN_IF_ERROR(model_->Forward(context, unit, strategy_->parameters(), *micro_batch_));
  }
  MUSTER_RETURN_IF_ERROR(
      strategy_->BeforeBackward(micro_batch_->loss_weight, MicroBatchPlace::kLast));
  for (int unit = units - 1; unit >= 0; --unit) {
    MUSTER_RETURN_IF_ERROR(model_->Backward(context, unit, strategy_->parameters(),
                                            strategy_->gradients(), *micro_batch_));
    MUSTER_RETURN_IF_ERROR(strategy_->GradientReady(unit));
  }
  MUSTER_RETURN_IF_ERROR(strategy_->PushRows(*micro_batch_));
  MUSTER_RETURN_IF_ERROR(strategy_->EndStep());
  ++clock_;
  return absl::OkStatus();
}

double TrainStepper::loss() const {
  return micro_batch_->loss_sum / static_cast<double>(micro_batch_->loss_weight);
}

}  // namespace muster
