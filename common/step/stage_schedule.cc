#include "common/step/stage_schedule.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/step/step_timeline.h"

namespace muster {
namespace {

using Kind = ActionKind;

// An action and its place in the one order of all actions.
struct Placed {
  // The time at which the pass ends, or the pass whose result is sent.
  double time = 0;
  // Passes that end at the same time come first.
  bool transfers = false;
  // Distinguishes transfers of one time: what is sent, and the virtual stage that sends it.
  bool gradient = false;
  int from = 0;
  StepAction action;

  friend bool operator<(const Placed& a, const Placed& b) {
    return std::tie(a.time, a.transfers, a.gradient, a.from) <
           std::tie(b.time, b.transfers, b.gradient, b.from);
  }
};

// Adds the transfer of what `pass` of virtual stage `from` has made to the lists of both stages.
void AddTransfer(const StageShape& shape, const TimedAction& pass, int from,
                 std::vector<std::vector<Placed>>& stages) {
  const bool gradient = pass.action.kind != Kind::kForward;
  const int to = gradient ? from - 1 : from + 1;
  if (to < 0 || to == shape.virtual_stages()) return;
  const int sender = from % shape.stages;
  const int receiver = to % shape.stages;
  if (sender == receiver) return;
  const auto add = [&](int stage, Kind kind, int virtual_stage, int peer) {
    stages[stage].push_back({.time = pass.end,
                             .transfers = true,
                             .gradient = gradient,
                             .from = from,
                             .action = {.kind = kind,
                                        .micro_batch = pass.action.micro_batch,
                                        .chunk = virtual_stage / shape.stages,
                                        .peer = peer}});
  };
  add(sender, gradient ? Kind::kSendGradient : Kind::kSendActivation, from, receiver);
  add(receiver, gradient ? Kind::kReceiveGradient : Kind::kReceiveActivation, to, sender);
}

// Counts what is held, and the most that ever was.
struct Held {
  int now = 0;
  int most = 0;

  void Add() { most = std::max(most, ++now); }
};

}  // namespace

std::vector<std::vector<StepAction>> StageSchedules(const StageShape& shape) {
  const std::vector<VirtualStageTimes> uniform(shape.virtual_stages());
  const StepTimeline timeline = TimelineOf(shape, uniform, /*transfer=*/0);
  std::vector<std::vector<Placed>> placed(shape.stages);
  for (int stage = 0; stage < shape.stages; ++stage) {
    for (const TimedAction& pass : timeline.stages[stage]) {
      placed[stage].push_back({.time = pass.end, .action = pass.action});
      if (pass.action.kind == Kind::kBackwardWeights) continue;
      AddTransfer(shape, pass, shape.VirtualStage(stage, pass.action.chunk), placed);
    }
  }
  std::vector<std::vector<StepAction>> schedule(shape.stages);
  for (int stage = 0; stage < shape.stages; ++stage) {
    std::sort(placed[stage].begin(), placed[stage].end());
    for (const Placed& one : placed[stage]) schedule[stage].push_back(one.action);
  }
  return schedule;
}

StageHoldings HoldingsOf(absl::Span<const StepAction> actions) {
  using MicroBatchOfChunk = std::pair<int, int>;
  std::set<MicroBatchOfChunk> inputs, output_gradients;
  Held activations, saved, received_activations, received_gradients;
  for (const StepAction& action : actions) {
    const MicroBatchOfChunk of = {action.chunk, action.micro_batch};
    switch (action.kind) {
      case Kind::kReceiveActivation:
        inputs.insert(of);
        received_activations.Add();
        break;
      case Kind::kReceiveGradient:
        output_gradients.insert(of);
        received_gradients.Add();
        break;
      case Kind::kForward:
        activations.Add();
        saved.Add();
        received_activations.now -= static_cast<int>(inputs.erase(of));
        break;
      case Kind::kBackward:
      case Kind::kBackwardInput:
        --activations.now;
        if (action.kind == Kind::kBackward) --saved.now;
        received_gradients.now -= static_cast<int>(output_gradients.erase(of));
        break;
      case Kind::kBackwardWeights:
        --saved.now;
        break;
      default:
        break;
    }
  }
  return {.activations = activations.most,
          .saved = saved.most,
          .received_activations = received_activations.most,
          .received_gradients = received_gradients.most};
}

}  // namespace muster
