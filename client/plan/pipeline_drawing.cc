#include "client/plan/pipeline_drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/terminal/format.h"
#include "common/step/action.h"
#include "common/step/stage_spec.h"
#include "common/text/dump_json.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

using Kind = ActionKind;

constexpr int kColumns = 70;

double ShortestPass(const PipelinePlan& plan) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const std::vector<TimedAction>& stage : plan.timeline.stages) {
    for (const TimedAction& pass : stage) {
      if (pass.end > pass.begin) shortest = std::min(shortest, pass.end - pass.begin);
    }
  }
  return shortest;
}

// Returns the character of a pass: its micro-batch's last digit, or a letter in its place.
char Letter(const StepAction& pass) {
  const char digit = static_cast<char>(pass.micro_batch % 10);
  switch (pass.kind) {
    case Kind::kForward:
      return static_cast<char>('0' + digit);
    case Kind::kBackwardWeights:
      return static_cast<char>('A' + digit);
    default:
      return static_cast<char>('a' + digit);
  }
}

// Returns the passes that run in the middle of each of so many columns.
std::string Row(const std::vector<TimedAction>& passes, double length, int columns) {
  std::string row(columns, ' ');
  size_t next = 0;
  for (int column = 0; column < columns; ++column) {
    const double time = length * (column + 0.5) / columns;
    while (next < passes.size() && passes[next].end <= time) ++next;
    if (next == passes.size()) break;
    if (passes[next].begin <= time) row[column] = Letter(passes[next].action);
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

std::string Drawing(const PipelinePlan& plan) {
  const double length = plan.timeline.length();
  const double passes = length / ShortestPass(plan);
  const int columns = static_cast<int>(std::min<double>(kColumns, std::ceil(passes - 1e-6)));
  std::string text;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    absl::StrAppendFormat(&text, "stage %-2d %s\n", stage,
                          Row(plan.timeline.stages[stage], length, columns));
  }
  absl::StrAppend(&text, "\n0-9 forward of micro-batch 0-9 and, again, 10-19 and so on; a-j ",
                  plan.shape.order == StageOrder::kZeroBubble
                      ? "backward of its\ninput; A-J backward of weights"
                      : "its\nbackward",
                  "; blank: the stage waits.");
  if (passes > kColumns) {
    absl::StrAppend(&text, " The shortest pass takes\nless than a column: --out draws all.");
  }
  return absl::StrCat(text, "\n");
}

std::string StagesTable(const PipelinePlan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "layers", "computes", "micro-batches", "activations", "states", "sends"}};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    rows.push_back({absl::StrCat(s), absl::StrJoin(stage.layers, " + "), FormatPercent(stage.busy),
                    absl::StrCat(stage.holdings.saved), FormatBytes(stage.activation_bytes),
                    FormatBytes(stage.state_bytes),
                    FormatBytes(static_cast<double>(stage.sent_bytes))});
  }
  return FormatTable(rows);
}

const char* ColourOf(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "#4c78a8";
    case Kind::kBackwardInput:
      return "#59a14f";
    case Kind::kBackwardWeights:
      return "#f28e2b";
    default:
      return "#59a14f";
  }
}

// Extents of the image, in pixels.
constexpr double kTimeWidth = 1200;
constexpr int kLabelWidth = 70;
constexpr int kRowHeight = 28;
constexpr int kBarHeight = 22;
// The narrowest bar that shows its micro-batch.
constexpr double kNumberWidth = 12;

void AppendBar(const PipelinePlan& plan, size_t stage, const TimedAction& pass, std::string& svg) {
  const double scale = kTimeWidth / plan.timeline.length();
  const double x = kLabelWidth + pass.begin * scale;
  const double width = (pass.end - pass.begin) * scale;
  const int y = kRowHeight * static_cast<int>(stage) + kRowHeight;
  // Later chunks are lighter.
  const double opacity = 1 - 0.6 * pass.action.chunk / plan.shape.chunks;
  absl::StrAppendFormat(&svg,
                        "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" "
                        "fill-opacity=\"%.2f\" stroke=\"white\" stroke-width=\"0.5\"><title>%s, "
                        "micro-batch %d, chunk %d</title></rect>\n",
                        x, y, width, kBarHeight, ColourOf(pass.action.kind), opacity,
                        NameOf(pass.action.kind), pass.action.micro_batch, pass.action.chunk);
  if (width < kNumberWidth) return;
  absl::StrAppendFormat(&svg, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                        x + width / 2, y + kBarHeight - 7, pass.action.micro_batch);
}

}  // namespace

std::string PipelineText(const PipelinePlan& plan) {
  const StageShape& shape = plan.shape;
  std::string text = absl::StrCat(
      plan.job, ": ", Name(shape.order), ", ", shape.stages, " stages",
      shape.chunks > 1 ? absl::StrCat(" of ", shape.chunks, " chunks") : "", ", ",
      shape.micro_batches, shape.micro_batches == 1 ? " micro-batch" : " micro-batches", "\n\n",
      Drawing(plan), "\n", StagesTable(plan), "\n");
  absl::StrAppend(&text, "Stages wait for ", FormatPercent(plan.bubble()),
                  " of the time they compute; with as much to do for all\nstages it would be ",
                  FormatPercent(plan.uniform_bubble()),
                  ". Times are operations; transfers take none.\nMicro-batches are those whose "
                  "activations a stage has at a time",
                  shape.chunks > 1 ? ", of one chunk\neach" : "",
                  shape.order == StageOrder::kZeroBubble
                      ? ", with those\nwhose backward of weights is to come"
                      : "",
                  ".\n");
  return text;
}

std::string PipelineJson(const PipelinePlan& plan) {
  nlohmann::ordered_json json = {{"job", plan.job},
                                 {"schedule", Name(plan.shape.order)},
                                 {"chunks", plan.shape.chunks},
                                 {"micro_batches", plan.shape.micro_batches},
                                 {"operations_of_step", plan.timeline.length()},
                                 {"bubble", plan.bubble()},
                                 {"uniform_bubble", plan.uniform_bubble()},
                                 {"stages", nlohmann::ordered_json::array()}};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    nlohmann::ordered_json passes = nlohmann::ordered_json::array();
    for (const TimedAction& pass : plan.timeline.stages[s]) {
      passes.push_back({{"pass", std::string(NameOf(pass.action.kind))},
                        {"chunk", pass.action.chunk},
                        {"micro_batch", pass.action.micro_batch},
                        {"begin", pass.begin},
                        {"end", pass.end}});
    }
    json["stages"].push_back({{"layers", stage.layers},
                              {"operations", stage.operations},
                              {"busy", stage.busy},
                              {"activations_in_flight", stage.holdings.activations},
                              {"saved_micro_batches", stage.holdings.saved},
                              {"activation_bytes", stage.activation_bytes},
                              {"state_bytes", stage.state_bytes},
                              {"sent_bytes", stage.sent_bytes},
                              {"passes", passes}});
  }
  return DumpJson(json, 2);
}

std::string PipelineSvg(const PipelinePlan& plan) {
  const int height = kRowHeight * (static_cast<int>(plan.stages.size()) + 2);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"4\" y=\"18\">%s, %d micro-batches: stages wait for %s of the time they compute"
      "</text>\n",
      kLabelWidth + static_cast<int>(kTimeWidth) + 10, height, Name(plan.shape.order),
      plan.shape.micro_batches, FormatPercent(plan.bubble()));
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    absl::StrAppendFormat(&svg, "<text x=\"4\" y=\"%d\">stage %d</text>\n",
                          kRowHeight * static_cast<int>(stage) + kRowHeight + 15, stage);
    for (const TimedAction& pass : plan.timeline.stages[stage]) AppendBar(plan, stage, pass, svg);
  }
  absl::StrAppendFormat(
      &svg,
      "<text x=\"4\" y=\"%d\"><tspan fill=\"%s\">forward</tspan> <tspan fill=\"%s\">backward"
      "%s</tspan>%s</text>\n</svg>\n",
      height - 10, ColourOf(Kind::kForward), ColourOf(Kind::kBackward),
      plan.shape.order == StageOrder::kZeroBubble ? " of the input" : "",
      plan.shape.order == StageOrder::kZeroBubble
          ? absl::StrCat(" <tspan fill=\"", ColourOf(Kind::kBackwardWeights),
                         "\">backward of weights</tspan>")
          : "");
  return svg;
}

}  // namespace muster
