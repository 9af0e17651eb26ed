#ifndef MUSTER_CLIENT_PLAN_PIPELINE_DRAWING_H_
#define MUSTER_CLIENT_PLAN_PIPELINE_DRAWING_H_

#include <string>

#include "client/plan/pipeline_plan.h"

namespace muster {

// Returns the timeline of a step, at most 80 columns wide, and a table of the stages, for people.
std::string PipelineText(const PipelinePlan& plan);

// Returns the same as one JSON object, with every pass.
std::string PipelineJson(const PipelinePlan& plan);

// Returns the timeline as an SVG image, with every pass.
std::string PipelineSvg(const PipelinePlan& plan);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_PIPELINE_DRAWING_H_
