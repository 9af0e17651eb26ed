#include "worker/strategy/group/data_parallel_strategy.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/global_norm.h"

namespace muster {
namespace {

bool IsHybrid(const v1::TaskOrder& order, const v1::TablesSchema& schema) {
  return schema.sparse_size() > 0 &&
         order.spec().update().sparse() == v1::UpdateSpec::PARAMETER_SERVER;
}

GradientReducerOptions Reducing(const v1::UpdateSpec& update, absl::Duration timeout) {
  GradientReducerOptions reducing;
  reducing.wire = update.wire() == v1::UpdateSpec::BF16 ? DType::kBf16 : DType::kF32;
  reducing.deterministic = update.deterministic();
  reducing.timeout = timeout;
  return reducing;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataParallelStrategy>> DataParallelStrategy::Create(
    const v1::TaskOrder& order, const v1::TablesSchema& schema, const DataParallelOptions& options,
    DataParallelDependencies dependencies) {
  const bool hybrid = IsHybrid(order, schema);
  v1::TablesSchema held_here = schema;
  if (hybrid) held_here.clear_sparse();
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<KeptShard> kept,
                          KeptShard::Create(order, held_here,
                                            {.storage = dependencies.storage,
                                             .timeout = options.storage_timeout,
                                             .log = dependencies.log}));
  std::unique_ptr<DataParallelStrategy> strategy(
      new DataParallelStrategy(order, held_here, options, dependencies, std::move(kept)));
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

DataParallelStrategy::DataParallelStrategy(const v1::TaskOrder& order,
                                           const v1::TablesSchema& schema,
                                           const DataParallelOptions& options,
                                           const DataParallelDependencies& dependencies,
                                           std::unique_ptr<KeptShard> kept)
    : options_(options),
      clock_(*dependencies.clock),
      reducing_(Reducing(order.spec().update(), options.timeout)),
      clips_by_norm_(schema.clipping().by_global_norm() > 0),
      kept_(std::move(kept)),
      copies_(own().tables().tensors, {own().parameters(), {}}),
      plan_(MakeBucketPlan(own().layout(), own().tables().tensors,
                           BucketPlanOptionsOf(order.spec().update()))),
      gradients_(own().tables().tensors.size()) {
  for (const SparseTableSpec& table : own().tables().sparse) {
    rows_.emplace_back(table.dim);
    row_sums_.emplace_back(table.dim);
  }
}

DataParallelStrategy::~DataParallelStrategy() { Leave(); }

void DataParallelStrategy::Leave() {
  reducer_.reset();
  gradients_.assign(gradients_.size(), absl::Span<float>());
  communicator_.reset();
}

absl::Status DataParallelStrategy::Join(std::unique_ptr<Communicator> communicator,
                                        absl::optional<int> source) {
  Leave();
  communicator_ = std::move(communicator);
  MUSTER_RETURN_IF_ERROR(kept_->Fill(*communicator_, source));
  MUSTER_ASSIGN_OR_RETURN(reducer_, GradientReducer::Create(*communicator_, plan_,
                                                            own().layout().elements(), reducing_));
  gradients_ = TensorSpans(own().layout(), own().tables().tensors, reducer_->gradients());
  sums_ = own().PartSlices(reducer_->gradients());
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DataParallelStrategy::Start() {
  if (reducer_ == nullptr) {
    return absl::FailedPreconditionError("the strategy starts before it joined the other workers");
  }
  if (servers_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t closed, servers_->Start());
    if (closed != own().clock()) {
      return absl::AbortedError(absl::StrCat("servers hold ", closed,
                                             " steps of this worker's slot, its replica ",
                                             own().clock(), "; the job must return to a cut"));
    }
  }
  return own().clock();
}

absl::Status DataParallelStrategy::BeginStep(uint64_t clock) {
  if (reducer_ == nullptr) {
    return absl::FailedPreconditionError("a step begins before the workers have met");
  }
  if (clock != own().clock()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a step begins at clock ", clock, ", but the replica is at ", own().clock()));
  }
  copies_.Outdate();
  micro_batches_ = 0;
  return servers_ == nullptr ? absl::OkStatus() : servers_->BeginStep(clock);
}

absl::Status DataParallelStrategy::Acquire(int unit, Direction direction) {
  copies_.Refresh(unit);
  return absl::OkStatus();
}

absl::Status DataParallelStrategy::Prefetch(const MicroBatch& micro_batch) {
  return servers_ == nullptr ? absl::OkStatus() : servers_->Prefetch(micro_batch);
}

absl::Status DataParallelStrategy::LookUp(MicroBatch& micro_batch) {
  if (servers_ != nullptr) return servers_->LookUp(micro_batch);
  for (size_t table = 0; table < rows_.size(); ++table) {
    SparseRows& sparse = micro_batch.sparse[table];
    sparse.rows.resize(sparse.keys.size() * rows_[table].dim());
    own().LookUp(table, sparse.keys, absl::MakeSpan(sparse.rows));
  }
  return absl::OkStatus();
}

absl::Status DataParallelStrategy::BeforeBackward(uint64_t examples, SeriesPosition position) {
  if (++micro_batches_ == 1) {
    examples_ = 0;
    for (RowSum& rows : rows_) rows.Clear();
    traffic_ = communicator_->traffic();
  }
  examples_ += examples;
  position_ = position;
  return servers_ == nullptr ? absl::OkStatus() : servers_->BeforeBackward(examples, position);
}

absl::Status DataParallelStrategy::GradientReady(int unit) {
  if (position_ == SeriesPosition::kLast) reducer_->UnitReady(unit);
  return absl::OkStatus();
}

absl::Status DataParallelStrategy::PushRows(MicroBatch& micro_batch) {
  if (servers_ != nullptr) return servers_->PushRows(micro_batch);
  for (size_t table = 0; table < rows_.size(); ++table) {
    rows_[table].Add(micro_batch.sparse[table].keys, micro_batch.sparse[table].gradients);
  }
  return absl::OkStatus();
}

void DataParallelStrategy::CountTraffic(uint64_t& sent, uint64_t& received) {
  const CollectiveTraffic now = communicator_->traffic();
  sent += now.sent - traffic_.sent;
  received += now.received - traffic_.received;
  traffic_ = now;
}

absl::StatusOr<GradientSums> DataParallelStrategy::CollectSums() {
  const BlockedTime blocked(clock_, counters_.exposed_seconds);
  MUSTER_RETURN_IF_ERROR(reducer_->Finish());
  CountTraffic(counters_.bytes_sent, counters_.bytes_received);
  GradientSums sums;
  MUSTER_ASSIGN_OR_RETURN(sums.examples,
                          row_exchange_.Run(*communicator_, options_.timeout, examples_, rows_,
                                            absl::MakeSpan(row_sums_)));
  CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
  sums.dense = sums_;
  sums.rows = row_sums_;
  return sums;
}

absl::StatusOr<double> DataParallelStrategy::CloseServers(const GradientSums& sums) {
  closing_ = &sums;
  absl::Status closed = servers_->EndStep();
  closing_ = nullptr;
  // A norm that is not finite is found by the first slot alone, and ends the job on all.
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
  MUSTER_RETURN_IF_ERROR(communicator_->Run(broadcast));
  CountTraffic(counters_.other_bytes_sent, counters_.other_bytes_received);
  if (!closed.ok()) return closed;
  if (std::isnan(scale)) {
    return absl::OutOfRangeError(
        "diverged: the gradient's norm is not finite; lower the learning rate");
  }
  return scale;
}

absl::Status DataParallelStrategy::EndStep() {
  MUSTER_ASSIGN_OR_RETURN(const GradientSums sums, CollectSums());
  const uint64_t clock = own().clock();
  MUSTER_ASSIGN_OR_RETURN(const StepEnd end,
                          kept_->loss_scaling().EndStep(clock, own().tables().tensors, gradients_));
  counters_.gradient_norm.reset();
  if (end == StepEnd::kOverflowed) {
    own().set_clock(clock + 1);
    return absl::OkStatus();
  }
  double scale = 1;
  if (servers_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(scale, CloseServers(sums));
  } else {
    MUSTER_ASSIGN_OR_RETURN(const NormClipping clipping, own().Clipping(sums));
    counters_.gradient_norm = clipping.norm;
    scale = clipping.scale;
  }
  own().Apply(sums, scale);
  return absl::OkStatus();
}

absl::StatusOr<CutFiles> DataParallelStrategy::Cut(uint64_t clock) {
  if (reducer_ == nullptr || clock != own().clock()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a cut at clock ", clock, " was asked for, but the replica is at ", own().clock()));
  }
  CutFiles servers;
  if (servers_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(servers, servers_->Cut(clock));
  }
  const uint32_t first_number = servers_ == nullptr ? 0 : own().layout().partitions();
  MUSTER_ASSIGN_OR_RETURN(CutFiles files,
                          kept_->Cut(*communicator_, first_number, servers.failure));
  files.by_partition.insert(files.by_partition.begin(), servers.by_partition.begin(),
                            servers.by_partition.end());
  return files;
}

absl::StatusOr<CutEnd> DataParallelStrategy::EndCut(CutEnd mine) {
  return kept_->EndCut(*communicator_, mine);
}

StrategyCounters DataParallelStrategy::counters() const {
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
