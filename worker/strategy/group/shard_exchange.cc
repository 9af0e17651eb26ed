#include "worker/strategy/group/shard_exchange.h"

#include <cstddef>
#include <functional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/partition/model_units.h"
#include "worker/strategy/blocked_time.h"

namespace muster {

absl::StatusOr<std::unique_ptr<ShardExchange>> ShardExchange::Create(
    RankGroups& groups, ShardPlace& place, const ShardState& state,
    const ShardExchangeOptions& options, const Clock& clock, double& exposed_seconds) {
  std::unique_ptr<ShardExchange> exchange(
      new ShardExchange(groups, place, state, options, clock, exposed_seconds));
  MUSTER_RETURN_IF_ERROR(exchange->MakeTensorRanks());
  MUSTER_RETURN_IF_ERROR(options.holding.gradients.has_value() ? exchange->MakeSlices()
                                                               : exchange->MakeReplica());
  exchange->copies_ = place.MakeCopies(state.tables().tensors, exchange->held_);
  if (groups.tied_group() != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(exchange->tied_sums_,
                            TiedSums::Create(*groups.tied_group(), state.tables().tensors,
                                             options.reducing.timeout, &place.ops()));
  }
  return exchange;
}

ShardExchange::ShardExchange(RankGroups& groups, ShardPlace& place, const ShardState& state,
                             const ShardExchangeOptions& options, const Clock& clock,
                             double& exposed_seconds)
    : groups_(groups),
      place_(place),
      state_(state),
      sharded_{state.layout(), state.shard_layout(), state.tables().tensors},
      trained_{state.trained_layout(), state.trained_shards(), state.tables().tensors},
      options_(options),
      units_(UnitCount(state.tables().tensors)),
      clock_(clock),
      exposed_seconds_(exposed_seconds) {
  options_.reducing.order = &place.ops();
  options_.reducing.wait = [this](Work& work) {
    const BlockedTime blocked(clock_, exposed_seconds_);
    return WaitForever(work);
  };
}

ShardExchange::~ShardExchange() {
  reducer_.reset();
  // This ends the calls of a step that was given up, on all ranks.
  scatterer_.reset();
  if (gatherer_ == nullptr) return;
  gatherer_->Outdate();
  place_.PlaceWeights({});
}

absl::Status ShardExchange::MakeTensorRanks() {
  TensorRanks::Options peers;
  peers.divides_tokens = options_.divides_tokens;
  peers.timeout = options_.reducing.timeout;
  peers.ops = &place_.ops();
  peers.run = [this](Communicator& communicator, const CollectiveCall& call) {
    const BlockedTime blocked(clock_, exposed_seconds_);
    return place_.MakeCall(communicator, call);
  };
  MUSTER_ASSIGN_OR_RETURN(
      tensor_ranks_, TensorRanks::Create(groups_.Others(Axis::kTensor), sharded_.tensors, peers));
  if (Communicator* const sharing = groups_.Others(kContext); sharing != nullptr) {
    context_group_ = std::make_unique<CommunicatorContextGroup>(
        *sharing, options_.reducing.timeout, options_.reducing.wait,
        [this](Communicator& communicator, absl::Span<const CollectiveCall> calls) {
          return place_.StartCalls(communicator, calls);
        });
  }
  if (Communicator* const sharing = groups_.Others(kExpertAxes); sharing != nullptr) {
    expert_group_ = std::make_unique<CommunicatorExpertGroup>(
        *sharing,
        CommunicatorExpertGroup::Options{
            .timeout = options_.reducing.timeout,
            .wait = options_.reducing.wait,
            .start =
                [this](Communicator& communicator, absl::Span<const CollectiveCall> calls) {
                  return place_.StartCalls(communicator, calls);
                },
            .exchange = [this](std::function<void()> work) { place_.Exchange(std::move(work)); },
            .read = [this](const void* from, size_t bytes,
                           void* to) { return place_.Read(from, bytes, to); }});
  }
  Communicator* const counting =
      options_.choices == ChoicesCounted::kTogether ? groups_.Others(kDataAxes) : nullptr;
  if (counting != nullptr) {
    counting_group_ =
        std::make_unique<CommunicatorCountingGroup>(*counting, peers.timeout, peers.run);
  }
  return absl::OkStatus();
}

absl::Status ShardExchange::MakeReplica() {
  const ShardPlace::Replica replica = place_.replica();
  held_ = replica.parameters;
  zeroes_ = !replica.space.empty();
  gradients_.assign(replica.gradients.begin(), replica.gradients.end());
  tensor_sums_ = gradients_;
  if (zeroes_ && groups_.Group(kGradientAxes).size() == 1) return absl::OkStatus();
  GradientReducerOptions reducing = options_.reducing;
  reducing.gradients = replica.space;
  reducing.experts = groups_.Others(kExpertCopyAxes);
  const uint64_t elements = zeroes_ ? replica.space.size() : trained_.layout.elements();
  MUSTER_ASSIGN_OR_RETURN(reducer_, GradientReducer::Create(groups_.Group(kGradientAxes),
                                                            options_.plan, elements, reducing));
  if (zeroes_) return absl::OkStatus();
  gradients_ = TensorSpans(trained_.layout, trained_.tensors, reducer_->gradients());
  sums_ = state_.PartSlices(reducer_->gradients());
  tensor_sums_ = state_.TensorSlices(sums_);
  return absl::OkStatus();
}

absl::Status ShardExchange::MakeSlices() {
  const GradientReducerOptions& reducing = options_.reducing;
  MUSTER_ASSIGN_OR_RETURN(
      gatherer_, WeightGatherer::Create(groups_.Group(kShardAxes), sharded_,
                                        {.holding = *options_.holding.weights,
                                         .kept_bytes = options_.kept_bytes,
                                         .timeout = reducing.timeout,
                                         .wait = reducing.wait,
                                         .ops = &place_.ops(),
                                         .expert_shards = groups_.Others(kExpertShardAxes)}));
  // This comes before gradients are allocated, because the state gives its own memory back.
  PlaceWeights();
  MUSTER_ASSIGN_OR_RETURN(
      scatterer_, GradientScatterer::Create(groups_.Group(kShardAxes), trained_,
                                            {.holding = *options_.holding.gradients,
                                             .wire = reducing.wire,
                                             .deterministic = reducing.deterministic,
                                             .timeout = reducing.timeout,
                                             .wait = reducing.wait,
                                             .replicas = groups_.Others(kCopyAxes),
                                             .expert_shards = groups_.Others(kExpertShardAxes),
                                             .expert_replicas = groups_.Others(kExpertCopyAxes),
                                             .ops = &place_.ops(),
                                             .sums = place_.sums()}));
  sums_.assign(scatterer_->sums().begin(), scatterer_->sums().end());
  tensor_sums_ = state_.TensorSlices(sums_);
  held_ = gatherer_->parameters();
  return absl::OkStatus();
}

void ShardExchange::PlaceWeights() {
  const absl::Span<const ShardLayout::Part> parts = sharded_.shards.parts();
  std::vector<float*> places(parts.size());
  for (size_t part = 0; whole() && part < parts.size(); ++part) {
    if (parts[part].compute != DType::kF32) continue;
    places[part] = gatherer_->own_slice(static_cast<int>(part)).data();
  }
  place_.PlaceWeights(places);
}

absl::Status ShardExchange::BeginStep(CollectiveTraffic& counted) {
  if (copies_ != nullptr) copies_->Outdate();
  micro_batches_ = 0;
  if (in_flight()) {
    gatherer_->Outdate();
    counted = groups_.traffic(kGradientAxes);
    gatherer_->Start(0, place_.slices());
  }
  if (zeroes_ && std::exchange(written_, false)) place_.ZeroGradients();
  return place_.status();
}

absl::Status ShardExchange::Acquire(int unit, Direction direction) {
  if (gatherer_ != nullptr) {
    MUSTER_RETURN_IF_ERROR(gatherer_->Acquire(unit, direction, place_.slices()));
    if (direction == Direction::kBackward) MUSTER_RETURN_IF_ERROR(scatterer_->BeforeWrite(unit));
  }
  if (copies_ != nullptr) copies_->Refresh(unit);
  return place_.status();
}

void ShardExchange::BeforeBackward(SeriesPosition position) {
  ++micro_batches_;
  position_ = position;
  written_ = true;
  if (scatterer_ != nullptr) scatterer_->BeginMicroBatch(position);
}

Accumulation ShardExchange::GradientStore() const {
  if (scatterer_ != nullptr) return scatterer_->GradientStore();
  return micro_batches_ == 1 && !zeroes_ ? Accumulation::kWrite : Accumulation::kAdd;
}

absl::Status ShardExchange::GradientReady(int unit) {
  const bool leaves = options_.holding.gradients == UnitPlaces::Holding::kInFlight ||
                      position_ == SeriesPosition::kLast;
  if (tensor_ranks_ != nullptr && leaves) {
    MUSTER_RETURN_IF_ERROR(tensor_ranks_->Sum(unit, gradients()));
    MUSTER_RETURN_IF_ERROR(place_.status());
  }
  if (scatterer_ != nullptr) {
    scatterer_->UnitReady(unit);
  } else if (reducer_ != nullptr && position_ == SeriesPosition::kLast) {
    reducer_->UnitReady(unit);
  }
  return absl::OkStatus();
}

absl::Status ShardExchange::Finish() {
  if (scatterer_ != nullptr) MUSTER_RETURN_IF_ERROR(scatterer_->Finish());
  if (reducer_ != nullptr) MUSTER_RETURN_IF_ERROR(reducer_->Finish());
  if (tied_sums_ == nullptr) return absl::OkStatus();
  const BlockedTime blocked(clock_, exposed_seconds_);
  return tied_sums_->SumOnBoth(tensor_sums_);
}

ShardPlace::Check ShardExchange::sums_seen() const {
  // The engine checks the gradients of the last micro-batch, which hold the sums over all
  // micro-batches only if gradients are whole.
  const bool unseen =
      options_.holding.gradients == UnitPlaces::Holding::kInFlight && micro_batches_ > 1;
  return unseen ? ShardPlace::Check::kUnseen : ShardPlace::Check::kSeen;
}

void ShardExchange::Outdate() {
  if (gatherer_ != nullptr) gatherer_->Outdate();
}

void ShardExchange::GatherAll() {
  for (int unit = 0; whole() && unit < units_; ++unit) gatherer_->Start(unit, place_.slices());
}

absl::Status ShardExchange::AwaitAll() {
  for (int unit = 0; whole() && unit < units_; ++unit) {
    MUSTER_RETURN_IF_ERROR(gatherer_->Await(unit));
  }
  return absl::OkStatus();
}

absl::Status ShardExchange::GatherSome() {
  // Two units of these share places, and the first one's may be its own.
  int left = 3;
  for (int unit = 0; in_flight() && unit < units_ && left > 0; ++unit) {
    // A stage of a pipeline has nothing of the units before its own.
    if (sharded_.shards.unit_parts(unit).empty()) continue;
    --left;
    gatherer_->Start(unit, place_.slices());
    MUSTER_RETURN_IF_ERROR(gatherer_->Await(unit));
  }
  return AwaitAll();
}

}  // namespace muster
