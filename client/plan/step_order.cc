#include "client/plan/step_order.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/plan/plan_output.h"
#include "client/terminal/format.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/dense_layout.h"
#include "common/partition/local_tensors.h"
#include "common/partition/model_units.h"
#include "common/partition/schema.h"
#include "common/partition/shard_layout.h"
#include "common/partition/stage_holding.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_places.h"
#include "common/plan/ranks/rank_size.h"
#include "common/step/action.h"
#include "common/step/stage_shape.h"
#include "common/step/stage_spec.h"
#include "common/step/step_plan.h"
#include "common/step/unit_range.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"
#include "worker/strategy/group/gradients/bucket_plan.h"

namespace muster {
namespace {

using Kind = ActionKind;

constexpr size_t kMostActions = 1000;

StepTraits TraitsOf(const JobPlan& plan) {
  return {.has_rows = !plan.model.sparse.empty(),
          .on_device = plan.spec.compute().device() == v1::ComputeSpec::CUDA};
}

// The calls that one kind of job starts, action by action.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual std::vector<std::string> BeginStep() { return {}; }
  virtual std::vector<std::string> FetchRows() { return {}; }
  virtual std::vector<std::string> LookRowsUp() { return {}; }
  virtual std::vector<std::string> Acquire(int unit, Direction direction) { return {}; }
  virtual std::vector<std::string> Ready(int unit, bool last_micro_batch) { return {}; }
  // Appends the parts of the step's end.
  virtual void EndStep(std::vector<OrderedAction>& order) = 0;
};

class WithServers final : public Exchange {
 public:
  explicit WithServers(const ModelSize& of_rank) : chunks_(of_rank.chunks) {
    for (const TensorSpec& tensor : of_rank.tensors) {
      if (tensor.stages > 1) tied_[static_cast<int>(tensor.unit)] = tensor.first_stage;
    }
  }

  std::vector<std::string> BeginStep() override {
    std::vector<std::string> pulls;
    for (const UnitRange& units : chunks_) {
      for (int unit = units.first; unit < units.end; ++unit) {
        pulls.push_back(absl::StrCat("pull ", unit));
      }
    }
    return pulls;
  }
  std::vector<std::string> Ready(int unit, bool last_micro_batch) override {
    if (!last_micro_batch) return {};
    std::vector<std::string> starts = {absl::StrCat("push ", unit)};
    if (const auto tied = tied_.find(unit); tied != tied_.end()) {
      starts.insert(starts.begin(), tied->second ? "receive tied sums" : "send tied sums");
    }
    return starts;
  }
  void EndStep(std::vector<OrderedAction>& order) override {
    order.push_back({.action = "wait for the servers"});
  }

 private:
  const std::vector<UnitRange> chunks_;
  // By unit with a tensor that another stage has, too: whether this is the first of the two.
  std::map<int, bool> tied_;
};

// Appends the sums of what two stages of a pipeline have (worker/strategy/group/gradients/
// tied_sums.h), if there is any.
void SumTied(absl::Span<const TensorSpec> tensors, std::vector<OrderedAction>& order) {
  if (std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.stages > 1; })) {
    order.push_back({.action = "sum with the other stage", .starts = {"exchange tied sums"}});
  }
}

class WithReplicas final : public Exchange {
 public:
  WithReplicas(std::vector<GradientBucket> buckets, std::vector<TensorSpec> tensors,
               const v1::JobSpec& spec, bool has_rows)
      : buckets_(std::move(buckets)),
        tensors_(std::move(tensors)),
        workers_(spec.workers()),
        data_ranks_(SizeAlong(kDataAxes, spec)),
        has_rows_(has_rows) {}

  std::vector<std::string> Ready(int unit, bool last_micro_batch) override {
    std::vector<std::string> starts;
    if (!last_micro_batch || data_ranks_ == 1) return starts;
    for (; next_ < buckets_.size() && buckets_[next_].ready_unit >= unit; ++next_) {
      starts.push_back(absl::StrCat("all-reduce bucket ", next_));
    }
    return starts;
  }
  void EndStep(std::vector<OrderedAction>& order) override {
    if (data_ranks_ > 1) order.push_back({.action = "wait for the sums"});
    SumTied(tensors_, order);
    if (data_ranks_ > 1 && has_rows_) {
      order.push_back({.action = "sum rows", .starts = {"gather keys", "gather rows"}});
    }
    if (workers_ > 1) order.push_back({.action = "agree on the step", .starts = {"gather counts"}});
    order.push_back({.action = "step all parameters"});
  }

 private:
  const std::vector<GradientBucket> buckets_;
  const std::vector<TensorSpec> tensors_;
  const uint32_t workers_;
  const uint32_t data_ranks_;
  const bool has_rows_;
  size_t next_ = 0;
};

class WithShards final : public Exchange {
 public:
  WithShards(const v1::JobSpec& spec, const DenseLayout& layout, std::vector<TensorSpec> tensors,
             int units, bool has_rows)
      : tensors_(std::move(tensors)),
        holding_(HoldingOfStage(ZeroStage(spec))),
        replicas_(SizeAlong(kDataAxes, spec) / SizeAlong(Axis::kShard, spec)),
        copies_(spec.parallelism().zero().redundancy() > 0),
        clips_(spec.clipping().by_global_norm() > 0 || spec.clipping().measure_norm()),
        has_rows_(has_rows),
        units_(units),
        shards_(layout, static_cast<int>(SizeAlong(Axis::kShard, spec))),
        places_(shards_, tensors_, *holding_.weights, UnitPlaces::Content::kWeights,
                KeptGatheredBytes(spec)),
        gathers_(places_),
        ready_(ReadyUnits(tensors_)) {}

  std::vector<std::string> BeginStep() override {
    if (!in_flight()) return {};
    return Calls("gather ", gathers_.Acquire(0, /*next=*/-1));
  }
  std::vector<std::string> FetchRows() override {
    if (!has_rows_) return {};
    return {"exchange counts"};
  }
  std::vector<std::string> LookRowsUp() override {
    if (!has_rows_) return {};
    return {"exchange keys", "exchange rows"};
  }
  std::vector<std::string> Acquire(int unit, Direction direction) override {
    if (!in_flight()) return {};
    return Calls("gather ",
                 gathers_.Acquire(unit, direction == Direction::kForward ? unit + 1 : unit - 1));
  }
  std::vector<std::string> Ready(int unit, bool last_micro_batch) override {
    if (holding_.gradients == UnitPlaces::Holding::kWhole && !last_micro_batch) return {};
    std::vector<int> complete;
    for (int owner = static_cast<int>(ready_.size()) - 1; owner >= 0; --owner) {
      if (ready_[owner] == unit) complete.push_back(owner);
    }
    return Calls("scatter ", complete);
  }
  void EndStep(std::vector<OrderedAction>& order) override {
    if (has_rows_) {
      order.push_back({.action = "send rows to their owners",
                       .starts = {"exchange counts", "exchange keys", "exchange rows"}});
    }
    order.push_back({.action = "wait for the sums"});
    if (replicas_ > 1) {
      order.push_back({.action = "sum with other groups", .starts = {"all-reduce slices"}});
      if (has_rows_) {
        order.back().starts.insert(order.back().starts.end(), {"gather keys", "gather rows"});
      }
    }
    SumTied(tensors_, order);
    if (copies_) {
      order.push_back({.action = "send the sums to their copies", .starts = {"move slices"}});
    }
    order.push_back({.action = "agree on the step", .starts = {"gather counts"}});
    if (clips_) order.back().starts.push_back("gather norms");
    order.push_back({.action = "step the own slices"});
    if (!in_flight()) {
      std::vector<int> all;
      for (int unit = 0; unit < units_; ++unit) all.push_back(unit);
      order.push_back({.action = "renew the weights", .starts = Calls("gather ", all)});
    }
    if (copies_) order.push_back({.action = "step the copies"});
  }

 private:
  bool in_flight() const { return holding_.weights == UnitPlaces::Holding::kInFlight; }

  // Units without parameters need no call.
  std::vector<std::string> Calls(const std::string& call, const std::vector<int>& units) const {
    std::vector<std::string> calls;
    for (int unit : units) {
      if (!shards_.unit_parts(unit).empty()) calls.push_back(absl::StrCat(call, unit));
    }
    return calls;
  }

  const std::vector<TensorSpec> tensors_;
  const StageHolding holding_;
  const uint32_t replicas_;
  const bool copies_;
  const bool clips_;
  const bool has_rows_;
  const int units_;
  const ShardLayout shards_;
  const UnitPlaces places_;
  UnitGathers gathers_;
  // For each unit, the last unit in backward order that adds to its gradients.
  const std::vector<int> ready_;
};

absl::StatusOr<std::unique_ptr<Exchange>> ExchangeOf(const JobPlan& plan,
                                                     const ModelDivision& division, int stage) {
  // Otherwise servers' half of a hybrid job has the rows.
  const bool has_rows = !plan.model.sparse.empty() && !IsHybrid(plan.spec);
  ModelSize of_rank = SizeOfRank(plan.spec, plan.model, division, stage);
  if (!TrainsByAllReduce(plan.spec)) return std::make_unique<WithServers>(of_rank);
  std::vector<TensorSpec>& tensors = of_rank.tensors;
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout,
                          DenseLayout::Create(tensors, LayoutOptions(plan.spec.update())));
  if (ZeroStage(plan.spec) > 0) {
    return std::make_unique<WithShards>(plan.spec, layout, std::move(tensors),
                                        plan.model.chunks[0].end, has_rows);
  }
  std::vector<GradientBucket> buckets =
      MakeBucketPlan(layout, tensors, BucketPlanOptionsOf(plan.spec.update()));
  return std::make_unique<WithReplicas>(std::move(buckets), std::move(tensors), plan.spec,
                                        has_rows);
}

// Returns the calls that a transformer's unit makes in its tensor group while it computes.
std::vector<std::string> TensorCalls(const JobPlan& plan, const StepAction& action) {
  if (SizeAlong(Axis::kTensor, plan.spec) == 1 || !plan.model.transformer.has_value()) return {};
  const bool divides = DividesTokens(plan.spec);
  const int last = static_cast<int>(plan.model.transformer->layers) + 1;
  const std::string sum = divides ? "scatter sums" : "sum";
  std::vector<std::string> calls;
  const auto gather = [&](const char* what) {
    if (divides) calls.push_back(absl::StrCat("gather ", what));
  };
  if (action.kind == Kind::kForward && action.unit == 0) return {sum};
  if (action.kind == Kind::kForward && action.unit < last) {
    for (int half = 0; half < 2; ++half) {
      gather("rows");
      calls.push_back(sum);
    }
  } else if (action.kind == Kind::kLastUnit || action.kind == Kind::kForward) {
    gather("rows");
    calls.push_back("gather softmax parts");
    if (action.kind == Kind::kLastUnit) calls.push_back(sum);
  } else if (action.kind == Kind::kBackward && action.unit == 0) {
    gather("gradients");
  } else if (action.kind == Kind::kBackward) {
    for (int half = 0; half < 2; ++half) {
      gather("gradients");
      gather("rows");
      calls.push_back(sum);
    }
  }
  return calls;
}

// Returns the calls as text; of more than three, only the first and the last.
std::string Shown(const std::vector<std::string>& starts) {
  if (starts.size() <= 3) return absl::StrJoin(starts, ", ");
  return absl::StrCat(starts.front(), ", …, ", starts.back());
}

// Returns the name of the unit's largest tensor, without its last part: "embedding", "block0".
std::string UnitName(const ModelSize& model, int unit) {
  const TensorSpec* largest = nullptr;
  for (const TensorSpec& tensor : model.tensors) {
    if (static_cast<int>(tensor.unit) != unit) continue;
    if (largest == nullptr || tensor.elements() > largest->elements()) largest = &tensor;
  }
  return largest == nullptr ? "" : largest->name.substr(0, largest->name.find('.'));
}

// Appends the actions of a stage, of which there are so many micro-batches.
void AppendActions(const JobPlan& plan, const std::vector<StepAction>& actions, int micro_batches,
                   Exchange& exchange, std::vector<OrderedAction>& order) {
  for (const StepAction& action : actions) {
    const bool of_step = action.kind == Kind::kBeginStep || action.kind == Kind::kEndStep;
    order.push_back({.action = std::string(NameOf(action.kind)),
                     .micro_batch = of_step ? -1 : action.micro_batch,
                     .unit = action.unit});
    switch (action.kind) {
      case Kind::kBeginStep:
        order.back().starts = exchange.BeginStep();
        break;
      case Kind::kPrefetchRows:
        order.back().starts = exchange.FetchRows();
        break;
      case Kind::kLookUpRows:
        order.back().starts = exchange.LookRowsUp();
        break;
      case Kind::kAcquire:
        order.back().starts = exchange.Acquire(action.unit, action.direction);
        break;
      case Kind::kGradientReady:
        order.back().starts = exchange.Ready(action.unit, action.micro_batch + 1 == micro_batches);
        break;
      case Kind::kEndStep:
        exchange.EndStep(order);
        break;
      default:
        order.back().starts = TensorCalls(plan, action);
        if (action.transfers()) {
          order.back().starts.push_back(
              absl::StrCat(action.receives() ? "from stage " : "to stage ", action.peer));
        }
        break;
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<OrderedAction>> OrderOfStep(const JobPlan& plan) {
  const StageShape shape = ShapeOfStages(plan.spec);
  if (shape.order == StageOrder::kZeroBubble && SizeAlong(kLayerAxes, plan.spec) > 1) {
    return absl::InvalidArgumentError(
        "the job has several ranks in each layer and splits backward (ZERO_BUBBLE), whose calls "
        "are not shown: take another parallelism.pipeline_schedule, or draw it with --schedule");
  }
  MUSTER_ASSIGN_OR_RETURN(const ModelDivision division, PlannedDivision(plan.spec, plan.model));
  std::vector<std::vector<StepAction>> stages;
  size_t count = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    stages.push_back(
        TrainingStepPlan(StageOf(plan.spec, plan.model, division, stage), TraitsOf(plan)));
    count += stages.back().size();
  }
  if (count > kMostActions) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of this job has ", count, " actions, more than ", kMostActions,
                     "; show the order of a job with fewer layers or micro-batches"));
  }
  std::vector<OrderedAction> order;
  for (int stage = 0; stage < shape.stages; ++stage) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Exchange> exchange,
                            ExchangeOf(plan, division, stage));
    const size_t begin = order.size();
    AppendActions(plan, stages[stage], shape.micro_batches, *exchange, order);
    for (size_t i = begin; shape.stages > 1 && i < order.size(); ++i) order[i].stage = stage;
  }
  return order;
}

std::string OrderText(const JobPlan& plan, const std::vector<OrderedAction>& order) {
  std::string text = absl::StrCat(PlanSummary(plan), "\n");
  for (auto action = order.begin(); action != order.end();) {
    const int stage = action->stage;
    std::vector<std::vector<std::string>> rows = {{"micro-batch", "action", "unit", "starts"}};
    for (; action != order.end() && action->stage == stage; ++action) {
      rows.push_back(
          {action->micro_batch < 0 ? "-" : absl::StrCat(action->micro_batch), action->action,
           action->unit < 0 ? ""
                            : absl::StrCat(action->unit, " ", UnitName(plan.model, action->unit)),
           Shown(action->starts)});
    }
    absl::StrAppend(&text, "\nOne step of each worker",
                    stage < 0 ? "" : absl::StrCat(" of stage ", stage), "\n", FormatTable(rows));
  }
  return text;
}

std::string OrderJson(const std::vector<OrderedAction>& order) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const OrderedAction& action : order) {
    nlohmann::ordered_json one = {{"action", action.action}};
    if (action.stage >= 0) one["stage"] = action.stage;
    if (action.micro_batch >= 0) one["micro_batch"] = action.micro_batch;
    if (action.unit >= 0) one["unit"] = action.unit;
    one["starts"] = action.starts;
    json.push_back(std::move(one));
  }
  return DumpJson(json, 2);
}

}  // namespace muster
