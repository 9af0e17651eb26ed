#include "worker/runtime/training/stage_plan.h"

#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "common/pipeline/pipeline_schedule.h"
#include "common/pipeline/pipeline_spec.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

using Kind = StepAction::Kind;
using PassKind = PipelineAction::Kind;

// Writes a stage's list as a plan of its units.
class StagePlanner {
 public:
  StagePlanner(const StepShape& shape, const PipelineStage& stage) : shape_(shape), stage_(stage) {
    stage_.shape.micro_batches = shape.micro_batches;
  }

  std::vector<StepAction> Plan() {
    plan_.push_back({Kind::kBeginStep});
    const std::vector<std::vector<PipelineAction>> schedule = PipelineSchedule(stage_.shape);
    for (const PipelineAction& action : schedule[stage_.stage]) Add(action);
    plan_.push_back({Kind::kEndStep});
    if (shape_.on_device && last_saved_ >= 0) {
      micro_batch_ = shape_.micro_batches - 1;
      Append(Kind::kCheckLoss, -1, last_saved_);
    }
    return std::move(plan_);
  }

 private:
  void Add(const PipelineAction& action) {
    const int group = stage_.shape.Group(stage_.stage, action.chunk);
    first_ = stage_.FirstUnit(group);
    last_ = stage_.FirstUnit(group + 1) - 1;
    chunk_ = action.chunk;
    micro_batch_ = action.micro_batch;
    const std::pair<int, int> key = {action.chunk, action.micro_batch};
    switch (action.kind) {
      case PassKind::kReceiveActivation:
        plan_.push_back({.kind = Kind::kReceiveOutput,
                         .unit = first_ - 1,
                         .micro_batch = micro_batch_,
                         .peer = action.peer});
        return;
      case PassKind::kReceiveGradient:
        plan_.push_back({.kind = Kind::kReceiveOutputGradient,
                         .unit = last_,
                         .micro_batch = micro_batch_,
                         .peer = action.peer});
        return;
      case PassKind::kSendActivation:
        Append(Kind::kSendOutput, last_, sets_[key], action.peer);
        return;
      case PassKind::kSendGradient:
        Append(Kind::kSendOutputGradient, first_ - 1, sets_[key], action.peer);
        if (done_.erase(key) > 0) Free(key);
        return;
      case PassKind::kForward:
        sets_[key] = Take();
        AddForward(sets_[key]);
        return;
      case PassKind::kBackward:
        AddBackward(sets_[key]);
        break;
      case PassKind::kBackwardInput:
        AddBackward(sets_[key]);
        return;
      case PassKind::kBackwardWeights:
        AddWeights(sets_[key]);
        Free(key);
        return;
    }
    // The gradient of the group's input is still to be sent.
    if (first_ > 0 && stage_.shape.stages > 1) {
      done_.insert(key);
    } else {
      Free(key);
    }
  }

  void Append(Kind kind, int unit, int saved, int peer = -1) {
    plan_.push_back(
        {.kind = kind, .unit = unit, .micro_batch = micro_batch_, .saved = saved, .peer = peer});
  }

  void AppendUnit(Kind run, int unit, int saved) {
    const Direction direction = run == Kind::kForward ? Direction::kForward : Direction::kBackward;
    Append(Kind::kAcquire, unit, saved);
    plan_.back().direction = direction;
    Append(run, unit, saved);
    Append(Kind::kRelease, unit, saved);
    plan_.back().direction = direction;
  }

  bool HasLastUnit() const { return last_ + 1 == shape_.units; }
  bool Travels() const { return stage_.shape.stages > 1; }

  void AddForward(int saved) {
    Append(Kind::kLoad, -1, saved);
    plan_.back().chunk = chunk_;
    if (first_ > 0 && Travels()) Append(Kind::kAwaitOutput, first_ - 1, saved);
    const int end = HasLastUnit() ? last_ : last_ + 1;
    for (int unit = first_; unit < end; ++unit) AppendUnit(Kind::kForward, unit, saved);
  }

  // Adds backward without gradients of weights, if that is split, or else as a whole.
  void AddBackward(int saved) {
    int unit = last_;
    if (HasLastUnit()) {
      Append(Kind::kAcquire, unit, saved);
      plan_.back().direction = Direction::kBackward;
      BeginBackward(saved);
      Append(Kind::kLastUnit, unit, saved);
      Append(Kind::kRelease, unit, saved);
      plan_.back().direction = Direction::kBackward;
      if (!shape_.on_device) Append(Kind::kCheckLoss, -1, saved);
      last_saved_ = saved;
      AppendReady(unit--, saved);
    } else {
      if (Travels()) Append(Kind::kAwaitOutputGradient, unit, saved);
      BeginBackward(saved);
    }
    for (; unit >= first_; --unit) {
      AppendUnit(shape_.split_backward ? Kind::kBackwardInput : Kind::kBackward, unit, saved);
      if (!shape_.split_backward) AppendReady(unit, saved);
    }
  }

  void BeginBackward(int saved) {
    if (begun_.insert(micro_batch_).second) Append(Kind::kBeginBackward, -1, saved);
  }

  void AddWeights(int saved) {
    for (int unit = HasLastUnit() ? last_ - 1 : last_; unit >= first_; --unit) {
      Append(Kind::kBackwardWeights, unit, saved);
      AppendReady(unit, saved);
    }
  }

  void AppendReady(int unit, int saved) {
    const bool leaves = shape_.sends_micro_batches || micro_batch_ + 1 == shape_.micro_batches;
    // The strategy would take it for that of the micro-batch whose backward began last.
    const bool overlaps = shape_.split_backward || stage_.shape.chunks > 1;
    if (overlaps && !leaves) return;
    const bool checks = leaves && !shape_.scaled_loss && !shape_.on_device;
    Append(checks ? Kind::kSendGradients : Kind::kGradientReady, unit, saved);
  }

  int Take() {
    if (free_.empty()) return next_++;
    const int saved = *free_.begin();
    free_.erase(free_.begin());
    return saved;
  }

  void Free(const std::pair<int, int>& key) {
    free_.insert(sets_[key]);
    sets_.erase(key);
  }

  const StepShape shape_;
  PipelineStage stage_;
  std::vector<StepAction> plan_;
  // Of the action that is added.
  int first_ = 0;
  int last_ = 0;
  int chunk_ = 0;
  int micro_batch_ = 0;
  // The saved set of each chunk and micro-batch, and those whose backward is done.
  std::map<std::pair<int, int>, int> sets_;
  std::set<std::pair<int, int>> done_;
  // Micro-batches that have begun backward on this stage.
  std::set<int> begun_;
  std::set<int> free_;
  int next_ = 0;
  // The saved set of the last micro-batch that had its loss; -1: the stage has no loss.
  int last_saved_ = -1;
};

}  // namespace

absl::optional<PipelineStage> StageOfJob(const v1::JobSpec& spec, const v1::TablesSchema& schema,
                                         int stage) {
  const PipelineShape shape = ShapeOfPipeline(spec);
  if (shape.stages == 1) return absl::nullopt;
  const auto& layers = schema.pipeline_layers();
  return PipelineStage{
      .shape = shape, .stage = stage, .sizes = std::vector<int>(layers.begin(), layers.end())};
}

int PipelineStage::FirstUnit(int group) const {
  return std::accumulate(sizes.begin(), sizes.begin() + group, 0);
}

UnitRange PipelineStage::UnitsOf(int first_chunk, int last_chunk) const {
  return {.first = FirstUnit(shape.Group(stage, first_chunk)),
          .end = FirstUnit(shape.Group(stage, last_chunk) + 1)};
}

std::vector<StepAction> StageStepPlan(const StepShape& shape, const PipelineStage& stage) {
  return StagePlanner(shape, stage).Plan();
}

std::vector<StepAction> StageEvaluationPlan(const PipelineStage& stage) {
  std::vector<StepAction> plan;
  const PipelineShape& shape = stage.shape;
  const bool travels = shape.stages > 1;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    const int group = shape.Group(stage.stage, chunk);
    const int first = stage.FirstUnit(group);
    const int end = stage.FirstUnit(group + 1);
    if (group > 0 && travels) {
      const int from = (stage.stage + shape.stages - 1) % shape.stages;
      plan.push_back({.kind = Kind::kReceiveOutput, .unit = first - 1, .peer = from});
      plan.push_back({.kind = Kind::kAwaitOutput, .unit = first - 1});
    }
    for (int unit = first; unit < end; ++unit) {
      plan.push_back({Kind::kAcquire, unit});
      plan.push_back({Kind::kForward, unit});
      plan.push_back({Kind::kRelease, unit});
    }
    if (group + 1 < shape.groups() && travels) {
      const int to = (stage.stage + 1) % shape.stages;
      plan.push_back({.kind = Kind::kSendOutput, .unit = end - 1, .peer = to});
    }
  }
  return plan;
}

}  // namespace muster
