#include "common/step/stage_spec.h"

#include <algorithm>

#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

StageOrder OrderOf(const v1::JobSpec& spec) {
  switch (spec.parallelism().pipeline_schedule()) {
    case v1::ParallelismSpec::LAYER_WISE:
      return StageOrder::kLayerWise;
    case v1::ParallelismSpec::GPIPE:
      return StageOrder::kGPipe;
    case v1::ParallelismSpec::ONE_F_ONE_B:
      return StageOrder::kOneForwardOneBackward;
    case v1::ParallelismSpec::INTERLEAVED:
      return StageOrder::kInterleaved;
    case v1::ParallelismSpec::ZERO_BUBBLE:
      return StageOrder::kZeroBubble;
    default:
      // A single stage may get more micro-batches than the job's, in a round of fewer data ranks.
      return spec.micro_batches() <= 1 && spec.parallelism().pipeline() > 1
                 ? StageOrder::kLayerWise
                 : StageOrder::kOneForwardOneBackward;
  }
}

}  // namespace

StageShape ShapeOfStages(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  StageShape shape;
  shape.order = OrderOf(spec);
  shape.stages = static_cast<int>(std::max(1u, parallelism.pipeline()));
  shape.micro_batches = static_cast<int>(std::max(1u, spec.micro_batches()));
  if (shape.order == StageOrder::kInterleaved) {
    shape.chunks =
        parallelism.pipeline_chunks() == 0 ? 2 : static_cast<int>(parallelism.pipeline_chunks());
  }
  return shape;
}

ModelStage StageOfJob(const v1::JobSpec& spec, const v1::TablesSchema& schema, int units,
                      int stage) {
  ModelStage result = {.shape = ShapeOfStages(spec), .stage = stage, .sizes = {units}};
  const auto& layers = schema.pipeline_layers();
  if (!layers.empty()) result.sizes.assign(layers.begin(), layers.end());
  return result;
}

StepTraits TraitsOfJob(const v1::JobSpec& spec, bool has_rows, bool on_device) {
  return {.has_rows = has_rows,
          .scaled_loss = spec.compute().type() == v1::ComputeSpec::F16,
          .sends_micro_batches = HoldsUnitsInFlight(spec) || ZeroStage(spec) >= 2,
          .on_device = on_device,
          .has_experts = spec.model().transformer().has_moe()};
}

const char* Name(StageOrder order) {
  switch (order) {
    case StageOrder::kLayerWise:
      return "LAYER_WISE";
    case StageOrder::kGPipe:
      return "GPIPE";
    case StageOrder::kOneForwardOneBackward:
      return "ONE_F_ONE_B";
    case StageOrder::kInterleaved:
      return "INTERLEAVED";
    case StageOrder::kZeroBubble:
      return "ZERO_BUBBLE";
  }
  return "";
}

}  // namespace muster
