#include "client/compare/pass_times.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "common/mesh/job_mesh.h"
#include "common/step/action.h"
#include "common/step/stage_spec.h"
#include "proto/job.pb.h"
#include "proto/trace.pb.h"

namespace muster {
namespace {

// Returns the part of a unit's times that passes of this name count as; null for other events.
double VirtualStageTimes::*PartOf(absl::string_view pass) {
  if (pass == NameOf(ActionKind::kForward)) return &VirtualStageTimes::forward;
  if (pass == NameOf(ActionKind::kBackwardWeights)) return &VirtualStageTimes::backward_weights;
  for (const ActionKind kind :
       {ActionKind::kBackward, ActionKind::kBackwardInput, ActionKind::kLastUnit}) {
    if (pass == NameOf(kind)) return &VirtualStageTimes::backward_input;
  }
  return nullptr;
}

void AddEvent(const v1::TraceName& name, double seconds, SlotTimes& times) {
  if (name.category() == "step") {
    ++times.steps;
    times.in_steps += seconds;
  } else if (name.category() == "optimizer") {
    times.in_optimizer += seconds;
  }
  const absl::string_view text = name.name();
  const size_t space = text.rfind(' ');
  int unit = 0;
  if (space == absl::string_view::npos || !absl::SimpleAtoi(text.substr(space + 1), &unit)) return;
  double VirtualStageTimes::*const part = PartOf(text.substr(0, space));
  if (part == nullptr) return;
  const auto added = times.units.insert({unit, {0, 0, 0}}).first;
  added->second.*part += seconds;
}

// The mean over the slots of one stage, of a step.
struct StageTimes {
  double step = 0;
  double optimizer = 0;
  double passes = 0;
  std::map<int, VirtualStageTimes> units;
  int slots = 0;

  void Add(const SlotTimes& slot) {
    const auto steps = static_cast<double>(slot.steps);
    ++slots;
    step += slot.in_steps / steps;
    optimizer += slot.in_optimizer / steps;
    passes += slot.in_passes() / steps;
    for (const auto& [unit, times] : slot.units) {
      VirtualStageTimes& sum = units.insert({unit, {0, 0, 0}}).first->second;
      sum.forward += times.forward / steps;
      sum.backward_input += times.backward_input / steps;
      sum.backward_weights += times.backward_weights / steps;
    }
  }
};

}  // namespace

double SlotTimes::in_passes() const {
  double seconds = 0;
  for (const auto& [unit, times] : units) seconds += times.total();
  return seconds;
}

void AddTimes(const v1::TraceChunk& chunk, PassTimes& times) {
  if (!chunk.has_piece() || !chunk.source().server_id().empty()) return;
  const v1::TracePiece& piece = chunk.piece();
  SlotTimes& slot = times[chunk.source().slot()];
  for (const v1::TraceEvent& event : piece.events()) {
    if (event.name() >= static_cast<uint32_t>(piece.names_size())) continue;
    AddEvent(piece.names(static_cast<int>(event.name())),
             static_cast<double>(event.duration_ns()) * 1e-9, slot);
  }
}

std::optional<ScheduleFigures> FiguresOfSchedule(const v1::JobSpec& spec,
                                                 const std::vector<int>& virtual_stage_units,
                                                 const PassTimes& times) {
  const Mesh mesh = MeshOf(spec);
  const StageShape shape = ShapeOfStages(spec);
  if (static_cast<int>(virtual_stage_units.size()) != shape.virtual_stages()) return std::nullopt;
  std::vector<StageTimes> stages(shape.stages);
  for (const auto& [slot, of_slot] : times) {
    if (of_slot.steps == 0 || static_cast<int>(slot) >= mesh.world_size()) continue;
    stages[mesh.Position(static_cast<int>(slot), Axis::kPipeline)].Add(of_slot);
  }
  double steps = 0, passes = 0, optimizer = 0;
  for (const StageTimes& stage : stages) {
    if (stage.slots == 0 || stage.passes == 0) return std::nullopt;
    steps += (stage.step - stage.optimizer) / stage.slots;
    passes += stage.passes / stage.slots;
    optimizer = std::max(optimizer, stage.optimizer / stage.slots);
  }
  std::vector<VirtualStageTimes> virtual_stages;
  int unit = 0;
  for (int virtual_stage = 0; virtual_stage < shape.virtual_stages(); ++virtual_stage) {
    const StageTimes& stage = stages[virtual_stage % shape.stages];
    const double share = 1.0 / (stage.slots * shape.micro_batches);
    VirtualStageTimes& sum = virtual_stages.emplace_back(VirtualStageTimes{0, 0, 0});
    for (const int end = unit + virtual_stage_units[virtual_stage]; unit < end; ++unit) {
      const auto found = stage.units.find(unit);
      if (found == stage.units.end()) continue;
      sum.forward += found->second.forward * share;
      sum.backward_input += found->second.backward_input * share;
      sum.backward_weights += found->second.backward_weights * share;
    }
  }
  const double length = TimelineOf(shape, virtual_stages, /*transfer=*/0).length();
  return ScheduleFigures{.predicted_seconds = length + optimizer,
                         .predicted_bubble = shape.stages * length / passes - 1,
                         .bubble = steps / passes - 1};
}

}  // namespace muster
