#include "common/step/compute_order.h"

#include <algorithm>

namespace muster {
namespace {

using Kind = ActionKind;

// Returns the i-th pass in one direction: p micro-batches of one chunk, then the same of the next
// chunk; after the last chunk the next p micro-batches.
StepAction Pass(const StageShape& shape, Kind kind, int i) {
  const int per_round = shape.stages * shape.chunks;
  const int in_round = i % per_round;
  const int chunk = in_round / shape.stages;
  return {.kind = kind,
          .micro_batch = i / per_round * shape.stages + in_round % shape.stages,
          .chunk = kind == Kind::kForward ? chunk : shape.chunks - 1 - chunk};
}

// Returns the number of forward passes that the stage makes before it goes by turns.
int Ahead(const StageShape& shape, int stage) {
  const int later_stages = shape.stages - stage - 1;
  switch (shape.order) {
    case StageOrder::kLayerWise:
    case StageOrder::kGPipe:
      return shape.micro_batches - 1;
    case StageOrder::kInterleaved:
      return 2 * later_stages + (shape.chunks - 1) * shape.stages;
    case StageOrder::kOneForwardOneBackward:
    case StageOrder::kZeroBubble:
      break;
  }
  return later_stages;
}

// Returns forward and backward passes by turns, after the stage's first forward passes.
std::vector<StepAction> ByTurns(const StageShape& shape, int stage) {
  const int passes = shape.micro_batches * shape.chunks;
  const int ahead = Ahead(shape, stage);
  std::vector<StepAction> order;
  int forward = 0;
  for (int backward = 0; backward < passes; ++backward) {
    for (; forward < std::min(passes, backward + ahead + 1); ++forward) {
      order.push_back(Pass(shape, Kind::kForward, forward));
    }
    order.push_back(Pass(shape, Kind::kBackward, backward));
  }
  return order;
}

// Returns 1F1B with every backward pass in two actions. Stage s computes the gradients of weights s
// micro-batches later than those of inputs: so every stage holds as much as the first one, and what
// it puts off fills the time in which it would wait for the last gradients.
std::vector<StepAction> ZeroBubble(const StageShape& shape, int stage) {
  std::vector<StepAction> order;
  int weights = 0;
  const auto put_off = [&] {
    order.push_back({.kind = Kind::kBackwardWeights, .micro_batch = weights++});
  };
  for (const StepAction& action : ByTurns(shape, stage)) {
    if (action.kind == Kind::kForward) {
      order.push_back(action);
      continue;
    }
    order.push_back({.kind = Kind::kBackwardInput, .micro_batch = action.micro_batch});
    if (action.micro_batch >= stage) put_off();
  }
  while (weights < shape.micro_batches) put_off();
  return order;
}

}  // namespace

std::vector<StepAction> ComputeOrder(const StageShape& shape, int stage) {
  return shape.order == StageOrder::kZeroBubble ? ZeroBubble(shape, stage) : ByTurns(shape, stage);
}

int MostActivationStashes(const StageShape& shape, int stage) {
  const int ahead = shape.order == StageOrder::kZeroBubble ? shape.stages - 1 : Ahead(shape, stage);
  return std::min(shape.micro_batches * shape.chunks, ahead + 1);
}

}  // namespace muster
