#include "common/step/step_plan.h"

#include <map>
#include <set>
#include <utility>

#include "common/step/stage_schedule.h"

namespace muster {
namespace {

using Kind = ActionKind;

bool Leaves(const ModelStage& stage, const StepTraits& traits, int micro_batch) {
  return traits.sends_micro_batches || micro_batch + 1 == stage.shape.micro_batches;
}

// Writes the passes of a stage's virtual stages as a plan of its units.
class StepPlanner {
 public:
  StepPlanner(const ModelStage& stage, const StepTraits& traits)
      : stage_(stage), traits_(traits), splits_(stage.shape.order == StageOrder::kZeroBubble) {}

  std::vector<StepAction> Plan() {
    plan_.push_back({Kind::kBeginStep});
    const std::vector<std::vector<StepAction>> schedules = StageSchedules(stage_.shape);
    for (const StepAction& action : schedules[stage_.stage]) Add(action);
    if (HasPeers()) plan_.push_back({Kind::kFinishMessages});
    plan_.push_back({Kind::kEndStep});
    if (traits_.on_device && last_saved_ >= 0) {
      plan_.push_back({.kind = Kind::kCheckLoss,
                       .micro_batch = stage_.shape.micro_batches - 1,
                       .saved = last_saved_});
    }
    return std::move(plan_);
  }

 private:
  using MicroBatchOfChunk = std::pair<int, int>;

  bool HasPeers() const { return stage_.shape.stages > 1; }
  bool HasLastUnit() const { return last_ + 1 == stage_.units(); }

  void Add(const StepAction& action) {
    const int virtual_stage = stage_.shape.VirtualStage(stage_.stage, action.chunk);
    first_ = stage_.FirstUnit(virtual_stage);
    last_ = stage_.FirstUnit(virtual_stage + 1) - 1;
    now_ = action;
    const MicroBatchOfChunk key = {action.chunk, action.micro_batch};
    if (action.kind == Kind::kForward) sets_[key] = Take();
    // What is received has no set before its forward.
    if (!action.receives()) now_.saved = sets_[key];
    switch (action.kind) {
      case Kind::kReceiveActivation:
      case Kind::kSendGradient:
        Append(action.kind, first_ - 1);
        plan_.back().peer = action.peer;
        break;
      case Kind::kReceiveGradient:
      case Kind::kSendActivation:
        Append(action.kind, last_);
        plan_.back().peer = action.peer;
        break;
      case Kind::kForward:
        AddForward();
        break;
      case Kind::kBackwardWeights:
        AddWeights();
        break;
      default:
        AddBackward();
        break;
    }
    const bool ends = action.kind == (splits_ ? Kind::kBackwardWeights : Kind::kBackward);
    if (ends && traits_.has_rows) Append(Kind::kPushRows);
    // A whole backward is over before the gradient of the virtual stage's input is sent.
    const bool sends_input = !splits_ && HasPeers() && first_ > 0;
    if (sends_input ? action.kind == Kind::kSendGradient : ends) Free(key);
  }

  void Append(Kind kind, int unit = -1) {
    plan_.push_back({.kind = kind,
                     .unit = unit,
                     .micro_batch = now_.micro_batch,
                     .saved = now_.saved,
                     .chunk = now_.chunk});
  }

  // Appends a run of the unit, with its parameters.
  template <typename Run>
  void AppendUnit(Direction direction, int unit, const Run& run) {
    Append(Kind::kAcquire, unit);
    plan_.back().direction = direction;
    run();
    Append(Kind::kRelease, unit);
    plan_.back().direction = direction;
  }

  void AddForward() {
    Append(Kind::kLoad);
    if (traits_.has_rows) {
      Append(Kind::kPrefetchRows);
      Append(Kind::kLookUpRows);
    }
    if (first_ > 0 && HasPeers()) Append(Kind::kAwaitActivation, first_ - 1);
    const int end = HasLastUnit() ? last_ : last_ + 1;
    for (int unit = first_; unit < end; ++unit) {
      AppendUnit(Direction::kForward, unit, [&] { Append(Kind::kForward, unit); });
    }
  }

  // Adds backward without gradients of weights, if that is split, or else as a whole.
  void AddBackward() {
    int unit = last_;
    if (HasLastUnit() || traits_.has_experts) last_saved_ = now_.saved;
    if (HasLastUnit()) {
      AppendUnit(Direction::kBackward, unit, [&] {
        BeginBackward();
        Append(Kind::kLastUnit, unit);
      });
      if (!traits_.on_device) Append(Kind::kCheckLoss);
      AppendReady(unit--);
    } else {
      if (HasPeers()) Append(Kind::kAwaitGradient, unit);
      BeginBackward();
    }
    for (; unit >= first_; --unit) {
      AppendUnit(Direction::kBackward, unit,
                 [&] { Append(splits_ ? Kind::kBackwardInput : Kind::kBackward, unit); });
      if (!splits_) AppendReady(unit);
    }
  }

  void BeginBackward() {
    if (begun_.insert(now_.micro_batch).second) Append(Kind::kBeginBackward);
  }

  void AddWeights() {
    for (int unit = HasLastUnit() ? last_ - 1 : last_; unit >= first_; --unit) {
      Append(Kind::kBackwardWeights, unit);
      AppendReady(unit);
    }
  }

  void AppendReady(int unit) {
    // The strategy would take it for that of the micro-batch whose backward began last.
    const bool overlaps = HasPeers() && (splits_ || stage_.shape.chunks > 1);
    if (!overlaps || Leaves(stage_, traits_, now_.micro_batch)) Append(Kind::kGradientReady, unit);
  }

  int Take() {
    if (free_.empty()) return next_++;
    const int saved = *free_.begin();
    free_.erase(free_.begin());
    return saved;
  }

  void Free(const MicroBatchOfChunk& key) {
    free_.insert(sets_[key]);
    sets_.erase(key);
  }

  const ModelStage stage_;
  const StepTraits traits_;
  // Backward is in two actions.
  const bool splits_;
  std::vector<StepAction> plan_;
  // The virtual stage's action that is added, with its activation stash, and the virtual stage's
  // first and last unit.
  StepAction now_;
  int first_ = 0;
  int last_ = 0;
  std::map<MicroBatchOfChunk, int> sets_;
  // Micro-batches that have begun backward on this stage.
  std::set<int> begun_;
  std::set<int> free_;
  int next_ = 0;
  // The activation stash of the last micro-batch that had results; -1: the stage has none.
  int last_saved_ = -1;
};

}  // namespace

std::vector<StepAction> TrainingStepPlan(const ModelStage& stage, const StepTraits& traits) {
  return StepPlanner(stage, traits).Plan();
}

bool ChecksGradients(const ModelStage& stage, const StepTraits& traits, int micro_batch) {
  return Leaves(stage, traits, micro_batch) && !traits.scaled_loss && !traits.on_device;
}

std::vector<StepAction> EvaluationPlan(const ModelStage& stage, bool has_rows) {
  std::vector<StepAction> plan;
  if (has_rows) {
    plan.push_back({Kind::kPrefetchRows});
    plan.push_back({Kind::kLookUpRows});
  }
  const StageShape& shape = stage.shape;
  const bool has_peers = shape.stages > 1;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const int virtual_stage = shape.VirtualStage(stage.stage, chunk);
    const int first = stage.FirstUnit(virtual_stage);
    const int end = stage.FirstUnit(virtual_stage + 1);
    if (virtual_stage > 0 && has_peers) {
      const int from = (stage.stage + shape.stages - 1) % shape.stages;
      plan.push_back({.kind = Kind::kReceiveActivation, .unit = first - 1, .peer = from});
      plan.push_back({.kind = Kind::kAwaitActivation, .unit = first - 1});
    }
    for (int unit = first; unit < end; ++unit) {
      for (const Kind kind : {Kind::kAcquire, Kind::kForward, Kind::kRelease}) {
        plan.push_back({kind, unit});
      }
    }
    if (virtual_stage + 1 < shape.virtual_stages() && has_peers) {
      const int to = (stage.stage + 1) % shape.stages;
      plan.push_back({.kind = Kind::kSendActivation, .unit = end - 1, .peer = to});
    }
  }
  if (has_peers) plan.push_back({Kind::kFinishMessages});
  return plan;
}

}  // namespace muster
