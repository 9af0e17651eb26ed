// One step of a rank, from its plan and the layouts in RankCalls.
#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/model_units.h"
#include "common/partition/pulled_types.h"
#include "common/partition/schema.h"
#include "common/partition/unit_gathers.h"
#include "common/partition/unit_pulls.h"
#include "common/partition/wire_dtype.h"
#include "common/plan/calls/job_calls.h"
#include "common/plan/device/device_memory_layout.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/ranks/rank_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_spec.h"

namespace muster {
namespace {

using Kind = ActionKind;

// Numbers that a rank tells of a step (worker/strategy/group/exchange/step_agreement.h).
constexpr uint64_t kAgreedNumbers = 2;

}  // namespace

// Records one step.
class StepRecorder {
 public:
  StepRecorder(const RankCalls& rank, const StepToRecord& step)
      : rank_(rank),
        job_(rank.job_),
        spec_(rank.job_.spec()),
        step_(step),
        stage_(rank.stage_),
        micro_batches_(static_cast<int>(step.examples.size())),
        layers_(rank.job_.spec(), rank.job_.mesh(), rank.stage_.units(), rank.layers_,
                recorded_.calls),
        pulls_(rank.pulled_bytes_, step.pull_window_bytes),
        came_(rank.units_) {
    stage_.shape.micro_batches = micro_batches_;
    if (rank.places_.has_value()) gathers_.emplace(*rank.places_);
  }

  RecordedStep Record() {
    const StepTraits traits = TraitsOfJob(spec_, job_.has_rows(), job_.on_device());
    const std::vector<StepAction> actions = TrainingStepPlan(stage_, traits);
    recorded_.actions.reserve(actions.size());
    for (const StepAction& action : actions) {
      Begin(action);
      Add(action);
    }
    End();
    return std::move(recorded_);
  }

 private:
  void Begin(const StepAction& action, absl::string_view part = "") {
    End();
    recorded_.actions.push_back(
        {.action = action, .part = part, .begin = recorded_.calls.size(), .end = 0});
  }
  // Begins a part of the step's end.
  void Part(absl::string_view part) { Begin(StepAction(recorded_.actions.back().action), part); }
  void End() {
    if (!recorded_.actions.empty()) recorded_.actions.back().end = recorded_.calls.size();
  }
  StepCall& Call(StepCall call) { return recorded_.calls.emplace_back(call); }
  // Adds a call whose size depends on the data.
  void RowCall(absl::string_view name, Axes among) { Call({.name = name, .among = among}); }

  bool in_flight() const {
    return job_.served() ? gathers_.has_value()
                         : rank_.holding_.weights == UnitPlaces::Holding::kInFlight;
  }
  bool divides() const { return rank_.holding_.gradients.has_value(); }
  int size(Axes axes) const { return job_.mesh().size(axes); }
  bool exchanges_rows() const { return job_.holds_rows() && divides(); }

  void Add(const StepAction& action) {
    switch (action.kind) {
      case Kind::kBeginStep:
        BeginStep();
        break;
      case Kind::kPrefetchRows:
        if (exchanges_rows()) RowCall("exchange counts", kShardAxes);
        break;
      case Kind::kLookUpRows:
        if (!exchanges_rows()) break;
        RowCall("exchange keys", kShardAxes);
        RowCall("exchange rows", kShardAxes);
        break;
      case Kind::kAcquire:
        Acquire(action.unit, action.direction);
        break;
      case Kind::kGradientReady:
        job_.served() ? Push(action) : Sum(action);
        break;
      case Kind::kEndStep:
        job_.served() ? Part("wait for the servers") : EndStep();
        break;
      default:
        if (action.transfers()) AddMessage(action);
        layers_.Add(action, step_.examples);
        break;
    }
  }

  // Weights: those that are gathered or pulled.
  void BeginStep() {
    if (in_flight()) {
      if (gathers_->Take(0)) AddWeights(0);
    } else if (job_.served()) {
      PullBefore(pulls_.Begin());
    }
  }
  void Acquire(int unit, Direction direction) {
    if (job_.served() && unit >= rank_.units_) return;
    if (in_flight()) {
      int next = direction == Direction::kForward ? unit + 1 : unit - 1;
      if (job_.served() && next >= rank_.units_) next = -1;
      for (const int gathered : gathers_->Acquire(unit, next)) AddWeights(gathered);
    } else if (job_.served()) {
      PullBefore(pulls_.Acquire(unit));
      for (const int tied : rank_.tied_units_[unit]) Await(tied);
      Await(unit);
    }
  }
  void Await(int unit) {
    if (came_[unit]) return;
    came_[unit] = true;
    pulls_.Came(unit);
  }
  void PullBefore(int end) {
    while (next_pull_ < end) AddWeights(next_pull_++);
  }
  void AddWeights(int unit) {
    if (job_.served()) {
      AddRequest("pull", unit, Collective::kReceive, DType::kUint8, rank_.pulled_bytes_[unit]);
      return;
    }
    bool continues = false;
    for (const int index : rank_.shards_.unit_parts(unit)) {
      const ShardLayout::Part& part = rank_.shards_.parts()[index];
      if (part.slices == 1 || (part.frozen && !in_flight())) continue;
      const Axes among = part.experts ? kExpertShardAxes : kShardAxes;
      Call({.name = "gather",
            .index = unit,
            .continues = std::exchange(continues, true),
            .among = among,
            .ranks = size(among),
            .dtype = part.compute,
            .count = part.slice});
    }
  }
  void AddRequest(absl::string_view name, int unit, Collective kind, DType dtype, uint64_t count) {
    if (count > 0) {
      Call({.name = name, .index = unit, .kind = kind, .dtype = dtype, .count = count});
    }
  }

  // Gradients: those that are pushed, all-reduced or scattered.
  bool IsLast(const StepAction& action) const { return action.micro_batch + 1 == micro_batches_; }
  void AddShared(int unit) {
    if (unit >= static_cast<int>(rank_.shared_.size())) return;
    for (const SharedSum& sum : rank_.shared_[unit]) {
      Call({.name = "sum shared gradients",
            .among = Axis::kTensor,
            .ranks = sum.ranks,
            .kind = Collective::kAllReduce,
            .count = sum.count});
    }
  }
  void AddTied(int unit) {
    for (const int index : rank_.tied_) {
      const TensorSpec& tensor = rank_.tensors_[index];
      if (static_cast<int>(tensor.unit) != unit) continue;
      Call({.name = tensor.first_stage ? "receive tied sums" : "send tied sums",
            .among = Axis::kPipeline,
            .ranks = 2,
            .kind = tensor.first_stage ? Collective::kReceive : Collective::kSend,
            .count = static_cast<uint64_t>(tensor.elements())});
    }
  }
  void AddPush(int unit) {
    AddRequest("push", unit, Collective::kSend, rank_.wire_, rank_.pushed_elements_[unit]);
  }
  void Push(const StepAction& action) {
    if (action.unit >= rank_.units_ || (!IsLast(action) && !in_flight())) return;
    if (spec_.compute().type() != v1::ComputeSpec::F16 || in_flight()) {
      for (const int unit : rank_.complete_[action.unit]) {
        AddShared(unit);
        AddTied(unit);
        AddPush(unit);
      }
      return;
    }
    // No scaled gradient is pushed before all were found finite.
    if (action.unit > stage_.FirstUnit(stage_.stage)) return;
    for (int unit = rank_.units_ - 1; unit >= 0; --unit) AddShared(unit);
    for (int unit = rank_.units_ - 1; unit >= 0; --unit) AddTied(unit);
    for (int unit = rank_.units_ - 1; unit >= 0; --unit) AddPush(unit);
  }
  void Sum(const StepAction& action) {
    const bool leaves = rank_.holding_.gradients == UnitPlaces::Holding::kInFlight;
    if (!leaves && !IsLast(action)) return;
    AddShared(action.unit);
    if (!divides()) {
      ReduceThrough(action.unit);
    } else if (action.unit < rank_.units_) {
      for (const int unit : rank_.complete_[action.unit]) {
        bool continues = false;
        AddSlices("scatter", unit, unit, {kShardAxes, kExpertShardAxes}, Collective::kReduceScatter,
                  continues);
      }
    }
  }
  void ReduceThrough(int unit) {
    const std::vector<GradientBucket>& buckets = rank_.buckets_;
    if (size(kGradientAxes) == 1) return;
    for (; next_bucket_ < buckets.size() && buckets[next_bucket_].ready_unit >= unit;
         ++next_bucket_) {
      const Axes among = buckets[next_bucket_].experts ? kExpertCopyAxes : kGradientAxes;
      if (size(among) == 1) continue;
      Call({.name = "all-reduce bucket",
            .index = static_cast<int>(next_bucket_),
            .among = among,
            .ranks = size(among),
            .kind = Collective::kAllReduce,
            .dtype = rank_.wire_,
            .count = buckets[next_bucket_].elements(),
            .deterministic = SumsInRankOrder(spec_)});
    }
  }
  // The axes along which parts of experts are moved, and the others.
  struct Among {
    Axes others;
    Axes experts;
  };
  void AddSlices(absl::string_view name, int index, int unit, const Among& groups, Collective kind,
                 bool& continues) {
    for (const int part : rank_.shards_.unit_parts(unit)) {
      const Axes among = rank_.shards_.parts()[part].experts ? groups.experts : groups.others;
      if (size(among) == 1 || rank_.shards_.parts()[part].frozen) continue;
      Call({.name = name,
            .index = index,
            .continues = std::exchange(continues, true),
            .among = among,
            .ranks = size(among),
            .kind = kind,
            .dtype = rank_.wire_,
            .count = rank_.shards_.parts()[part].slice,
            .deterministic = SumsInRankOrder(spec_)});
    }
  }

  // The parts of a step's end by all-reduce.
  void EndStep() {
    const bool rows = job_.holds_rows();
    if (exchanges_rows()) {
      Part("send rows to their owners");
      for (const char* name : {"exchange counts", "exchange keys", "exchange rows"}) {
        RowCall(name, kShardAxes);
      }
    }
    const bool replicas = divides() && size(kCopyAxes) > 1;
    if (size(kGradientAxes) > 1) {
      Part("wait for the sums");
      if (!divides()) ReduceThrough(0);
    }
    if (replicas) {
      Part("sum with other groups");
      bool continues = false;
      for (int ready = rank_.units_ - 1; ready >= 0; --ready) {
        for (const int unit : rank_.complete_[ready]) {
          AddSlices("all-reduce slices", -1, unit, {kCopyAxes, kExpertCopyAxes},
                    Collective::kAllReduce, continues);
        }
      }
    }
    if (!rank_.tied_.empty()) {
      Part("sum with the other stage");
      AddTiedSums();
    }
    if (rows && (divides() ? replicas : size(kGradientAxes) > 1)) {
      Part("sum rows");
      for (const char* name : {"gather keys", "gather rows"}) RowCall(name, kGradientAxes);
    }
    const bool copies = divides() && spec_.parallelism().zero().redundancy() > 0;
    if (copies) {
      Part("send the sums to their copies");
      AddSlicesForCopies();
    }
    Agree();
    if (job_.divides_matrices()) {
      BringMatricesTogether();
      if (copies) AddSlicesForCopies();
      Call({.name = "wait for matrices",
            .among = Axes().Others(),
            .ranks = size(Axes().Others()),
            .kind = Collective::kBarrier});
    }
    Part(divides() ? "step the own slices" : "step all parameters");
    if (rank_.holding_.weights == UnitPlaces::Holding::kWhole) {
      Part("renew the weights");
      for (int unit = 0; unit < rank_.units_; ++unit) AddWeights(unit);
    }
    if (copies) Part("step the copies");
  }
  void AddSlicesForCopies() {
    for (const Collective kind : {Collective::kSend, Collective::kReceive}) {
      Call({.name = "move slices",
            .continues = kind == Collective::kReceive,
            .among = kShardAxes,
            .ranks = size(kShardAxes),
            .kind = kind,
            .count = rank_.trained_slice_elements_});
    }
  }
  void Agree() {
    const Axes all = Axes().Others();
    if (size(all) == 1) return;
    Part("agree on the step");
    Call({.name = "gather counts",
          .among = all,
          .ranks = size(all),
          .dtype = DType::kInt64,
          .count = kAgreedNumbers});
    const bool clips = spec_.clipping().by_global_norm() > 0 || spec_.clipping().measure_norm();
    if (clips && size(kStateAxes) > 1) Call({.name = "gather norms", .among = all});
  }
  void BringMatricesTogether() {
    Part("bring matrices together");
    const Axes among = size(kShardAxes) == 1      ? Axes(Axis::kTensor)
                       : size(Axis::kTensor) == 1 ? kShardAxes
                                                  : kMatrixAxes;
    if (!step_.shard.has_value()) {
      const MatrixDivision::Moved moved = rank_.matrices_->moved();
      for (const uint64_t elements : {moved.to_owners, moved.back}) {
        for (const Collective kind : {Collective::kSend, Collective::kReceive}) {
          AddDirections(among, kind, elements).divided = rank_.matrices_->ranks();
        }
      }
    } else {
      const MeshPosition position(job_.mesh(), SlotOfRank());
      for (const MatrixRound& round : rank_.matrices_->RoundsOf(position.at(kMatrixAxes))) {
        AddDirections(among, round, position.at(kMatrixAxes));
      }
    }
  }
  // Returns a rank of this kind that has the shard.
  int SlotOfRank() const {
    const int first = job_.mesh().Move(0, kModelAxes, rank_.rank_);
    return job_.mesh().Move(first, kHolderAxes, *step_.shard);
  }
  StepCall& AddDirections(Axes among, Collective kind, uint64_t elements) {
    return Call({.name = kind == Collective::kSend ? "send directions" : "receive directions",
                 .among = among,
                 .ranks = size(among),
                 .kind = kind,
                 .count = elements});
  }
  void AddDirections(Axes among, const MatrixRound& round, int rank) {
    for (const bool to_owners : {true, false}) {
      for (const MatrixPeer& peer : round.peers) {
        if (peer.rank == rank) continue;
        const uint64_t sent = to_owners ? ElementsOf(peer.sent) : ElementsOf(peer.given);
        const uint64_t received = to_owners ? ElementsOf(peer.taken) : ElementsOf(peer.returned);
        if (sent > 0) AddDirections(among, Collective::kSend, sent);
        if (received > 0) AddDirections(among, Collective::kReceive, received);
      }
    }
  }
  void AddTiedSums() {
    const int shards = rank_.shards_.holders().count();
    std::vector<uint64_t> elements(rank_.tensors_.size());
    for (const int index : rank_.tied_) elements[index] = rank_.tensors_[index].elements();
    if (shards > 1 && step_.shard.has_value()) {
      std::fill(elements.begin(), elements.end(), 0);
      for (const auto& owned : rank_.shards_.OwnedBlocks(rank_.layout_, *step_.shard)) {
        for (const DenseLayout::Piece& piece : owned.block.pieces) {
          elements[piece.tensor] += piece.end - piece.begin;
        }
      }
    }
    for (const int index : rank_.tied_) {
      // Both stages have the same slice, which may be padding alone.
      if (elements[index] == 0) continue;
      Call({.name = "exchange tied sums",
            .among = Axis::kPipeline,
            .ranks = 2,
            .kind = Collective::kAllReduce,
            .count = elements[index],
            .divided = step_.shard.has_value() ? 1 : shards});
    }
  }

  void AddMessage(const StepAction& action) {
    const uint64_t examples = step_.examples[action.micro_batch];
    const int ranks = size(kLayerAxes);
    StepCall call = {.name = action.receives() ? "from stage" : "to stage",
                     .index = action.peer,
                     .among = Axis::kPipeline,
                     .ranks = 2,
                     .kind = action.receives() ? Collective::kReceive : Collective::kSend,
                     .dtype = DType::kUint8};
    if (step_.shard.has_value()) {
      const int position = job_.kinds().Position(rank_.rank_, kLayerAxes);
      call.count = job_.MessageBytes(action.unit, examples, position);
    } else {
      for (int position = 0; position < ranks; ++position) {
        call.count += job_.MessageBytes(action.unit, examples, position);
      }
      call.divided = ranks;
    }
    Call(call);
  }

  const RankCalls& rank_;
  const JobCalls& job_;
  const v1::JobSpec& spec_;
  const StepToRecord& step_;
  ModelStage stage_;
  const int micro_batches_;
  RecordedStep recorded_;
  LayerCalls layers_;
  absl::optional<UnitGathers> gathers_;
  UnitPulls pulls_;
  // Units whose pulls were waited for, and the first that was not asked for.
  std::vector<bool> came_;
  int next_pull_ = 0;
  size_t next_bucket_ = 0;
};

RecordedStep RankCalls::Record(const StepToRecord& step) const {
  return StepRecorder(*this, step).Record();
}

}  // namespace muster
