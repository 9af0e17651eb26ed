#include "common/job/validation/pipeline_validator.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/job/validation/served_ranks_validator.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr absl::string_view kPipeline = "parallelism.pipeline";
constexpr absl::string_view kSchedule = "parallelism.pipeline_schedule";
constexpr absl::string_view kChunks = "parallelism.pipeline_chunks";
constexpr absl::string_view kLayers = "parallelism.pipeline_layers";

// Checks a job without a pipeline: fields that say how a pipeline works must be unset.
absl::Status ValidateNoPipeline(const v1::ParallelismSpec& parallelism) {
  constexpr absl::string_view kNothing =
      "but parallelism.pipeline is 1, which makes no pipeline; set the number of stages, or leave "
      "this out";
  if (parallelism.pipeline_schedule() != v1::ParallelismSpec::PIPELINE_SCHEDULE_UNSPECIFIED) {
    return Invalid(kSchedule,
                   v1::ParallelismSpec::PipelineSchedule_Name(parallelism.pipeline_schedule()),
                   kNothing);
  }
  if (parallelism.pipeline_chunks() > 0) {
    return Invalid(kChunks, parallelism.pipeline_chunks(), kNothing);
  }
  if (!parallelism.pipeline_layers().empty()) {
    return Invalid(kLayers, absl::StrCat("a list of ", parallelism.pipeline_layers_size()),
                   kNothing);
  }
  return absl::OkStatus();
}

// Returns the number of layers that stages can divide.
uint64_t Units(const v1::ModelSpec& model) {
  return model.has_transformer() ? uint64_t{model.transformer().layers()} + 2
                                 : model.mlp().hidden_size() + uint64_t{1};
}

std::string DescribeUnits(const v1::ModelSpec& model) {
  return absl::StrCat("the model has ", Units(model), " layers",
                      model.has_transformer() ? " (its blocks, the embedding and the head)" : "");
}

// Checks that there are layers for all stages and chunks.
absl::Status ValidateUnits(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  const uint64_t units = Units(spec.model());
  const uint64_t stages = parallelism.pipeline();
  if (stages > units) {
    return Invalid(
        kPipeline, stages,
        absl::StrCat("but ", DescribeUnits(spec.model()), ", and each stage holds one at least"));
  }
  const bool interleaved = parallelism.pipeline_schedule() == v1::ParallelismSpec::INTERLEAVED;
  const uint64_t chunks =
      interleaved && parallelism.pipeline_chunks() == 0 ? 2 : parallelism.pipeline_chunks();
  if (stages * chunks > units) {
    return Invalid(kChunks, chunks,
                   absl::StrCat("but ", DescribeUnits(spec.model()), ", and ", stages,
                                " stages with ", chunks, " virtual stages each have ",
                                stages * chunks, " groups, each of which holds one at least"));
  }
  return absl::OkStatus();
}

// Checks that the order can be kept with the job's chunks and micro-batches.
absl::Status ValidateOrder(const v1::JobSpec& spec, const StageShape& shape) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  const bool interleaved = shape.order == StageOrder::kInterleaved;
  if (shape.order == StageOrder::kLayerWise && spec.micro_batches() > 1) {
    return Invalid(kSchedule, Name(shape.order),
                   absl::StrCat("but micro_batches is ", spec.micro_batches(),
                                ", and this order has one; leave micro_batches out, or take GPIPE, "
                                "ONE_F_ONE_B, INTERLEAVED or ZERO_BUBBLE"));
  }
  if (!interleaved && parallelism.pipeline_chunks() > 0) {
    return Invalid(kChunks, parallelism.pipeline_chunks(),
                   absl::StrCat("but parallelism.pipeline_schedule is ", Name(shape.order),
                                ", where a stage holds one virtual stage: leave it out, or take "
                                "INTERLEAVED"));
  }
  if (interleaved && shape.chunks == 1) {
    return Invalid(kChunks, shape.chunks,
                   "but parallelism.pipeline_schedule is INTERLEAVED: take 2 or more, or "
                   "ONE_F_ONE_B");
  }
  if (interleaved && std::max(1u, spec.micro_batches()) % parallelism.pipeline() != 0) {
    return Invalid("micro_batches", std::max(1u, spec.micro_batches()),
                   absl::StrCat("but parallelism.pipeline_schedule is INTERLEAVED, which computes "
                                "them by rounds of one for each stage: take a multiple of "
                                "parallelism.pipeline, which is ",
                                shape.stages, ", or another schedule"));
  }
  return absl::OkStatus();
}

// Checks that the list of virtual stages, if there is one, names each layer once.
absl::Status ValidateLayers(const v1::JobSpec& spec, const StageShape& shape) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  if (parallelism.pipeline_layers().empty()) return absl::OkStatus();
  if (parallelism.pipeline_layers_size() != shape.virtual_stages()) {
    return Invalid(kLayers, absl::StrCat("a list of ", parallelism.pipeline_layers_size()),
                   absl::StrCat("it must have ", shape.virtual_stages(),
                                " numbers, one for each virtual stage: ", shape.chunks,
                                " on each of ", shape.stages, " stages"));
  }
  uint64_t listed = 0;
  for (const uint32_t number : parallelism.pipeline_layers()) {
    if (number == 0) {
      return Invalid(kLayers, "a list with a 0", "each group must have a layer at least");
    }
    listed += number;
  }
  if (listed == Units(spec.model())) return absl::OkStatus();
  return Invalid(kLayers, absl::StrCat("a list of ", listed, " layers"),
                 absl::StrCat("but ", DescribeUnits(spec.model())));
}

// Checks what else the job wants of workers that hold some of the layers alone.
absl::Status ValidateRest(const v1::JobSpec& spec) {
  const uint32_t stages = spec.parallelism().pipeline();
  MUSTER_RETURN_IF_ERROR(ValidateServedRanks(spec, kPipeline, stages));
  const uint32_t zero = spec.parallelism().zero().stage();
  if (zero == 3 && !TrainsByAllReduce(spec)) {
    return Invalid("parallelism.zero.stage", 3,
                   absl::StrCat("but update.dense is PARAMETER_SERVER and ", kPipeline, " ", stages,
                                ", whose stages add up a tied head's gradients once a step, while "
                                "stage 3 pushes them in every micro-batch: take update.dense "
                                "ALL_REDUCE, or stage 0"));
  }
  const StageOrder order = ShapeOfStages(spec).order;
  if (zero >= 2 && (order == StageOrder::kZeroBubble || order == StageOrder::kInterleaved)) {
    return Invalid("parallelism.zero.stage", zero,
                   absl::StrCat("but ", kSchedule, " is ", Name(order),
                                ", where a stage computes gradients of several micro-batches or "
                                "virtual stages by turns, which stages 2 and 3 have no memory for: "
                                "take stage 1, or GPIPE or ONE_F_ONE_B"));
  }
  if (spec.min_workers() > 0 && spec.min_workers() < MostWorkers(spec)) {
    return Invalid("min_workers", spec.min_workers(),
                   absl::StrCat("but parallelism.pipeline is ", stages,
                                ", where every stage needs its worker: leave it out"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePipeline(const v1::JobSpec& spec) {
  const v1::ParallelismSpec& parallelism = spec.parallelism();
  if (!v1::ParallelismSpec::PipelineSchedule_IsValid(parallelism.pipeline_schedule())) {
    return Invalid(kSchedule, static_cast<int>(parallelism.pipeline_schedule()),
                   "it must be LAYER_WISE, GPIPE, ONE_F_ONE_B, INTERLEAVED or ZERO_BUBBLE, or be "
                   "left out");
  }
  if (parallelism.pipeline() <= 1) return ValidateNoPipeline(parallelism);
  if (!spec.model().has_transformer() && !spec.model().has_mlp()) {
    return Invalid(kPipeline, parallelism.pipeline(),
                   "but only the layers of model.transformer and model.mlp are divided into "
                   "stages: leave it out");
  }
  MUSTER_RETURN_IF_ERROR(ValidateUnits(spec));
  const StageShape shape = ShapeOfStages(spec);
  MUSTER_RETURN_IF_ERROR(ValidateOrder(spec, shape));
  MUSTER_RETURN_IF_ERROR(ValidateLayers(spec, shape));
  return ValidateRest(spec);
}

}  // namespace muster
