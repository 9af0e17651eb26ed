#include "common/plan/ranks/planned_stages.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/round_up.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/ranks/rank_size.h"
#include "common/step/stage_schedule.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Labels of one forward pass of an evaluation: enough for fast matrix products, in little memory.
constexpr uint64_t kEvaluationLabels = 1024;

}  // namespace

PlannedStages PlanStages(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model) {
  PlannedStages stages;
  stages.shape = ShapeOfStages(spec);
  const absl::StatusOr<ModelDivision> division = PlannedDivision(spec, model);
  if (!division.ok()) {
    // No job is admitted with too few layers for its stages.
    stages.shape.stages = 1;
    return stages;
  }
  stages.division = *division;
  if (stages.shape.stages == 1) return stages;
  const uint64_t examples =
      std::max<uint64_t>(spec.stop().evaluate_only() ? 0 : LargestMicroBatch(spec),
                         EvaluatedExamples(spec, data, model));
  for (int stage = 0; stage < stages.shape.stages; ++stage) {
    const ModelSize of_rank = SizeOfRank(spec, model, *division, stage);
    for (const UnitRange& units : of_rank.chunks) {
      if (units.end == model.chunks[0].end) continue;
      stages.message_bytes = std::max(
          stages.message_bytes, BoundaryBytes(spec, of_rank.tensors, units.end - 1, examples));
    }
  }
  stages.message_bytes = RoundUp<uint64_t>(stages.message_bytes, kStageMessageAlignment);
  stages.messages = StageMessages(stages.shape);
  return stages;
}

int ReceivedMessages(StageShape shape) {
  // However many micro-batches follow.
  shape.micro_batches = std::min(shape.micro_batches, 8 * shape.stages);
  int most = 0;
  for (const std::vector<StepAction>& stage : StageSchedules(shape)) {
    const StageHoldings holdings = HoldingsOf(stage);
    most = std::max(most, holdings.received_activations + holdings.received_gradients);
  }
  return most;
}

int StageMessages(const StageShape& shape) {
  return shape.stages == 1 ? 0 : ReceivedMessages(shape) + kStageMessagesSent;
}

uint64_t ExamplesOfPass(uint64_t labels_per_example) {
  return std::max<uint64_t>(1, kEvaluationLabels / std::max<uint64_t>(1, labels_per_example));
}

uint64_t EvaluatedExamples(const v1::JobSpec& spec, uint64_t labels_per_example,
                           absl::optional<uint64_t> held_out) {
  if (!Evaluates(spec)) return 0;
  uint64_t each = ExamplesOfPass(labels_per_example);
  const auto share = [&spec](uint64_t examples) {
    return CeilDivide<uint64_t>(examples, SizeAlong(kDataAxes, spec));
  };
  if (held_out.has_value()) each = std::min(each, share(*held_out));
  const uint64_t most = spec.evaluation().max_examples();
  if (most > 0) each = std::min(each, share(most));
  return each;
}

absl::optional<uint64_t> HeldOutExamples(const v1::JobSpec& spec, const DataSize& data) {
  if (spec.has_validation()) {
    return data.validation_examples > 0 ? absl::make_optional(data.validation_examples)
                                        : absl::nullopt;
  }
  if (data.examples == 0) return absl::nullopt;
  return std::llround(spec.data().holdout() * static_cast<double>(data.examples));
}

uint64_t EvaluatedExamples(const v1::JobSpec& spec, const DataSize& data, const ModelSize& model) {
  return EvaluatedExamples(spec, model.transformer.has_value() ? model.transformer->context() : 1,
                           HeldOutExamples(spec, data));
}

}  // namespace muster
