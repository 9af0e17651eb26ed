#include "worker/strategy/servers/parameter_server_strategy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/partition/model_units.h"
#include "common/partition/served_layout.h"
#include "common/partition/wire_dtype.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/global_norm.h"
#include "worker/strategy/servers/dense_residual.h"

namespace muster {
namespace {

// Gradient arenas: one being written, the others still being sent.
constexpr int kGradientArenas = 3;

// Returns which units the worker has memory for.
UnitPlaces::Holding HoldingOf(const v1::JobSpec& spec) {
  return HoldsUnitsInFlight(spec) ? UnitPlaces::Holding::kInFlight : UnitPlaces::Holding::kWhole;
}

v1::OpenTablesRequest TablesOf(const v1::TaskOrder& order, const v1::TablesSchema& schema) {
  v1::OpenTablesRequest request;
  request.set_job_id(order.job_id());
  request.set_generation(order.generation());
  request.set_slots(order.spec().workers());
  *request.mutable_schema() = schema;
  *request.mutable_update() = order.spec().update();
  request.set_restore_uri(order.restore_uri());
  request.set_restore_weights_only(order.restore_weights_only());
  request.set_restore_averages(order.restore_weights_only() && order.spec().averaged_weights());
  request.set_start_clock(order.start_clock());
  request.set_checkpoint_root(order.checkpoint_root());
  request.set_expect_state(order.expect_state());
  request.set_takes_over_generation(order.takes_over_generation());
  request.set_slot(order.slot());
  request.set_incarnation(order.incarnation());
  if (HoldsUnitsInFlight(order.spec())) {
    request.set_pushed_micro_batches(std::max(1u, order.spec().micro_batches()));
  }
  if (const uint32_t ranks = SizeAlong(kContext, order.spec()); ranks > 1) {
    request.set_context_ranks(ranks);
  }
  return request;
}

ShardRouterOptions RouterOptions(ShardRouterOptions options, const v1::TaskOrder& order) {
  options.slot = order.slot();
  options.incarnation = order.incarnation();
  if (HoldsUnitsInFlight(order.spec())) options.answered = ShardRouterOptions::Answered::kDropped;
  return options;
}

v1::ExchangeRequest At(uint64_t clock) {
  v1::ExchangeRequest request;
  request.set_clock(clock);
  return request;
}

// Returns whether the slot is the first one along the axes.
bool IsFirst(const v1::TaskOrder& order, Axes axes) {
  return MeshOf(order.spec()).Position(static_cast<int>(order.slot()), axes) == 0;
}

// Returns, by partition, whether a slot pushes any block there.
std::vector<bool> PushesTo(const DenseLayout& layout) {
  std::vector<bool> pushes(layout.partitions());
  for (const DenseLayout::Block& block : layout.blocks()) {
    if (!block.repeated && !block.frozen) pushes[block.partition] = true;
  }
  return pushes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServerStrategy>> ParameterServerStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, Options options,
    ShardRouterDependencies dependencies) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  MUSTER_ASSIGN_OR_RETURN(const DType wire, WireDType(order.spec().update().wire()));
  MUSTER_ASSIGN_OR_RETURN(Share share, ShareOf(order, schema));
  if (wire != DType::kF32) {
    if (HoldsUnitsInFlight(order.spec()) || RanksTogether(order.spec()) > 1) {
      return absl::InvalidArgumentError(
          "under ZeRO stage 3, and where several ranks compute the model, gradients are pushed as "
          "f32, since a worker has no memory for what all its pushes have rounded away");
    }
    MUSTER_RETURN_IF_ERROR(DenseResidual::CheckFits(share.layout));
  }
  if (options.pull_f32) {
    for (TensorSpec& tensor : share.tables.tensors) tensor.compute = DType::kF32;
  }
  return std::unique_ptr<ParameterServerStrategy>(new ParameterServerStrategy(
      std::move(share), order, schema, options, std::move(dependencies)));
}

absl::StatusOr<ParameterServerStrategy::Share> ParameterServerStrategy::ShareOf(
    const v1::TaskOrder& order, const v1::TablesSchema& schema) {
  MUSTER_ASSIGN_OR_RETURN(ServedTensors served, ServedFromSchema(schema));
  const Mesh mesh = MeshOf(order.spec());
  const int slot = static_cast<int>(order.slot());
  const int rank = mesh.Position(slot, kServedAxes);
  Share share{.tables = TablesFromSchema(schema),
              .layout = LayoutOfRank(served, rank),
              .joined = absl::nullopt};
  for (int stage = 0; stage < mesh.Position(slot, Axis::kPipeline); ++stage) {
    share.first_unit += static_cast<int>(schema.pipeline_layers(stage));
  }
  const auto tensors = static_cast<ptrdiff_t>(served.tensors.size()) / served.ranks();
  const auto own = served.tensors.begin() + rank * tensors;
  share.tables.tensors.assign(own, own + tensors);
  if (served.ranks() > 1) share.joined = std::move(served.layout);
  return share;
}

ParameterServerStrategy::ParameterServerStrategy(Share share, const v1::TaskOrder& order,
                                                 const v1::TablesSchema& schema,
                                                 const Options& options,
                                                 ShardRouterDependencies dependencies)
    : pushes_examples_(IsFirst(order, kContext)),
      closes_examples_(IsFirst(order, kModelAxes)),
      first_unit_(share.first_unit),
      tables_(std::move(share.tables)),
      layout_(std::move(share.layout)),
      trained_layout_(layout_.Trained()),
      joined_(std::move(share.joined)),
      options_(options),
      order_(std::make_unique<const v1::TaskOrder>(order)),
      wire_(*WireDType(order.spec().update().wire())),
      time_(*dependencies.clock),
      log_(dependencies.log),
      slot_(order.slot()),
      max_norm_(schema.clipping().by_global_norm()),
      synchronous_(!order.spec().update().unlimited_staleness() &&
                   order.spec().update().staleness_bound() == 0),
      units_(UnitCount(tables_.tensors)),
      holding_(HoldingOf(order.spec())),
      runs_(DenseRunsByUnit(layout_, units_, options.max_message_bytes)),
      pushes_to_(PushesTo(layout_)),
      complete_with_(CompleteUnits(tables_.tensors)),
      loss_scale_(LossScaling(order.spec().compute(), {.slot = order.slot(), .log = log_}),
                  synchronous_ ? ServedLossScale::Owner::kGroup : ServedLossScale::Owner::kSlot),
      pulls_({.router = router_,
              .layout = layout_,
              .tensors = tables_.tensors,
              .runs = runs_,
              .loss_scale = loss_scale_,
              .counters = counters_,
              .clock = time_},
             {.holding = holding_,
              .wire = wire_,
              .window_bytes = options.pull_window_bytes,
              .registered_memory = options.registered_memory}),
      pushes_({.router = router_,
               .layout = trained_layout_,
               .tensors = tables_.tensors,
               .runs = runs_,
               .counters = counters_,
               .clock = time_},
              {.holding = holding_,
               .wire = wire_,
               .window_bytes = options.push_window_bytes,
               .arenas = kGradientArenas,
               .registered_memory = options.registered_memory}),
      rows_({.router = router_,
             .tables = tables_.sparse,
             .partitions = layout_.partitions(),
             .counters = counters_,
             .clock = time_},
            {.slot = order.slot(),
             .seed = schema.seed(),
             .wire = wire_,
             .message_bytes = options.max_message_bytes}),
      cuts_({.router = router_,
             .pushes = pushes_,
             .loss_scale = loss_scale_,
             .tensors = tables_.tensors,
             .order = *order_,
             .partitions = layout_.partitions(),
             .checkpoints = options.checkpoints,
             .log = log_}),
      entrance_(router_, order.slot(), layout_.partitions(), tables_.sparse.size()),
      enters_(order.spec().update().backup_workers() > 0),
      pushes_before_closes_(MembersChangeOnServers(order.spec())),
      router_(TablesOf(order, schema), order.shard_map(), RouterOptions(options.router, order),
              std::move(dependencies)) {}

absl::Status ParameterServerStrategy::Await(const Handle& operation) {
  const BlockedTime blocked(time_, counters_.exposed_seconds);
  return router_.Wait(operation);
}

absl::StatusOr<uint64_t> ParameterServerStrategy::Start() {
  MUSTER_ASSIGN_OR_RETURN(const SlotContributions former, router_.Open());
  loss_scale_.TakeFormer(former);
  const uint64_t closed = former.closed;
  uint64_t begin = closed;
  if (options_.peers != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(begin, options_.peers->Begin(closed));
  }
  // The task that held this slot before may have ended between its close and the clipping that all
  // others wait for. A slot that repeats the clock comes to the clipping again.
  if (max_norm_ > 0 && begin == closed && closed > order_->start_clock()) {
    ClockEntrance::Entry entry;
    if (enters_) {
      MUSTER_ASSIGN_OR_RETURN(entry, entrance_.Enter(closed - 1));
    }
    if (Clips(entry)) MUSTER_RETURN_IF_ERROR(ExchangeNorms(closed - 1));
  }
  SetClosed(closed);
  MUSTER_RETURN_IF_ERROR(cuts_.RestoreSlotState(begin));
  return begin;
}

absl::Status ParameterServerStrategy::BeginStep(uint64_t clock) {
  clock_ = clock;
  micro_batches_ = 0;
  left_out_until_.reset();
  rows_.BeginStep(clock);
  MUSTER_RETURN_IF_ERROR(pulls_.Begin(clock));
  return AgreeOnLossScale();
}

absl::Status ParameterServerStrategy::AgreeOnLossScale() {
  if (options_.peers == nullptr || !loss_scale_.shared()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(pulls_.AwaitFirst());
  MUSTER_ASSIGN_OR_RETURN(const uint64_t least,
                          options_.peers->Least("loss scale", loss_scale_.Offer(clock_)));
  loss_scale_.TakeLeast(least);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::Acquire(int unit, Direction direction) {
  MUSTER_RETURN_IF_ERROR(pulls_.Acquire(unit, direction));
  return direction == Direction::kBackward ? pushes_.BeforeWrite(unit) : absl::OkStatus();
}

absl::Status ParameterServerStrategy::Prefetch(const MicroBatch& micro_batch) {
  rows_.AskFor(micro_batch.sparse);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::LookUp(MicroBatch& micro_batch) {
  return rows_.LookUp(absl::MakeSpan(micro_batch.sparse));
}

absl::Status ParameterServerStrategy::CheckAllPulled() const {
  // In registered memory a synchronous server may still read what was pushed of a block, until it
  // has sent that block's new values.
  if (pulls_.all_came() &&
      (!synchronous_ || layout_.elements() == 0 || pulls_.slowest() >= clock_)) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("backward at clock ", clock_, " before all parameters of that clock have come"));
}

absl::Status ParameterServerStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  if (micro_batches_ == 0) {
    if (!in_flight()) MUSTER_RETURN_IF_ERROR(CheckAllPulled());
    overflowed_ = nullptr;
    left_out_ = false;
    examples_ = 0;
    pushes_.BeginStep();
  }
  ++micro_batches_;
  examples_ += examples;
  micro_batch_examples_ = examples;
  position_ = position;
  if (position == SeriesPosition::kMoreFollow) return absl::OkStatus();

  const uint64_t slowest = std::min(pulls_.slowest(), rows_.slowest());
  const uint64_t staleness = slowest < clock_ ? clock_ - slowest : 0;
  counters_.staleness_sum += staleness;
  counters_.staleness_max = std::max(counters_.staleness_max, staleness);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::GradientReady(int unit) {
  const bool last = position_ == SeriesPosition::kLast;
  if (unit >= units_ || (!last && !in_flight()) || enters_) return absl::OkStatus();
  const bool scaled = loss_scaler() != nullptr;
  if (scaled && !in_flight()) {
    if (unit > first_unit_) return absl::OkStatus();
    for (int ready = units_ - 1; ready >= 0; --ready) {
      MUSTER_RETURN_IF_ERROR(SumShared(ready));
      Divide(ready);
    }
    for (int ready = units_ - 1; ready >= 0; --ready) MUSTER_RETURN_IF_ERROR(AddTied(ready));
    MUSTER_RETURN_IF_ERROR(TakeGradients());
    for (int ready = units_ - 1; ready >= 0; --ready) MUSTER_RETURN_IF_ERROR(Push(ready));
    return absl::OkStatus();
  }
  for (const int complete : complete_with_[unit]) {
    MUSTER_RETURN_IF_ERROR(SumShared(complete));
    if (scaled) Divide(complete);
    MUSTER_RETURN_IF_ERROR(AddTied(complete));
    MUSTER_RETURN_IF_ERROR(Push(complete));
  }
  if (!scaled || !last || unit > first_unit_) return absl::OkStatus();
  return TakeGradients();
}

absl::Status ParameterServerStrategy::TakeGradients() {
  MUSTER_ASSIGN_OR_RETURN(const StepEnd end, loss_scale_.TakeGradients(clock_, overflowed_));
  left_out_ = end == StepEnd::kOverflowed;
  return absl::OkStatus();
}

void ParameterServerStrategy::SetClosed(uint64_t clocks) {
  closed_ = clocks;
  router_.set_closed(clocks);
}

absl::Status ParameterServerStrategy::SumShared(int unit) {
  if (options_.peers == nullptr) return absl::OkStatus();
  return options_.peers->SumShared(unit, pushes_.gradients());
}

absl::Status ParameterServerStrategy::AddTied(int unit) {
  if (options_.peers == nullptr) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(options_.peers->AddTied(unit, pushes_.gradients()));
  if (loss_scaler() == nullptr) return absl::OkStatus();
  // What overflowed on the other stage must not be pushed here.
  for (size_t i = 0; i < tables_.tensors.size(); ++i) {
    const TensorSpec& tensor = tables_.tensors[i];
    if (tensor.stages == 1 || static_cast<int>(tensor.unit) != unit) continue;
    const absl::Span<const float> gradient = pushes_.gradients()[i];
    if (AllFinite(static_cast<int64_t>(gradient.size()), gradient.data())) continue;
    if (overflowed_ == nullptr) overflowed_ = &tensor;
    pushes_.Withdraw();
  }
  return absl::OkStatus();
}

StrategyCounters ParameterServerStrategy::counters() const {
  StrategyCounters counters = counters_;
  if (options_.peers != nullptr) options_.peers->AddTo(counters);
  return counters;
}

void ParameterServerStrategy::Divide(int unit) {
  for (size_t i = 0; i < tables_.tensors.size(); ++i) {
    const TensorSpec& tensor = tables_.tensors[i];
    if (static_cast<int>(tensor.unit) != unit) continue;
    const TensorSpec* const overflowed =
        loss_scale_.scaling().Divide({&tensor, 1}, pushes_.gradients().subspan(i, 1));
    if (overflowed_ == nullptr) overflowed_ = overflowed;
  }
  if (overflowed_ != nullptr) pushes_.Withdraw();
}

absl::Status ParameterServerStrategy::Push(int unit) {
  DensePushes::Contribution contribution = {.clock = clock_, .examples = examples_};
  if (in_flight()) {
    contribution.micro_batch = micro_batches_ - 1;
    contribution.examples = micro_batch_examples_;
  }
  if (!pushes_examples_) contribution.examples = 0;
  return pushes_.Push(unit, contribution);
}

absl::Status ParameterServerStrategy::NoGradient(int unit) {
  return pushes_.Push(unit, {.clock = clock_, .examples = examples_, .absent = true});
}

absl::Status ParameterServerStrategy::PushRows(MicroBatch& micro_batch) {
  if (enters_) {
    rows_.Hold(micro_batch.sparse);
  } else {
    rows_.Push(absl::MakeSpan(micro_batch.sparse), position_, examples_);
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::EnterClock() {
  {
    const BlockedTime blocked(time_, counters_.exposed_seconds);
    MUSTER_ASSIGN_OR_RETURN(entry_, entrance_.Enter(clock_));
  }
  if (entry_.LeavesOut(slot_)) {
    left_out_until_ = entry_.newest_clock;
    pushes_.EndStep();
    const BlockedTime blocked(time_, counters_.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(entrance_.CloseWithout(clock_, *left_out_until_));
    SetClosed(std::max(*closed_, *left_out_until_));
    return absl::OkStatus();
  }
  for (int unit = units_ - 1; unit >= 0; --unit) MUSTER_RETURN_IF_ERROR(Push(unit));
  rows_.PushHeld(examples_);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::EndStep() {
  if (enters_) {
    MUSTER_RETURN_IF_ERROR(EnterClock());
    if (left_out_until_.has_value()) return absl::OkStatus();
  }
  if (loss_scale_.shared()) MUSTER_RETURN_IF_ERROR(pushes_.AwaitAll());
  if (pushes_before_closes_) {
    const BlockedTime blocked(time_, counters_.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(router_.WaitForLanes());
  }
  for (uint32_t partition = 0; partition < layout_.partitions(); ++partition) {
    v1::ExchangeRequest request = At(clock_);
    v1::CloseClock* close = request.mutable_close();
    close->set_examples(closes_examples_ && !left_out_ ? examples_ : 0);
    for (uint32_t count : rows_.chunks(partition)) close->add_sparse_chunks(count);
    close->set_no_dense(!pushes_to_[partition]);
    close->mutable_left_out()->Assign(entry_.left_out.begin(), entry_.left_out.end());
    loss_scale_.AddTo(*close);
    router_.Send(partition, std::move(request), Payload(), ShardRouter::Order::kLane);
  }
  if (options_.peers != nullptr) MUSTER_RETURN_IF_ERROR(options_.peers->AwaitLent());
  pushes_.EndStep();
  {
    const BlockedTime blocked(time_, counters_.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(router_.WaitForLanes());
  }
  pushes_.TakeAnswers();
  SetClosed(std::max(*closed_, clock_ + 1));
  return Clips(entry_) ? ExchangeNorms(clock_) : absl::OkStatus();
}

absl::Status ParameterServerStrategy::ExchangeNorms(uint64_t clock) {
  std::vector<Handle> operations;
  auto send_all = [&](const double* scale) {
    operations.clear();
    for (uint32_t partition = 0; partition < layout_.partitions(); ++partition) {
      v1::ExchangeRequest request = At(clock);
      v1::ClipExchange* clip = request.mutable_clip();
      if (scale != nullptr) clip->set_scale(*scale);
      operations.push_back(
          router_.Send(partition, std::move(request), Payload(), ShardRouter::Order::kFree));
    }
  };
  send_all(nullptr);
  std::vector<std::vector<double>> norms;
  for (const Handle& operation : operations) {
    MUSTER_RETURN_IF_ERROR(Await(operation));
    const Payload& payload = operation->result().payload;
    std::vector<double>& values = norms.emplace_back(payload.size() / sizeof(double));
    if (payload.size() % sizeof(double) == 0) payload.CopyTo(values.data());
  }
  NormClipping clipping;
  // A clock that is left out has no norms, on any partition.
  const bool left_out = std::all_of(
      norms.begin(), norms.end(), [](const std::vector<double>& values) { return values.empty(); });
  if (!left_out) {
    MUSTER_ASSIGN_OR_RETURN(clipping, options_.clipping != nullptr
                                          ? options_.clipping(norms)
                                          : ClipByNorm(joined_.has_value() ? *joined_ : layout_,
                                                       tables_.sparse.size(), norms, max_norm_));
  }
  counters_.gradient_norm = clipping.norm;
  last_clipping_scale_ = clipping.scale;
  send_all(&clipping.scale);
  for (const Handle& operation : operations) MUSTER_RETURN_IF_ERROR(Await(operation));
  return absl::OkStatus();
}

}  // namespace muster
