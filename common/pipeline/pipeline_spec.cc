#include "common/pipeline/pipeline_spec.h"

#include <algorithm>

#include "proto/job.pb.h"

namespace muster {
namespace {

PipelineOrder OrderOf(const v1::JobSpec& spec) {
  switch (spec.parallelism().pipeline_schedule()) {
    case v1::ParallelismSpec::LAYER_WISE:
      return PipelineOrder::kLayerWise;
    case v1::ParallelismSpec::GPIPE:
      return PipelineOrder::kGPipe;
    case v1::ParallelismSpec::ONE_F_ONE_B:
      return PipelineOrder::kOneForwardOneBackward;
    case v1::ParallelismSpec::INTERLEAVED:
      return PipelineOrder::kInterleaved;
    case v1::ParallelismSpec::ZERO_BUBBLE:
      return PipelineOrder::kZeroBubble;
    default:
      return spec.micro_batches() <= 1 ? PipelineOrder::kLayerWise
                                       : PipelineOrder::kOneForwardOneBackward;
  }
}

}  // namespace

PipelineShape ShapeOfPipeline(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  PipelineShape shape;
  shape.order = OrderOf(spec);
  shape.stages = static_cast<int>(std::max(1u, parallelism.pipeline()));
  shape.micro_batches = static_cast<int>(std::max(1u, spec.micro_batches()));
  if (shape.order == PipelineOrder::kInterleaved) {
    shape.chunks =
        parallelism.pipeline_chunks() == 0 ? 2 : static_cast<int>(parallelism.pipeline_chunks());
  }
  return shape;
}

const char* Name(PipelineOrder order) {
  switch (order) {
    case PipelineOrder::kLayerWise:
      return "LAYER_WISE";
    case PipelineOrder::kGPipe:
      return "GPIPE";
    case PipelineOrder::kOneForwardOneBackward:
      return "ONE_F_ONE_B";
    case PipelineOrder::kInterleaved:
      return "INTERLEAVED";
    case PipelineOrder::kZeroBubble:
      return "ZERO_BUBBLE";
  }
  return "";
}

}  // namespace muster
