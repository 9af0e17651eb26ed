#include "worker/strategy/servers/parameter_server_strategy.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/partition/pulled_types.h"
#include "common/partition/wire_dtype.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "worker/nn/loss_scaler.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/global_norm.h"

namespace muster {
namespace {

// Memory kept for pushes of rows to come.
constexpr size_t kRowMemoryKept = size_t{64} << 20;

constexpr uint64_t kNoClock = std::numeric_limits<uint64_t>::max();

v1::OpenTablesRequest TablesOf(const v1::TaskOrder& order, const v1::TablesSchema& schema) {
  v1::OpenTablesRequest request;
  request.set_job_id(order.job_id());
  request.set_generation(order.generation());
  request.set_slots(order.spec().workers());
  *request.mutable_schema() = schema;
  *request.mutable_update() = order.spec().update();
  request.set_restore_uri(order.restore_uri());
  request.set_restore_weights_only(order.restore_weights_only());
  request.set_start_clock(order.start_clock());
  request.set_checkpoint_root(order.checkpoint_root());
  request.set_expect_state(order.expect_state());
  request.set_slot(order.slot());
  request.set_incarnation(order.incarnation());
  return request;
}

ShardRouterOptions RouterOptions(ShardRouterOptions options, const v1::TaskOrder& order) {
  options.slot = order.slot();
  options.incarnation = order.incarnation();
  return options;
}

int UnitsOf(const Tables& tables) {
  uint32_t units = 0;
  for (const TensorSpec& tensor : tables.tensors) units = std::max(units, tensor.unit + 1);
  return static_cast<int>(units);
}

v1::ExchangeRequest At(uint64_t clock) {
  v1::ExchangeRequest request;
  request.set_clock(clock);
  return request;
}

// A reply of the wrong length is the server's bug, but must not become a wild copy here.
absl::Status CheckLength(const Payload& payload, uint64_t bytes, const std::string& what) {
  if (payload.size() == bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the answer to ", what, " has ", payload.size(),
                                          " bytes where ", bytes, " are due"));
}

v1::UpdateSpec::WireType TypeOf(DType type) {
  return static_cast<v1::UpdateSpec::WireType>(WireTypeOf(type));
}

PartitionFile FileOf(size_t partition, const v1::ExchangeReply& reply) {
  return {static_cast<uint32_t>(partition), reply.checkpoint_path(), reply.checkpoint_bytes(),
          reply.checkpoint_checksum()};
}

// For the random bits of pushed rows: no two pushes of a key in a job share them.
uint64_t DrawOf(uint32_t slot, uint64_t clock) { return uint64_t{slot} << 40 | clock; }

// By unit: the other units whose tensors its own are tied to.
std::vector<std::vector<int>> TiedUnits(absl::Span<const TensorSpec> tensors, int units) {
  std::vector<std::vector<int>> tied(units);
  for (const TensorSpec& tensor : tensors) {
    for (const TensorSpec& owner : tensors) {
      if (owner.name == tensor.tied_to && owner.unit != tensor.unit) {
        tied[tensor.unit].push_back(static_cast<int>(owner.unit));
      }
    }
  }
  return tied;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServerStrategy>> ParameterServerStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, Options options,
    ShardRouterDependencies dependencies) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  MUSTER_ASSIGN_OR_RETURN(const DType wire, WireDType(order.spec().update().wire()));
  DenseLayout layout = LayoutFromSchema(schema);
  if (wire != DType::kF32) MUSTER_RETURN_IF_ERROR(DenseResidual::CheckFits(layout));
  Tables tables = TablesFromSchema(schema);
  if (options.pull_f32) {
    for (TensorSpec& tensor : tables.tensors) tensor.compute = DType::kF32;
  }
  return std::unique_ptr<ParameterServerStrategy>(new ParameterServerStrategy(
      std::move(tables), std::move(layout), order, schema, options, std::move(dependencies)));
}

ParameterServerStrategy::ParameterServerStrategy(Tables tables, DenseLayout layout,
                                                 const v1::TaskOrder& order,
                                                 const v1::TablesSchema& schema,
                                                 const Options& options,
                                                 ShardRouterDependencies dependencies)
    : tables_(std::move(tables)),
      layout_(std::move(layout)),
      options_(options),
      order_(std::make_unique<const v1::TaskOrder>(order)),
      wire_(*WireDType(order.spec().update().wire())),
      time_(*dependencies.clock),
      log_(dependencies.log),
      clips_(order.slot() == 0 && schema.clipping().by_global_norm() > 0),
      max_norm_(schema.clipping().by_global_norm()),
      synchronous_(!order.spec().update().unlimited_staleness() &&
                   order.spec().update().staleness_bound() == 0),
      units_(UnitsOf(tables_)),
      runs_(DenseRunsByUnit(layout_, units_, options.max_message_bytes)),
      tied_units_(TiedUnits(tables_.tensors, units_)),
      pulled_(layout_, tables_.tensors, PulledTypes(tables_.tensors), options.registered_memory),
      copies_(tables_.tensors, pulled_.parameters()),
      // Where pushes are rounded, servers read what came of that.
      gradient_pool_(layout_.elements(), options.gradient_arenas,
                     wire_ == DType::kF32 ? options.registered_memory : nullptr),
      gradients_(tables_.tensors.size()),
      dense_pulls_(units_),
      rows_pulls_(tables_.sparse.size()),
      row_memory_(BufferPool::Create(kRowMemoryKept)),
      loss_scale_(LossScaling(order.spec().compute(), {.slot = order.slot(), .log = log_}),
                  synchronous_ ? ServedLossScale::Owner::kGroup : ServedLossScale::Owner::kSlot),
      chunks_(layout_.partitions(), std::vector<uint32_t>(tables_.sparse.size())),
      router_(TablesOf(order, schema), order.shard_map(), RouterOptions(options.router, order),
              std::move(dependencies)) {
  for (const SparseTableSpec& table : tables_.sparse) {
    rows_.emplace_back(table.dim);
    row_coding_.push_back({wire_, Philox(schema.seed(), "wire", table.name), 0});
  }
  if (wire_ != DType::kF32 && layout_.elements() > 0) {
    residual_ = std::make_unique<DenseResidual>(layout_, wire_, options.gradient_arenas,
                                                options.registered_memory);
  }
}

absl::Status ParameterServerStrategy::Await(const Handle& operation) {
  const BlockedTime blocked(time_, counters_.exposed_seconds);
  return router_.Wait(operation);
}

absl::StatusOr<uint64_t> ParameterServerStrategy::Start() {
  MUSTER_ASSIGN_OR_RETURN(uint64_t closed, router_.Open());
  // The task that held this slot before may have ended between its close and the clipping that all
  // others wait for.
  if (clips_ && closed > order_->start_clock()) MUSTER_RETURN_IF_ERROR(ExchangeNorms(closed - 1));
  router_.set_closed(closed);
  MUSTER_RETURN_IF_ERROR(RestoreSlotState(closed));
  return closed;
}

absl::Status ParameterServerStrategy::RestoreSlotState(uint64_t closed) {
  const bool scales = LossScaler::IsFound(order_->spec().compute());
  if (residual_ == nullptr && !scales) return absl::OkStatus();
  // At any other clock, or with another job's weights, it belongs to something else.
  if (options_.checkpoints == nullptr || order_->restore_uri().empty() ||
      order_->restore_weights_only() || closed != order_->start_clock()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<CheckpointReader>> checkpoint =
      CheckpointReader::Open(*options_.checkpoints, order_->restore_uri());
  // Only servers need to reach checkpoints on this road; for one rounding step, or a loss scale
  // that is found anew, it is not worth ending the job.
  if (absl::IsNotFound(checkpoint.status())) {
    log_(absl::StrCat("slot ", order_->slot(), " cannot read ", order_->restore_uri(), " here: ",
                      residual_ == nullptr ? "its loss scale begins anew"
                                           : "what its pushes had rounded away before is dropped"));
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(DataLossIs(checkpoint.status(), LostState::kCheckpoint));
  if (scales) {
    const auto scale = (*checkpoint)->ReadLossScale(synchronous_ ? 0 : order_->slot());
    MUSTER_RETURN_IF_ERROR(DataLossIs(scale.status(), LostState::kCheckpoint));
    if (scale->has_value()) loss_scale_.GoOnWith(**scale);
  }
  if (residual_ == nullptr) return absl::OkStatus();
  return DataLossIs(
      residual_->Restore(**checkpoint, tables_.tensors, order_->slot(), order_->spec().workers()),
      LostState::kCheckpoint);
}

absl::Status ParameterServerStrategy::BeginStep(uint64_t clock) {
  clock_ = clock;
  micro_batches_ = 0;
  dense_slowest_ = kNoClock;
  rows_slowest_ = kNoClock;
  for (std::vector<DenseOperation>& pulls : dense_pulls_) {
    // What nobody has waited for may still be on its way to the same place.
    for (const DenseOperation& pull : pulls) MUSTER_RETURN_IF_ERROR(Await(pull.operation));
    pulls.clear();
  }
  copies_.Outdate();
  asked_bytes_ = 0;
  next_unit_ = 0;
  AskThrough(0);
  return absl::OkStatus();
}

DType ParameterServerStrategy::PulledType(const DenseRun& run) const {
  return wire_ == DType::kF32 ? pulled_.TypeOf(run) : wire_;
}

uint64_t ParameterServerStrategy::PulledBytes(const std::vector<DenseRun>& runs) const {
  uint64_t bytes = 0;
  for (const DenseRun& run : runs) bytes += PulledBytes(run);
  return bytes;
}

uint64_t ParameterServerStrategy::PushedBytes(const std::vector<DenseRun>& runs) const {
  uint64_t bytes = 0;
  for (const DenseRun& run : runs) bytes += PushedBytes(run);
  return bytes;
}

void ParameterServerStrategy::AskThrough(int unit) {
  for (; next_unit_ < units_; ++next_unit_) {
    const uint64_t bytes = PulledBytes(runs_[next_unit_]);
    if (next_unit_ > unit && asked_bytes_ + bytes > options_.pull_window_bytes) return;
    asked_bytes_ += bytes;
    for (const DenseRun& run : runs_[next_unit_]) {
      v1::ExchangeRequest request = At(clock_);
      request.mutable_dense_pull()->set_first_block(run.first_block);
      request.mutable_dense_pull()->set_blocks(run.blocks);
      request.mutable_dense_pull()->set_type(TypeOf(PulledType(run)));
      dense_pulls_[next_unit_].push_back(
          {&run, router_.Send(run.partition, std::move(request), Payload(),
                              ShardRouter::Order::kFree, LandingOf(run))});
    }
  }
}

absl::Span<std::byte> ParameterServerStrategy::LandingOf(const DenseRun& run) {
  if (PulledType(run) != pulled_.TypeOf(run)) return {};
  return pulled_.PlaceOf(run);
}

absl::Status ParameterServerStrategy::Acquire(int unit, Direction direction) {
  if (unit >= units_) return absl::OkStatus();  // A unit without dense tensors.
  AskThrough(unit + 1);
  for (const int tied : tied_units_[unit]) MUSTER_RETURN_IF_ERROR(AwaitPulls(tied));
  MUSTER_RETURN_IF_ERROR(AwaitPulls(unit));
  copies_.Refresh(unit);
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::AwaitPulls(int unit) {
  for (const DenseOperation& pull : dense_pulls_[unit]) {
    MUSTER_RETURN_IF_ERROR(Await(pull.operation));
    const ExchangeResult& result = pull.operation->result();
    MUSTER_RETURN_IF_ERROR(CheckLength(
        result.payload, PulledBytes(*pull.run),
        absl::StrCat("a dense pull at clock ", clock_, " on partition ", pull.run->partition)));
    if (LandingOf(*pull.run).empty()) pulled_.Take(*pull.run, wire_, result.payload);
    dense_slowest_ = std::min<uint64_t>(dense_slowest_, result.reply->slowest_clock());
    loss_scale_.TakeReply(clock_, *result.reply);
    counters_.bytes_pulled += result.payload.size();
    asked_bytes_ -= PulledBytes(*pull.run);
  }
  // Waited for once; backward and other passes of the same clock come here again.
  dense_pulls_[unit].clear();
  return absl::OkStatus();
}

int64_t ParameterServerStrategy::RowsPerMessage(size_t table) const {
  const uint64_t row_bytes = sizeof(uint64_t) + tables_.sparse[table].dim * SizeOf(wire_);
  return static_cast<int64_t>(std::max<uint64_t>(1, options_.max_message_bytes / row_bytes));
}

absl::Status ParameterServerStrategy::Prefetch(const MicroBatch& micro_batch) {
  for (size_t table = 0; table < tables_.sparse.size(); ++table) {
    const std::vector<uint64_t>& keys = micro_batch.sparse[table].keys;
    rows_pulls_[table].clear();
    for (RowGroup& group : GroupRows(keys, layout_.partitions(), RowsPerMessage(table))) {
      v1::ExchangeRequest request = At(clock_);
      request.mutable_sparse_pull()->set_table(table + 1);
      request.mutable_sparse_pull()->set_rows(group.positions.size());
      request.mutable_sparse_pull()->set_type(TypeOf(wire_));
      Payload payload = GatherKeys(group, keys);
      counters_.bytes_pushed += payload.size();
      counters_.other_bytes_sent += payload.size();
      Handle operation = router_.Send(group.partition, std::move(request), std::move(payload),
                                      ShardRouter::Order::kFree);
      rows_pulls_[table].push_back({std::move(group), std::move(operation)});
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::LookUp(MicroBatch& micro_batch) {
  for (size_t table = 0; table < tables_.sparse.size(); ++table) {
    const uint32_t dim = tables_.sparse[table].dim;
    SparseRows& rows = micro_batch.sparse[table];
    rows.rows.resize(rows.keys.size() * dim);
    for (RowsPull& pull : rows_pulls_[table]) {
      // Goes with its payload, whose memory may be the server's to send the next from.
      const Handle operation = std::move(pull.operation);
      MUSTER_RETURN_IF_ERROR(Await(operation));
      const ExchangeResult& result = operation->result();
      MUSTER_RETURN_IF_ERROR(CheckLength(
          result.payload, pull.group.positions.size() * dim * SizeOf(wire_),
          absl::StrCat("a sparse pull at clock ", clock_, " on partition ", pull.group.partition)));
      ScatterRows(pull.group, result.payload, wire_, dim, absl::MakeSpan(rows.rows));
      rows_slowest_ = std::min<uint64_t>(rows_slowest_, result.reply->slowest_clock());
      counters_.bytes_pulled += result.payload.size();
      counters_.other_bytes_received += result.payload.size();
    }
    rows_pulls_[table].clear();
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::CheckAllPulled() const {
  bool all = next_unit_ == units_;
  for (const std::vector<DenseOperation>& pulls : dense_pulls_) all &= pulls.empty();
  // In registered memory a synchronous server may still read what was pushed of a block, until it
  // has sent that block's new values.
  if (all && (!synchronous_ || layout_.elements() == 0 || dense_slowest_ >= clock_)) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("backward at clock ", clock_, " before all parameters of that clock have come"));
}

absl::Status ParameterServerStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  if (micro_batches_ == 0) {
    MUSTER_RETURN_IF_ERROR(CheckAllPulled());
    withdrawn_ = false;
    examples_ = 0;
    for (RowSum& rows : rows_) rows.Clear();
    for (std::vector<uint32_t>& counts : chunks_) std::fill(counts.begin(), counts.end(), 0);
    {
      const BlockedTime blocked(time_, counters_.exposed_seconds);
      gradient_arena_ = gradient_pool_.Acquire();
      if (residual_ != nullptr) residual_->BeginStep();
    }
    gradients_ = TensorSpans(layout_, tables_.tensors, gradient_arena_->values());
  }
  ++micro_batches_;
  examples_ += examples;
  position_ = position;
  if (position == SeriesPosition::kMoreFollow) return absl::OkStatus();

  const uint64_t slowest = std::min(dense_slowest_, rows_slowest_);
  const uint64_t staleness = slowest < clock_ ? clock_ - slowest : 0;
  counters_.staleness_sum += staleness;
  counters_.staleness_max = std::max(counters_.staleness_max, staleness);
  return absl::OkStatus();
}

void ParameterServerStrategy::Withdraw() {
  withdrawn_ = true;
  examples_ = 0;
  SetToZero(gradient_arena_->values().size(), gradient_arena_->values().data());
}

Payload ParameterServerStrategy::GradientOf(const DenseRun& run) {
  if (residual_ != nullptr && !withdrawn_) {
    return residual_->Round(run, gradient_arena_->values());
  }
  // Of a part that was taken back the arena holds zeros, as many of the wire's type from there on
  // as it takes; what the slot owes of the run stays owed.
  const float* first = gradient_arena_->values().data() + run.begin;
  const Payload::Span span(reinterpret_cast<const std::byte*>(first), PushedBytes(run));
  return Payload({span}, gradient_arena_);
}

absl::Status ParameterServerStrategy::AwaitPushWindow(uint64_t bytes) {
  while (!dense_pushes_.empty() && pushed_bytes_ + bytes > options_.push_window_bytes) {
    const DenseOperation& push = dense_pushes_.front();
    MUSTER_RETURN_IF_ERROR(Await(push.operation));
    pushed_bytes_ -= PushedBytes(*push.run);
    dense_pushes_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::GradientReady(int unit) {
  if (position_ == SeriesPosition::kMoreFollow || unit >= units_) return absl::OkStatus();
  if (loss_scaler() == nullptr) return PushUnit(unit);
  if (unit > 0) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const StepEnd end,
                          loss_scale_.TakeGradients(clock_, tables_.tensors, gradients_));
  if (end == StepEnd::kOverflowed) Withdraw();
  for (int ready = units_ - 1; ready >= 0; --ready) MUSTER_RETURN_IF_ERROR(PushUnit(ready));
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::PushUnit(int unit) {
  MUSTER_RETURN_IF_ERROR(AwaitPushWindow(PushedBytes(runs_[unit])));
  for (const DenseRun& run : runs_[unit]) {
    v1::ExchangeRequest request = At(clock_);
    request.mutable_dense_push()->set_first_block(run.first_block);
    request.mutable_dense_push()->set_blocks(run.blocks);
    request.mutable_dense_push()->set_examples(examples_);
    request.mutable_dense_push()->set_type(TypeOf(wire_));
    Payload payload = GradientOf(run);
    counters_.bytes_pushed += payload.size();
    Handle operation = router_.Send(run.partition, std::move(request), std::move(payload),
                                    ShardRouter::Order::kLane);
    dense_pushes_.push_back({&run, operation});
    pushed_bytes_ += PushedBytes(run);
    if (residual_ != nullptr && !withdrawn_ && first_step_) {
      first_pushes_.push_back({&run, std::move(operation)});
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterServerStrategy::PushRows(MicroBatch& micro_batch) {
  for (size_t table = 0; table < tables_.sparse.size(); ++table) {
    SparseRows& rows = micro_batch.sparse[table];
    RowSum& sum = rows_[table];
    const bool alone = position_ == SeriesPosition::kLast && sum.keys().empty();
    if (!alone) sum.Add(rows.keys, rows.gradients);
    if (position_ == SeriesPosition::kMoreFollow) continue;
    // The rows of a step's only micro-batch need no sum.
    if (!alone) sum.TakeSums(rows.gradients);
    PushTable(table, alone ? rows.keys : sum.keys(), rows.gradients);
  }
  return absl::OkStatus();
}

void ParameterServerStrategy::PushTable(size_t table, absl::Span<const uint64_t> keys,
                                        std::vector<float>& gradients) {
  RowCoding& coding = row_coding_[table];
  coding.draw = DrawOf(order_->slot(), clock_);
  const std::shared_ptr<const std::vector<float>> held = row_arrays_.Hold(gradients);
  const PushedRows pushed = {keys, *held, tables_.sparse[table].dim, held};
  for (const RowGroup& group : GroupRows(keys, layout_.partitions(), RowsPerMessage(table))) {
    v1::ExchangeRequest request = At(clock_);
    v1::SparsePush* push = request.mutable_sparse_push();
    push->set_type(TypeOf(wire_));
    push->set_table(table + 1);
    push->set_chunk(group.chunk);
    push->set_rows(group.positions.size());
    push->set_examples(examples_);
    Payload payload = GatherRows(group, pushed, coding, *row_memory_);
    counters_.bytes_pushed += payload.size();
    counters_.other_bytes_sent += payload.size();
    router_.Send(group.partition, std::move(request), std::move(payload),
                 ShardRouter::Order::kLane);
    ++chunks_[group.partition][table];
  }
}

absl::Status ParameterServerStrategy::EndStep() {
  for (uint32_t partition = 0; partition < layout_.partitions(); ++partition) {
    v1::ExchangeRequest request = At(clock_);
    v1::CloseClock* close = request.mutable_close();
    close->set_examples(examples_);
    for (uint32_t count : chunks_[partition]) close->add_sparse_chunks(count);
    close->set_no_dense(layout_.partition_blocks(partition).empty());
    loss_scale_.AddTo(*close);
    router_.Send(partition, std::move(request), Payload(), ShardRouter::Order::kLane);
  }
  // The transport may go on holding the arena for a while; the next step takes another.
  gradient_arena_.reset();
  if (residual_ != nullptr) residual_->EndStep();
  {
    const BlockedTime blocked(time_, counters_.exposed_seconds);
    MUSTER_RETURN_IF_ERROR(router_.WaitForLanes());
  }
  dense_pushes_.clear();
  pushed_bytes_ = 0;
  // Where the task that held this slot before had pushed this clock already, its value stands, and
  // what this one's rounding left is nobody's.
  for (const DenseOperation& push : first_pushes_) {
    if (push.operation->was_in()) residual_->Clear(*push.run);
  }
  first_pushes_.clear();
  first_step_ = false;
  router_.set_closed(clock_ + 1);
  return clips_ ? ExchangeNorms(clock_) : absl::OkStatus();
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
    MUSTER_ASSIGN_OR_RETURN(clipping,
                            options_.clipping != nullptr
                                ? options_.clipping(norms)
                                : ClipByNorm(layout_, tables_.sparse.size(), norms, max_norm_));
  }
  counters_.gradient_norm = clipping.norm;
  last_clipping_scale_ = clipping.scale;
  send_all(&clipping.scale);
  for (const Handle& operation : operations) MUSTER_RETURN_IF_ERROR(Await(operation));
  return absl::OkStatus();
}

Payload ParameterServerStrategy::CutPayload(CutOrder order, uint32_t partition) const {
  // One slot alone has the file written, from what all had sent when it was taken.
  const bool writes = order.step == CutOrder::Step::kWrite;
  if (partition == 0 && !writes) order.loss_scale = loss_scale_.of_slot();
  Payload head = EncodeCutOrder(order);
  if (residual_ == nullptr || writes) return head;
  std::string bytes(head.size(), '\0');
  head.CopyTo(bytes.data());
  residual_->Append(partition, bytes);
  return Payload::Copy({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

std::vector<ParameterServerStrategy::Handle> ParameterServerStrategy::SendCut(
    uint64_t clock, const CutOrder& order) {
  std::vector<Handle> operations;
  for (uint32_t partition = 0; partition < layout_.partitions(); ++partition) {
    v1::ExchangeRequest request = At(clock);
    request.mutable_cut();
    operations.push_back(router_.Send(partition, std::move(request), CutPayload(order, partition),
                                      ShardRouter::Order::kFree));
  }
  return operations;
}

absl::StatusOr<CutFiles> ParameterServerStrategy::AwaitCut(const std::vector<Handle>& operations) {
  CutFiles files;
  for (const Handle& operation : operations) {
    MUSTER_RETURN_IF_ERROR(router_.Wait(operation));
    const v1::ExchangeReply& reply = *operation->result().reply;
    const size_t partition = files.by_partition.size();
    if (reply.checkpoint_path().empty() && files.failure.empty()) {
      files.failure = absl::StrCat("partition ", partition, " has no file: ", reply.message());
    }
    files.by_partition.push_back(FileOf(partition, reply));
  }
  return files;
}

absl::StatusOr<CutFiles> ParameterServerStrategy::Cut(uint64_t clock) {
  return AwaitCut(SendCut(clock, CutOrder()));
}

absl::Status ParameterServerStrategy::Take(uint64_t clock) {
  // Whether there is a view is for who writes.
  for (const Handle& take : SendCut(clock, {.step = CutOrder::Step::kTake, .base = {}})) {
    MUSTER_RETURN_IF_ERROR(router_.Wait(take));
  }
  return absl::OkStatus();
}

void ParameterServerStrategy::Write(uint64_t clock, absl::optional<uint64_t> base) {
  writes_ = SendCut(clock, {.step = CutOrder::Step::kWrite, .base = base});
}

bool ParameterServerStrategy::Written() const {
  return std::all_of(writes_.begin(), writes_.end(),
                     [](const Handle& write) { return write->done(); });
}

absl::StatusOr<CutFiles> ParameterServerStrategy::AwaitFiles() {
  return AwaitCut(std::exchange(writes_, {}));
}

}  // namespace muster
