#include "worker/strategy/group/sharded_strategy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/model_units.h"
#include "common/partition/schema.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/nn/diverged_error.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/global_norm.h"

namespace muster {
namespace {

bool IsHybrid(const v1::TaskOrder& order, const v1::TablesSchema& schema) {
  return schema.sparse_size() > 0 &&
         order.spec().update().sparse() == v1::UpdateSpec::PARAMETER_SERVER;
}

GradientReducerOptions Reducing(const v1::JobSpec& spec, absl::Duration timeout) {
  GradientReducerOptions reducing;
  reducing.wire = spec.update().wire() == v1::UpdateSpec::BF16 ? DType::kBf16 : DType::kF32;
  reducing.deterministic = SumsInRankOrder(spec);
  reducing.timeout = timeout;
  return reducing;
}

// Returns the first tensor of which a gradient is not finite; null if there is none.
const TensorSpec* FirstNotFinite(absl::Span<const TensorSpec> tensors, GradientSpans gradients) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!AllFinite(gradients[i].size(), gradients[i].data())) return &tensors[i];
  }
  return nullptr;
}

// Returns a fingerprint of the plan of the first tensor rank, from which those of the others
// follow.
uint64_t PlanFingerprint(const v1::JobSpec& spec, const v1::TablesSchema& schema,
                         const MeshPosition& shard) {
  // The rank's own state has been made of the schema.
  const Tables tables = LocalTables(schema, shard.Of(0)).value();
  const DenseLayout layout = LayoutOfTensors(schema, tables.tensors).value();
  if (ZeroStage(spec) == 0) {
    return BucketPlanFingerprint(
        MakeBucketPlan(layout, tables.tensors, BucketPlanOptionsOf(spec.update())));
  }
  return ShardFingerprint(ZeroStage(spec), KeptGatheredBytes(spec),
                          ShardLayout(layout, shard.size(Axis::kShard)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardedStrategy>> ShardedStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, const ShardedOptions& options,
    ShardedDependencies dependencies) {
  const bool hybrid = IsHybrid(order, schema);
  v1::TablesSchema held_here = schema;
  if (hybrid) held_here.clear_sparse();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<KeptShard> kept,
                          KeptShard::Create(order, held_here,
                                            {.storage = dependencies.storage,
                                             .shard = ShardOf(order),
                                             .offload_folder = dependencies.offload_folder,
                                             .log = dependencies.log}));
  std::unique_ptr<ShardedStrategy> strategy(
      new ShardedStrategy(order, held_here, options, dependencies, std::move(kept)));
  if (!hybrid) return strategy;

  v1::TablesSchema on_servers = schema;
  on_servers.clear_tensors();
  ParameterServerStrategy::Options servers = options.servers;
  servers.clipping =
      [self = strategy.get(), tables = schema.sparse_size(),
       max_norm = schema.clipping().by_global_norm()](
          absl::Span<const std::vector<double>> rows_norms) -> absl::StatusOr<NormClipping> {
    if (self->closing_ == nullptr) {
      return absl::AbortedError(
          "servers wait for the norm of a step that this worker has not taken; the job must return "
          "to a cut");
    }
    std::vector<std::vector<double>> norms = self->own().SquaredNorms(*self->closing_);
    for (size_t p = 0; p < norms.size(); ++p) {
      norms[p].insert(norms[p].end(), rows_norms[p].begin(), rows_norms[p].end());
    }
    return ClipByNorm(self->own().layout(), tables, norms, max_norm);
  };
  MUSTER_ASSIGN_OR_RETURN(strategy->servers_,
                          ParameterServerStrategy::Create(order, on_servers, std::move(servers),
                                                          std::move(dependencies.routing)));
  return strategy;
}

ShardedStrategy::ShardedStrategy(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                                 const ShardedOptions& options,
                                 const ShardedDependencies& dependencies,
                                 std::unique_ptr<KeptShard> kept)
    : options_(options),
      clock_(*dependencies.clock),
      holding_(HoldingOfStage(ZeroStage(order.spec()))),
      kept_gathered_bytes_(KeptGatheredBytes(order.spec())),
      divides_tokens_(DividesTokens(order.spec())),
      reducing_(Reducing(order.spec(), options.timeout)),
      clips_by_norm_(schema.clipping().by_global_norm() > 0),
      divides_anew_(DividesAnew(order.spec())),
      kept_(std::move(kept)),
      recovery_(schema, *kept_,
                {.redundant = order.spec().parallelism().zero().redundancy() > 0,
                 .divides_anew = divides_anew_,
                 .daemon = Fingerprint(order.worker_id()),
                 .log = dependencies.log}),
      units_(UnitCount(own().tables().tensors)),
      plan_(holding_.gradients.has_value()
                ? std::vector<GradientBucket>()
                : MakeBucketPlan(own().layout(), own().tables().tensors,
                                 BucketPlanOptionsOf(order.spec().update()))),
      fingerprint_(PlanFingerprint(order.spec(), schema, own().shard())),
      rows_(MakeRows()),
      gradients_(own().tables().tensors.size()) {}

ShardedStrategy::~ShardedStrategy() { Leave(); }

WaitForWork ShardedStrategy::MeasuredWait() {
  return [this](Work& work) {
    const BlockedTime blocked(clock_, counters_.exposed_seconds);
    return WaitForever(work);
  };
}

std::unique_ptr<RowExchange> ShardedStrategy::MakeRows() {
  return std::make_unique<RowExchange>(
      own(), RowExchangeOptions{.timeout = options_.timeout, .wait = MeasuredWait()});
}

std::vector<const FlightRecorder*> ShardedStrategy::recorders() const {
  if (groups_ == nullptr) return {};
  std::vector<const FlightRecorder*> recorders = groups_->recorders();
  if (rows_->recorder() != nullptr) recorders.push_back(rows_->recorder());
  if (shared_gradients_ != nullptr) {
    for (const FlightRecorder* recorder : shared_gradients_->recorders()) {
      recorders.push_back(recorder);
    }
  }
  return recorders;
}

void ShardedStrategy::Leave() {
  if (joined() && recovers()) recovery_.KeepSums(sums_);
  rows_->Leave();
  reducer_.reset();
  // This ends the calls of a step that was given up, on all ranks.
  scatterer_.reset();
  copies_.reset();
  if (gatherer_ != nullptr) {
    // Other ranks may still be in the last step, and wait for the gathers that it started.
    gatherer_->Outdate();
    own().PlaceWeights({});
  }
  gatherer_.reset();
  tied_sums_.reset();
  shared_gradients_.reset();
  tensor_group_.reset();
  groups_.reset();
  gradients_.assign(gradients_.size(), absl::Span<float>());
  counted_ = {};
}

void ShardedStrategy::Forget() {
  recovery_.ForgetKept();
  kept_->HandOver();
}

absl::Status ShardedStrategy::Join(std::unique_ptr<Communicator> communicator,
                                   absl::optional<int> source) {
  Leave();
  const MeshPosition shard = divides_anew_
                                 ? kept_->ShardOfRank(communicator->rank(), communicator->size())
                                 : own().shard();
  const std::vector<TensorSpec>& tensors = own().tables().tensors;
  MUSTER_ASSIGN_OR_RETURN(groups_, RankGroups::Create(std::move(communicator), shard, tensors));
  if (groups_->tied_group() != nullptr) {
    tied_sums_ = std::make_unique<TiedSums>(*groups_->tied_group(), tensors, options_.timeout);
  }
  const ShardState* const former = &own();
  const absl::Status filled = FillShards(source, shard);
  // Otherwise the rows' sums are still there for a rank that has not made its step yet.
  if (&own() != former) rows_ = MakeRows();
  MUSTER_RETURN_IF_ERROR(filled);
  MUSTER_RETURN_IF_ERROR(MakeTensorGroup());
  MUSTER_RETURN_IF_ERROR(rows_->Join(*groups_));
  MUSTER_RETURN_IF_ERROR(MakeExchanges());
  counted_ = groups_->traffic();
  GatherAll();
  return absl::OkStatus();
}

absl::Status ShardedStrategy::MakeTensorGroup() {
  Communicator* const group = groups_->tensor_group();
  if (group == nullptr) return absl::OkStatus();
  tensor_group_ = std::make_unique<CommunicatorTensorGroup>(
      *group, options_.timeout, [this](Communicator& communicator, const CollectiveCall& call) {
        const BlockedTime blocked(clock_, counters_.exposed_seconds);
        return communicator.Run(call);
      });
  MUSTER_ASSIGN_OR_RETURN(
      shared_gradients_,
      SharedGradients::Create(*group, own().tables().tensors,
                              {.divides_tokens = divides_tokens_, .timeout = options_.timeout}));
  return absl::OkStatus();
}

absl::Status ShardedStrategy::FillShards(absl::optional<int> source, const MeshPosition& shard) {
  Communicator& world = groups_->world();
  if (!recovers()) return kept_->Fill(world, source, groups_->replicas());
  if (!source.has_value()) {
    MUSTER_RETURN_IF_ERROR(recovery_.Forget(shard));
    MUSTER_RETURN_IF_ERROR(kept_->Fill(world, absl::nullopt, groups_->replicas()));
    if (tied_sums_ != nullptr) MUSTER_RETURN_IF_ERROR(tied_sums_->CopyWeights(own()));
    return recovery_.MakeCopies(world);
  }
  return recovery_.Recover(world, shard,
                           [this](const StepOutcome& outcome) { return MakeStep(outcome); });
}

absl::Status ShardedStrategy::MakeExchanges() {
  const WaitForWork wait = MeasuredWait();
  const ShardedTensors sharded = {own().layout(), own().shard_layout(), own().tables().tensors};
  ModelParameters held;
  if (!holding_.gradients.has_value()) {
    GradientReducerOptions reducing = reducing_;
    reducing.wait = wait;
    MUSTER_ASSIGN_OR_RETURN(reducer_, GradientReducer::Create(groups_->data_group(), plan_,
                                                              sharded.layout.elements(), reducing));
    gradients_ = TensorSpans(sharded.layout, sharded.tensors, reducer_->gradients());
    sums_ = own().PartSlices(reducer_->gradients());
    held.values = own().parameters();
  } else {
    MUSTER_ASSIGN_OR_RETURN(gatherer_, WeightGatherer::Create(groups_->shard_group(), sharded,
                                                              {.holding = *holding_.weights,
                                                               .kept_bytes = kept_gathered_bytes_,
                                                               .timeout = options_.timeout,
                                                               .wait = wait}));
    // This comes before gradients are allocated, because the state gives its own memory back.
    PlaceWeights();
    MUSTER_ASSIGN_OR_RETURN(scatterer_,
                            GradientScatterer::Create(groups_->shard_group(), sharded,
                                                      {.holding = *holding_.gradients,
                                                       .wire = reducing_.wire,
                                                       .deterministic = reducing_.deterministic,
                                                       .timeout = options_.timeout,
                                                       .wait = wait,
                                                       .replicas = groups_->replicas()}));
    sums_.assign(scatterer_->sums().begin(), scatterer_->sums().end());
    held = gatherer_->parameters();
  }
  tensor_sums_ = own().TensorSlices(sums_);
  copies_ = std::make_unique<LowPrecisionCopies>(sharded.tensors, held);
  cells_by_rank_.clear();
  if (clips_by_norm_ && own().shard().mesh.world_size() > 1) {
    // The cells of the first ranks with each shard; the others have the same.
    const Mesh& mesh = groups_->mesh();
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const bool first = mesh.Position(rank, kStateAxes.Others()) == 0;
      const size_t cells = own().cells_by_shard()[mesh.Position(rank, kStateAxes)];
      cells_by_rank_.push_back(first ? cells : 0);
    }
  }
  return absl::OkStatus();
}

void ShardedStrategy::PlaceWeights() {
  if (holding_.weights != UnitPlaces::Holding::kWhole) return;
  const absl::Span<const ShardLayout::Part> parts = own().shard_layout().parts();
  std::vector<float*> places;
  for (size_t part = 0; part < parts.size(); ++part) {
    const bool f32 = parts[part].compute == DType::kF32;
    places.push_back(f32 ? gatherer_->own_slice(static_cast<int>(part)).data() : nullptr);
  }
  own().PlaceWeights(places);
}

void ShardedStrategy::GatherAll() {
  if (holding_.weights != UnitPlaces::Holding::kWhole) return;
  for (int unit = 0; unit < units_; ++unit) gatherer_->Start(unit, own().slices());
}

absl::Status ShardedStrategy::AwaitAll() {
  if (holding_.weights != UnitPlaces::Holding::kWhole) return absl::OkStatus();
  for (int unit = 0; unit < units_; ++unit) MUSTER_RETURN_IF_ERROR(gatherer_->Await(unit));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ShardedStrategy::Start() {
  if (!joined()) {
    return absl::FailedPreconditionError("the strategy starts before it joined the other workers");
  }
  if (servers_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t closed, servers_->Start());
    if (closed != own().clock()) {
      return absl::AbortedError(absl::StrCat("servers hold ", closed,
                                             " steps of this worker's slot, its shard ",
                                             own().clock(), "; the job must return to a cut"));
    }
  }
  return own().clock();
}

absl::Status ShardedStrategy::BeginStep(uint64_t clock) {
  if (!joined()) {
    return absl::FailedPreconditionError("a step begins before the workers have met");
  }
  if (clock != own().clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a step begins at clock ", clock, ", but the parameters are at ", own().clock()));
  }
  copies_->Outdate();
  rows_->BeginStep();
  tensor_counted_ = TensorTraffic();
  stage_counted_ = groups_->stage_traffic();
  if (in_flight()) {
    // Every step gathers the same, whatever was evaluated before, and counts only its traffic.
    gatherer_->Outdate();
    counted_ = groups_->traffic();
    gatherer_->Start(0, own().slices());
  }
  micro_batches_ = 0;
  return servers_ == nullptr ? absl::OkStatus() : servers_->BeginStep(clock);
}

absl::Status ShardedStrategy::Acquire(int unit, Direction direction) {
  if (gatherer_ != nullptr) {
    MUSTER_RETURN_IF_ERROR(gatherer_->Acquire(unit, direction, own().slices()));
    if (direction == Direction::kBackward) MUSTER_RETURN_IF_ERROR(scatterer_->BeforeWrite(unit));
  }
  copies_->Refresh(unit);
  return absl::OkStatus();
}

absl::Status ShardedStrategy::Prefetch(const MicroBatch& micro_batch) {
  if (servers_ != nullptr) return servers_->Prefetch(micro_batch);
  rows_->AskFor(micro_batch.sparse);
  return absl::OkStatus();
}

absl::Status ShardedStrategy::LookUp(MicroBatch& micro_batch) {
  if (servers_ != nullptr) return servers_->LookUp(micro_batch);
  return rows_->LookUp(absl::MakeSpan(micro_batch.sparse));
}

absl::Status ShardedStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  if (++micro_batches_ == 1) examples_ = 0;
  examples_ += examples;
  position_ = position;
  if (scatterer_ != nullptr) scatterer_->BeginMicroBatch(position);
  return servers_ == nullptr ? absl::OkStatus() : servers_->BeforeBackward(examples, position);
}

Accumulation ShardedStrategy::GradientStore(int unit) const {
  if (scatterer_ != nullptr) return scatterer_->GradientStore();
  return micro_batches_ == 1 ? Accumulation::kWrite : Accumulation::kAdd;
}

GradientSpans ShardedStrategy::gradients() const {
  return scatterer_ != nullptr ? scatterer_->gradients() : GradientSpans(gradients_);
}

absl::Status ShardedStrategy::GradientReady(int unit) {
  const bool leaves =
      holding_.gradients == UnitPlaces::Holding::kInFlight || position_ == SeriesPosition::kLast;
  if (shared_gradients_ != nullptr && leaves) {
    const BlockedTime blocked(clock_, counters_.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(shared_gradients_->Sum(unit, gradients()));
  }
  if (scatterer_ != nullptr) {
    scatterer_->UnitReady(unit);
  } else if (position_ == SeriesPosition::kLast) {
    reducer_->UnitReady(unit);
  }
  return absl::OkStatus();
}

absl::Status ShardedStrategy::PushRows(MicroBatch& micro_batch) {
  if (servers_ != nullptr) return servers_->PushRows(micro_batch);
  rows_->Add(micro_batch.sparse);
  return absl::OkStatus();
}

void ShardedStrategy::CountTraffic(uint64_t& sent, uint64_t& received) {
  const CollectiveTraffic now = groups_->traffic();
  sent += now.sent - counted_.sent;
  received += now.received - counted_.received;
  counted_ = now;
}

void ShardedStrategy::LeaveOut(const CollectiveTraffic& before) {
  const CollectiveTraffic now = groups_->traffic();
  counted_.sent += now.sent - before.sent;
  counted_.received += now.received - before.received;
}

CollectiveTraffic ShardedStrategy::TensorTraffic() const {
  if (shared_gradients_ == nullptr) return {};
  CollectiveTraffic traffic = shared_gradients_->traffic();
  traffic.sent += groups_->tensor_group()->traffic().sent;
  traffic.received += groups_->tensor_group()->traffic().received;
  return traffic;
}

absl::StatusOr<StepTotal> ShardedStrategy::CollectSums() {
  // Rows go to their owners beside the dense sums that are still under way.
  MUSTER_RETURN_IF_ERROR(rows_->SendToOwners());
  MUSTER_RETURN_IF_ERROR(scatterer_ != nullptr ? scatterer_->Finish() : reducer_->Finish());
  if (tied_sums_ != nullptr) {
    const BlockedTime blocked(clock_, counters_.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(tied_sums_->Add(tensor_sums_));
  }
  const std::vector<TensorSpec>& tensors = own().tables().tensors;
  const TensorSpec* overflowed = kept_->loss_scaling().Divide(tensors, tensor_sums_);
  CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  MUSTER_RETURN_IF_ERROR(rows_->AddReplicas());
  if (recovers()) {
    Communicator& world = groups_->world();
    MUSTER_RETURN_IF_ERROR(
        recovery_.SendRows(world, rows_->sums(), options_.timeout, MeasuredWait()));
    CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
    MUSTER_RETURN_IF_ERROR(recovery_.SumsComplete(world, sums_, options_.timeout, MeasuredWait()));
    CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  }
  StepShare mine = {.examples = own().shard().at(kModelAxes) == 0 ? examples_ : 0};
  // The engine checks the gradients of the last micro-batch, which hold the sums over all
  // micro-batches only if gradients are whole.
  const bool unseen = holding_.gradients == UnitPlaces::Holding::kInFlight && micro_batches_ > 1;
  if (unseen && overflowed == nullptr) overflowed = FirstNotFinite(tensors, tensor_sums_);
  if (overflowed != nullptr) mine.overflowed = static_cast<int>(overflowed - tensors.data());
  std::vector<double> cells;
  if (!cells_by_rank_.empty() && cells_by_rank_[groups_->world().rank()] > 0) {
    cells = own().CellNorms(sums_, rows_->sums());
    mine.cells = cells;
  }
  const BlockedTime blocked(clock_, counters_.exposed_seconds);
  MUSTER_ASSIGN_OR_RETURN(const StepTotal total,
                          exchange_.Run(groups_->world(), options_.timeout, mine, cells_by_rank_));
  CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
  const CollectiveTraffic of_tensors = TensorTraffic();
  counters_.tensor_bytes_sent += of_tensors.sent - tensor_counted_.sent;
  counters_.tensor_bytes_received += of_tensors.received - tensor_counted_.received;
  const CollectiveTraffic of_stages = groups_->stage_traffic();
  counters_.stage_bytes_sent += of_stages.sent - stage_counted_.sent;
  counters_.stage_bytes_received += of_stages.received - stage_counted_.received;
  const CollectiveTraffic of_rows = rows_->step_traffic();
  counters_.other_bytes_sent += of_rows.sent;
  counters_.other_bytes_received += of_rows.received;
  return total;
}

absl::StatusOr<double> ShardedStrategy::CloseServers(const GradientSums& sums) {
  closing_ = &sums;
  absl::Status closed = servers_->EndStep();
  closing_ = nullptr;
  // A norm that is not finite is found by the first slot alone, but ends the job on all slots.
  if (!closed.ok() && !(clips_by_norm_ && absl::IsOutOfRange(closed))) return closed;
  if (!clips_by_norm_) return 1.0;
  const BlockedTime blocked(clock_, counters_.exposed_seconds);
  double scale =
      closed.ok() ? servers_->last_clipping_scale() : std::numeric_limits<double>::quiet_NaN();
  CollectiveCall broadcast;
  broadcast.kind = Collective::kBroadcast;
  broadcast.dtype = DType::kF64;
  broadcast.in = &scale;
  broadcast.out = &scale;
  broadcast.count = 1;
  broadcast.timeout = options_.timeout;
  broadcast.label = "clipping scale";
  MUSTER_RETURN_IF_ERROR(groups_->world().Run(broadcast));
  CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
  if (!closed.ok()) return closed;
  if (std::isnan(scale)) {
    return DivergedError("the gradient's norm is not finite");
  }
  return scale;
}

absl::Status ShardedStrategy::EndStep() {
  MUSTER_ASSIGN_OR_RETURN(const StepTotal total, CollectSums());
  StepOutcome outcome = {
      .clock = own().clock(), .examples = total.examples, .overflowed = total.overflowed};
  if (outcome.overflowed >= 0) {
    if (loss_scaler() == nullptr) {
      return DivergedError(outcome.clock, absl::StrCat(NameOfOverflow(outcome), " is not finite"));
    }
    return MakeStep(outcome);
  }
  const GradientSums sums = {
      .examples = total.examples, .dense = sums_, .rows = rows_->sums(), .cells = total.cells};
  if (servers_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(outcome.scale, CloseServers(sums));
  } else {
    MUSTER_ASSIGN_OR_RETURN(const NormClipping clipping, own().Clipping(sums));
    outcome.norm = clipping.norm;
    outcome.scale = clipping.scale;
  }
  return MakeStep(outcome);
}

std::string ShardedStrategy::NameOfOverflow(const StepOutcome& outcome) const {
  return absl::StrCat("the gradient of ", own().tables().tensors[outcome.overflowed].name);
}

absl::Status ShardedStrategy::MakeStep(const StepOutcome& outcome) {
  const bool overflowed = outcome.overflowed >= 0;
  MUSTER_RETURN_IF_ERROR(kept_->loss_scaling().TakeEnd(
      outcome.clock, overflowed ? StepEnd::kOverflowed : StepEnd::kFinite,
      overflowed ? NameOfOverflow(outcome) : ""));
  counters_.gradient_norm = outcome.norm;
  if (overflowed) {
    own().set_clock(outcome.clock + 1);
  } else {
    if (gatherer_ != nullptr) gatherer_->Outdate();
    own().Apply({.examples = outcome.examples, .dense = sums_, .rows = rows_->sums()},
                outcome.scale);
    if (gatherer_ != nullptr) GatherAll();
  }
  recovery_.StepMade(outcome);
  return absl::OkStatus();
}

absl::StatusOr<CutFiles> ShardedStrategy::Cut(uint64_t clock) {
  if (!joined() || clock != own().clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a cut at clock ", clock, " was asked for, but the parameters are at ", own().clock()));
  }
  // Calls under way belong to the next step; calls that follow belong to no step.
  MUSTER_RETURN_IF_ERROR(AwaitAll());
  const CollectiveTraffic before = groups_->traffic();
  CutFiles servers;
  if (servers_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(servers, servers_->Cut(clock));
  }
  const uint32_t first_number = servers_ == nullptr ? 0 : own().layout().partitions();
  MUSTER_ASSIGN_OR_RETURN(CutFiles files,
                          kept_->Cut(groups_->world(), first_number, servers.failure));
  LeaveOut(before);
  files.by_partition.insert(files.by_partition.begin(), servers.by_partition.begin(),
                            servers.by_partition.end());
  return files;
}

absl::StatusOr<CutEnd> ShardedStrategy::EndCut(CutEnd mine) {
  const CollectiveTraffic before = groups_->traffic();
  MUSTER_ASSIGN_OR_RETURN(const CutEnd end, kept_->EndCut(groups_->world(), mine));
  LeaveOut(before);
  return end;
}

StrategyCounters ShardedStrategy::counters() const {
  StrategyCounters counters = counters_;
  if (servers_ != nullptr) {
    const StrategyCounters servers = servers_->counters();
    counters.bytes_pushed = servers.bytes_pushed;
    counters.bytes_pulled = servers.bytes_pulled;
    counters.staleness_sum = servers.staleness_sum;
    counters.staleness_max = servers.staleness_max;
    counters.exposed_seconds += servers.exposed_seconds;
    counters.gradient_norm = servers.gradient_norm;
  }
  return counters;
}

}  // namespace muster
