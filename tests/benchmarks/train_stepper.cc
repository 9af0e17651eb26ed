#include "tests/benchmarks/train_stepper.h"

#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "proto/schema.pb.h"
#include "worker/models/create_model.h"
#include "worker/nn/loss_scaling.h"
#include "worker/strategy/tables_schema.h"

namespace muster {

absl::Status BatchesInTurn::Read(uint64_t clock, int micro_batch, Batch& batch) {
  if (last_ != nullptr) std::swap(batch, *last_);
  last_ = &batches_[clock % batches_.size()];
  std::swap(batch, *last_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrainStepper>> TrainStepper::Create(const v1::JobSpec& spec,
                                                                   const DatasetInfo& data,
                                                                   std::vector<Batch> batches) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Model> model,
                          CreateModel(spec.model(), spec.compute(), data));
  const v1::TablesSchema schema =
      MakeTablesSchema(model->description(), spec, std::numeric_limits<uint32_t>::max());
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<LocalStrategy> strategy,
                          LocalStrategy::Create(schema, LossScaling(spec.compute(), {})));
  return absl::WrapUnique(
      new TrainStepper(spec, std::move(model), std::move(strategy), std::move(batches)));
}

TrainStepper::TrainStepper(const v1::JobSpec& spec, std::unique_ptr<const Model> model,
                           std::unique_ptr<LocalStrategy> strategy, std::vector<Batch> batches)
    : model_(std::move(model)),
      strategy_(std::move(strategy)),
      batches_(std::move(batches)),
      engine_(spec, *model_, *strategy_) {}

absl::Status TrainStepper::Step() {
  sums_ = StepSums();
  return engine_.Train(clock_++, batches_, sums_);
}

}  // namespace muster
