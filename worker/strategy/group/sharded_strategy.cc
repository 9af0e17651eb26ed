#include "worker/strategy/group/sharded_strategy.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/schema.h"
#include "common/partition/stage_holding.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/nn/diverged_error.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/global_norm.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/gradients/tied_sums.h"
#include "worker/strategy/group/host_shard.h"

namespace muster {
namespace {

bool IsHybrid(const v1::TaskOrder& order, const v1::TablesSchema& schema) {
  return schema.sparse_size() > 0 &&
         order.spec().update().sparse() == v1::UpdateSpec::PARAMETER_SERVER;
}

GradientReducerOptions Reducing(const v1::JobSpec& spec, absl::Duration timeout) {
  GradientReducerOptions reducing;
  reducing.timeout = timeout;
  // Devices have one type of sums, in an order of their own
  // (common/job/validation/device_validator.cc).
  if (spec.compute().device() == v1::ComputeSpec::CUDA) return reducing;
  reducing.wire = spec.update().wire() == v1::UpdateSpec::BF16 ? DType::kBf16 : DType::kF32;
  reducing.deterministic = SumsInRankOrder(spec);
  return reducing;
}

// Returns a fingerprint of the plan of the first tensor rank, from which those of the others
// follow.
absl::StatusOr<uint64_t> PlanFingerprint(const v1::JobSpec& spec, const v1::TablesSchema& schema,
                                         const MeshPosition& shard, const ShardPlace& place) {
  MUSTER_ASSIGN_OR_RETURN(const Tables tables, LocalTables(schema, shard.Of(0)));
  MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout, LayoutOfTensors(schema, tables.tensors));
  if (ZeroStage(spec) == 0) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<GradientBucket> plan,
                            place.PlanBuckets(layout.Trained(), tables.tensors));
    return BucketPlanFingerprint(plan);
  }
  return ShardFingerprint(ZeroStage(spec), KeptGatheredBytes(spec),
                          ShardLayout(layout, Holders(shard.mesh)));
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
  MUSTER_RETURN_IF_ERROR(strategy->MakePlace(order, held_here, dependencies));
  GroupCuts::Parts cutting = {.kept = *strategy->kept_,
                              .place = *strategy->place_,
                              .uncounted =
                                  [self = strategy.get()](absl::FunctionRef<absl::Status()> calls) {
                                    return self->RunUncounted(calls);
                                  },
                              .log = dependencies.log};
  if (!hybrid) {
    strategy->cuts_ = std::make_unique<GroupCuts>(cutting);
    return strategy;
  }

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
  cutting.servers = &strategy->servers_->background_cuts();
  strategy->cuts_ = std::make_unique<GroupCuts>(cutting);
  return strategy;
}

ShardedStrategy::ShardedStrategy(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                                 const ShardedOptions& options,
                                 const ShardedDependencies& dependencies,
                                 std::unique_ptr<KeptShard> kept)
    : options_(options),
      clock_(*dependencies.clock),
      divides_anew_(DividesAnew(order.spec())),
      kept_(std::move(kept)),
      recovery_(schema, *kept_,
                {.redundant = order.spec().parallelism().zero().redundancy() > 0,
                 .divides_anew = divides_anew_,
                 .daemon = Fingerprint(order.worker_id()),
                 .log = dependencies.log}),
      exchanging_({.holding = HoldingOfStage(ZeroStage(order.spec())),
                   .kept_bytes = KeptGatheredBytes(order.spec()),
                   .divides_tokens = DividesTokens(order.spec()),
                   .choices = ChoicesCountedOf(order.spec()),
                   .reducing = Reducing(order.spec(), options.timeout)}),
      clips_by_norm_(schema.clipping().by_global_norm() > 0),
      rows_(MakeRows()) {}

absl::Status ShardedStrategy::MakePlace(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                                        const ShardedDependencies& dependencies) {
  if (dependencies.make_place != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(place_, dependencies.make_place(*kept_));
  } else {
    place_ = std::make_unique<HostShard>(
        *kept_, BucketPlanOptionsOf(order.spec().update()),
        clips_by_norm_ ? HostShard::Norms::kMeasured : HostShard::Norms::kNotNeeded);
  }
  if (!exchanging_.holding.gradients.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(exchanging_.plan,
                            place_->PlanBuckets(own().trained_layout(), own().tables().tensors));
  }
  MUSTER_ASSIGN_OR_RETURN(fingerprint_,
                          PlanFingerprint(order.spec(), schema, own().shard(), *place_));
  return absl::OkStatus();
}

// Not Leave: nobody needs a copy on the host any more.
ShardedStrategy::~ShardedStrategy() {
  if (place_ != nullptr) EndGroup();
}

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
  if (!joined()) return recorders;
  if (TensorRanks* const peers = exchange_->tensor_ranks(); peers != nullptr) {
    for (const FlightRecorder* recorder : peers->recorders()) recorders.push_back(recorder);
  }
  return recorders;
}

CollectiveTraffic ShardedStrategy::LayerTraffic() const {
  CollectiveTraffic sum = groups_->traffic(kContext);
  for (const Axes axes : {kExpertAxes, kDataAxes}) {
    Add(groups_->traffic(axes), sum.sent, sum.received);
  }
  const TensorRanks* const peers = exchange_->tensor_ranks();
  if (peers != nullptr) Add(peers->traffic(), sum.sent, sum.received);
  return sum;
}

void ShardedStrategy::Leave() {
  // After an error there is no replica any more, and replica_clock() says so.
  place_->TakeBack().IgnoreError();
  if (joined() && recovers()) recovery_.KeepSums(sums_);
  EndGroup();
}

void ShardedStrategy::EndGroup() {
  if (cuts_ != nullptr) cuts_->Leave();
  agreement_.reset();
  matrices_.reset();
  place_->Stop();
  rows_->Leave();
  exchange_.reset();
  place_->Leave();
  groups_.reset();
  counted_ = {};
}

void ShardedStrategy::Forget() {
  recovery_.ForgetKept();
  kept_->Forget();
}

absl::Status ShardedStrategy::Gather(std::unique_ptr<Communicator> communicator,
                                     absl::optional<int> source) {
  Leave();
  const MeshPosition shard = divides_anew_
                                 ? kept_->ShardOfRank(communicator->rank(), communicator->size())
                                 : own().shard();
  MUSTER_ASSIGN_OR_RETURN(groups_,
                          RankGroups::Create(std::move(communicator), shard, own().tables().tensors,
                                             kept_->context_copies(), exchanging_.choices));
  const ShardState* const former = &own();
  const absl::Status filled = FillShards(source, shard);
  // Otherwise the rows' sums are still there for a rank that has not made its step yet.
  if (&own() != former) rows_ = MakeRows();
  return filled;
}

absl::Status ShardedStrategy::HandOver(std::unique_ptr<Communicator> communicator,
                                       absl::optional<int> source, absl::Span<const int> leaving) {
  MUSTER_RETURN_IF_ERROR(Gather(std::move(communicator), source));
  const absl::Status status = recovery_.HandOver(groups_->world(), leaving);
  EndGroup();
  return status;
}

absl::Status ShardedStrategy::Join(std::unique_ptr<Communicator> communicator,
                                   absl::optional<int> source) {
  MUSTER_RETURN_IF_ERROR(Gather(std::move(communicator), source));
  MUSTER_RETURN_IF_ERROR(place_->Enter(*groups_));
  MUSTER_RETURN_IF_ERROR(rows_->Join(*groups_));
  MUSTER_ASSIGN_OR_RETURN(exchange_, ShardExchange::Create(*groups_, *place_, own(), exchanging_,
                                                           clock_, counters_.exposed_seconds));
  sums_.assign(exchange_->sums().begin(), exchange_->sums().end());
  MUSTER_ASSIGN_OR_RETURN(
      matrices_, MatrixExchange::Create(*groups_, own(), options_.timeout, MeasuredWait()));
  agreement_ = std::make_unique<StepAgreement>(groups_->world(), AgreementOptions());
  cuts_->Join(groups_->world());
  MUSTER_RETURN_IF_ERROR(place_->Fill(sums_));
  counted_ = groups_->traffic(kGradientAxes);
  exchange_->GatherAll();
  // A device warms up on weights.
  return place_->on_host() ? absl::OkStatus() : exchange_->GatherSome();
}

absl::Status ShardedStrategy::FillShards(absl::optional<int> source, const MeshPosition& shard) {
  Communicator& world = groups_->world();
  if (recovers() && source.has_value()) {
    return recovery_.Recover(world, shard,
                             [this](const StepOutcome& outcome) { return MakeStep(outcome); });
  }
  if (recovers()) MUSTER_RETURN_IF_ERROR(recovery_.Forget(shard));
  // Several shards have no source in common.
  if (own().shard().mesh.world_size() > 1) source = absl::nullopt;
  MUSTER_RETURN_IF_ERROR(
      kept_->Fill(world, source, groups_->Others(kCopyAxes), groups_->Others(kExpertCopyAxes)));
  if (groups_->tied_group() != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(
        const std::unique_ptr<TiedSums> tied,
        TiedSums::Create(*groups_->tied_group(), own().tables().tensors, options_.timeout));
    MUSTER_RETURN_IF_ERROR(tied->CopyWeights(own()));
  }
  return recovers() ? recovery_.MakeCopies(world) : absl::OkStatus();
}

StepAgreement::Options ShardedStrategy::AgreementOptions() const {
  StepAgreement::Options options;
  options.extent = place_->extent();
  options.timeout = options_.timeout;
  const Mesh& mesh = groups_->mesh();
  options.counts_examples = mesh.Position(groups_->world().rank(), kModelAxes) == 0;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    // The cells of the first ranks with each shard; the others have the same.
    const bool first = mesh.Position(rank, kStateAxes.Others()) == 0;
    options.cells_by_rank.push_back(first ? place_->cells(mesh.Position(rank, kStateAxes)) : 0);
  }
  return options;
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

void ShardedStrategy::SetRateFactor(double factor) {
  rate_factor_ = factor;
  if (servers_ != nullptr) servers_->SetRateFactor(factor);
}

absl::Status ShardedStrategy::BeginStep(uint64_t clock) {
  if (!joined()) {
    return absl::FailedPreconditionError("a step begins before the workers have met");
  }
  if (clock != own().clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a step begins at clock ", clock, ", but the parameters are at ", own().clock()));
  }
  rows_->BeginStep();
  agreement_->BeginStep(cuts_->rank_has_written());
  tensor_counted_ = LayerTraffic();
  stage_counted_ = groups_->traffic(Axis::kPipeline);
  agreement_counted_ = agreement_->traffic();
  MUSTER_RETURN_IF_ERROR(exchange_->BeginStep(counted_));
  return servers_ == nullptr ? absl::OkStatus() : servers_->BeginStep(clock);
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
  agreement_->BeforeBackward(examples, position);
  exchange_->BeforeBackward(position);
  return servers_ == nullptr ? absl::OkStatus() : servers_->BeforeBackward(examples, position);
}

absl::Status ShardedStrategy::PushRows(MicroBatch& micro_batch) {
  if (servers_ != nullptr) return servers_->PushRows(micro_batch);
  rows_->Add(micro_batch.sparse);
  return absl::OkStatus();
}

void ShardedStrategy::CountTraffic(uint64_t& sent, uint64_t& received) {
  const CollectiveTraffic now = groups_->traffic(kGradientAxes);
  Add(Since(std::exchange(counted_, now), now), sent, received);
}

absl::Status ShardedStrategy::RunUncounted(absl::FunctionRef<absl::Status()> calls) {
  MUSTER_RETURN_IF_ERROR(exchange_->AwaitAll());
  const CollectiveTraffic before = groups_->traffic(kGradientAxes);
  MUSTER_RETURN_IF_ERROR(calls());
  Add(Since(before, groups_->traffic(kGradientAxes)), counted_.sent, counted_.received);
  return absl::OkStatus();
}

absl::StatusOr<StepTotal> ShardedStrategy::CollectSums() {
  MUSTER_RETURN_IF_ERROR(place_->EndPasses());
  // Rows go to their owners beside the dense sums that are still under way.
  MUSTER_RETURN_IF_ERROR(rows_->SendToOwners());
  MUSTER_RETURN_IF_ERROR(exchange_->Finish());
  const int overflowed = place_->Unscale(exchange_->tensor_sums(), exchange_->sums_seen());
  CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  MUSTER_RETURN_IF_ERROR(rows_->AddReplicas());
  CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
  if (recovers()) {
    Communicator& world = groups_->world();
    MUSTER_RETURN_IF_ERROR(
        recovery_.SendRows(world, rows_->sums(), options_.timeout, MeasuredWait()));
    CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
    // Sums on a device go with the group. Processors would not make its step to the bit.
    if (place_->on_host()) {
      MUSTER_RETURN_IF_ERROR(
          recovery_.SumsComplete(world, sums_, options_.timeout, MeasuredWait()));
    }
    CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  }
  MUSTER_ASSIGN_OR_RETURN(
      const absl::Span<const double> cells,
      place_->Measure({.dense = sums_, .rows = rows_->sums()}, agreement_->own_cells()));
  const BlockedTime blocked(clock_, counters_.exposed_seconds);
  MUSTER_ASSIGN_OR_RETURN(const StepTotal total, agreement_->Run(overflowed, cells));
  CountAgreement();
  return total;
}

void ShardedStrategy::CountAgreement() {
  // The sum of examples travels beside gradients: what was counted with them is taken off again.
  const CollectiveTraffic agreed = Since(agreement_counted_, agreement_->traffic());
  Add(agreed, counted_.sent, counted_.received);
  CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  for (const CollectiveTraffic& traffic : {agreed, rows_->step_traffic()}) {
    Add(traffic, counters_.other_bytes_sent, counters_.other_bytes_received);
  }
  Add(Since(tensor_counted_, LayerTraffic()), counters_.tensor_bytes_sent,
      counters_.tensor_bytes_received);
  Add(Since(stage_counted_, groups_->traffic(Axis::kPipeline)), counters_.stage_bytes_sent,
      counters_.stage_bytes_received);
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
  MUSTER_RETURN_IF_ERROR(groups_->world().Run(
      Broadcast(/*root=*/0, absl::MakeSpan(&scale, 1), options_.timeout, "clipping scale")));
  CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
  if (!closed.ok()) return closed;
  if (std::isnan(scale)) {
    return DivergedError("the gradient's norm is not finite");
  }
  return scale;
}

absl::Status ShardedStrategy::EndStep() {
  MUSTER_ASSIGN_OR_RETURN(const StepTotal total, CollectSums());
  // No rank has made the step yet, so that none is ahead by more than this one if a call fails.
  if (total.all_have_written) MUSTER_RETURN_IF_ERROR(cuts_->Settle());
  StepOutcome outcome = {.clock = own().clock(),
                         .examples = total.examples,
                         .overflowed = total.overflowed,
                         .rate_factor = rate_factor_};
  if (outcome.overflowed < 0) {
    const GradientSums sums = {
        .examples = total.examples, .dense = sums_, .rows = rows_->sums(), .cells = total.cells};
    if (servers_ != nullptr) {
      MUSTER_ASSIGN_OR_RETURN(outcome.scale, CloseServers(sums));
    } else {
      MUSTER_RETURN_IF_ERROR(place_->Decide(sums, outcome));
    }
  }
  if (outcome.overflowed >= 0 && loss_scaler() == nullptr) {
    return DivergedError(outcome.clock, absl::StrCat(NameOfOverflow(outcome), " is not finite"));
  }
  if (outcome.moves()) MUSTER_RETURN_IF_ERROR(OrthogonaliseMatrices(outcome));
  return MakeStep(outcome);
}

absl::Status ShardedStrategy::OrthogonaliseMatrices(const StepOutcome& outcome) {
  if (matrices_ == nullptr) return absl::OkStatus();
  own().DirectMatrices({.examples = outcome.examples, .dense = sums_}, outcome.scale);
  const CollectiveTraffic before = matrices_->traffic();
  MUSTER_RETURN_IF_ERROR(matrices_->Run(own()));
  const CollectiveTraffic moved = Since(before, matrices_->traffic());
  if (matrices_->axes() == Axis::kTensor) {
    Add(moved, counters_.tensor_bytes_sent, counters_.tensor_bytes_received);
  } else if (matrices_->axes() == kMatrixAxes) {
    Add(moved, counters_.bytes_sent, counters_.bytes_received);
  }
  Communicator& world = groups_->world();
  if (recovers()) {
    MUSTER_RETURN_IF_ERROR(recovery_.SendDirections(world, options_.timeout, MeasuredWait()));
  }
  // A rank that makes the step by itself, now or when it comes back with its sums, needs its
  // directions; so nobody makes it before all have theirs.
  const BlockedTime blocked(clock_, counters_.exposed_seconds);
  MUSTER_RETURN_IF_ERROR(world.Run(Barrier(options_.timeout, "all have directions")));
  CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  return absl::OkStatus();
}

std::string ShardedStrategy::NameOfOverflow(const StepOutcome& outcome) const {
  if (outcome.overflowed == StepOutcome::kSomeTensor) return "the gradient's norm";
  return absl::StrCat("the gradient of ", own().tables().tensors[outcome.overflowed].name);
}

absl::Status ShardedStrategy::MakeStep(const StepOutcome& outcome) {
  const bool overflowed = outcome.overflowed >= 0;
  MUSTER_RETURN_IF_ERROR(kept_->loss_scaling().TakeEnd(
      outcome.clock, overflowed ? StepEnd::kOverflowed : StepEnd::kFinite,
      overflowed ? NameOfOverflow(outcome) : ""));
  counters_.gradient_norm = outcome.norm;
  // Sums that a rank kept make a step before there is anything to gather.
  const bool gathers = joined() && outcome.moves();
  if (gathers) exchange_->Outdate();
  place_->Apply({.examples = outcome.examples, .dense = sums_, .rows = rows_->sums()}, outcome);
  if (gathers) exchange_->GatherAll();
  recovery_.StepMade(outcome);
  return absl::OkStatus();
}

absl::StatusOr<CutFiles> ShardedStrategy::Cut(uint64_t clock) {
  if (!joined() || clock != own().clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a cut at clock ", clock, " was asked for, but the parameters are at ", own().clock()));
  }
  MUSTER_RETURN_IF_ERROR(cuts_->Settle());
  CutFiles servers, files;
  MUSTER_RETURN_IF_ERROR(RunUncounted([&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(place_->TakeBack());
    if (servers_ != nullptr) {
      MUSTER_ASSIGN_OR_RETURN(servers, servers_->Cut(clock));
    }
    const uint32_t first_number = servers_ == nullptr ? 0 : own().layout().partitions();
    absl::StatusOr<CutFiles> cut = kept_->Cut(groups_->world(), first_number, servers.failure);
    place_->HandOver();
    MUSTER_ASSIGN_OR_RETURN(files, std::move(cut));
    return absl::OkStatus();
  }));
  files.by_partition.insert(files.by_partition.begin(), servers.by_partition.begin(),
                            servers.by_partition.end());
  return files;
}

absl::StatusOr<CutEnd> ShardedStrategy::EndCut(CutEnd mine) {
  CutEnd end = mine;
  MUSTER_RETURN_IF_ERROR(RunUncounted([&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(end, kept_->EndCut(groups_->world(), mine));
    return absl::OkStatus();
  }));
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
