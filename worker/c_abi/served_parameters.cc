#include "worker/c_abi/served_parameters.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/partition/schema.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/rpc_credentials.h"
#include "worker/c_abi/initial_values.h"

namespace muster {
namespace {

// Each rank's gradient counts alike, so that the step's is their mean.
constexpr uint64_t kWeight = 1;

// Returns the schema with the division that the job says.
v1::TablesSchema Divided(const v1::TablesSchema& given, const v1::UpdateSpec& update) {
  v1::TablesSchema schema = given;
  const DenseLayout::Options layout = LayoutOptions(update);
  schema.set_partitions(layout.partitions);
  schema.set_block_bytes(layout.block_bytes);
  return schema;
}

// Checks that units are numbered without gaps, so that there are no more of them than tensors.
absl::Status CheckUnits(const v1::TablesSchema& schema) {
  std::vector<bool> found(static_cast<size_t>(schema.tensors_size()), false);
  int64_t units = 0;
  for (const v1::TensorSchema& tensor : schema.tensors()) {
    if (tensor.unit() < found.size()) found[tensor.unit()] = true;
    units = std::max(units, int64_t{tensor.unit()} + 1);
  }
  if (std::count(found.begin(), found.end(), true) == units) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schema: the last unit of tensors is ", units - 1,
                   ", and one before it has none; number units from 0 without gaps"));
}

}  // namespace

ServedParameters::ServedParameters(const v1::TablesSchema& schema) : schema_(schema) {
  for (const v1::TensorSchema& tensor : schema_.tensors()) {
    if (tensor.unit() >= unit_tensors_.size()) unit_tensors_.resize(tensor.unit() + 1);
    ++unit_tensors_[tensor.unit()];
  }
  for (const v1::SparseTableSchema& table : schema_.sparse()) tables_.emplace_back(table.dim());
  rows_.sparse.resize(tables_.size());
}

absl::StatusOr<std::unique_ptr<ServedParameters>> ServedParameters::Open(Options options) {
  const v1::TablesSchema schema = Divided(options.schema, options.order.spec().update());
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  MUSTER_RETURN_IF_ERROR(CheckUnits(schema));
  std::unique_ptr<ServedParameters> served(new ServedParameters(schema));
  MUSTER_RETURN_IF_ERROR(served->Start(options));
  return served;
}

absl::Status ServedParameters::Start(const Options& options) {
  v1::TaskOrder order = options.order;
  if (options.begins && !options.values.empty()) {
    if (order.slot() == 0) {
      MUSTER_RETURN_IF_ERROR(WriteInitialValues(storage_, order, schema_, options.values));
    } else {
      MUSTER_RETURN_IF_ERROR(AwaitInitialValues(storage_, order, waiter_));
    }
    order.set_restore_uri(InitialValuesFolder(order));
    order.set_restore_weights_only(true);
  }
  MUSTER_ASSIGN_OR_RETURN(const RpcCredentials credentials,
                          RpcCredentials::Of(options.tls, TlsUse::kCalls));
  MUSTER_ASSIGN_OR_RETURN(
      io_, ChannelIo::Create({.threads = credentials.encrypted() ? TlsIoThreads() : 0}));
  // The address range is as large as the memory; only touched pages take memory.
  MUSTER_ASSIGN_OR_RETURN(memory_, RegisteredMemory::Create(FindUsableResources().memory_bytes));
  ParameterServerStrategy::Options strategy;
  strategy.registered_memory = memory_;
  ShardRouterDependencies routing;
  routing.make_client = [io = io_, credentials, memory = memory_](const std::string& address) {
    DataChannelClientOptions client;
    client.registered_memory = memory;
    return MakeDataChannelClient(address, credentials, io, std::move(client));
  };
  routing.newest_shard_map = options.newest_shard_map;
  routing.log = options.log;
  routing.clock = &time_;
  routing.waiter = &waiter_;
  MUSTER_ASSIGN_OR_RETURN(strategy_, ParameterServerStrategy::Create(
                                         order, schema_, std::move(strategy), std::move(routing)));
  absl::MutexLock lock(&mutex_);
  MUSTER_ASSIGN_OR_RETURN(clock_, strategy_->Start());
  return BeginStep();
}

uint64_t ServedParameters::clock() const {
  absl::MutexLock lock(&mutex_);
  return clock_;
}

const float* ServedParameters::parameter(int tensor) const {
  absl::MutexLock lock(&mutex_);
  return strategy_->parameters().values[tensor].data();
}

absl::Status ServedParameters::BeginStep() {
  acquired_.assign(unit_tensors_.size(), false);
  takes_gradients_ = false;
  taken_.assign(static_cast<size_t>(schema_.tensors_size()), false);
  missing_ = unit_tensors_;
  look_ups_.clear();
  for (TableStep& table : tables_) {
    table.open = 0;
    table.sum.Clear();
    table.pushed = false;
  }
  return strategy_->BeginStep(clock_);
}

absl::Status ServedParameters::Acquire(int unit) {
  absl::MutexLock lock(&mutex_);
  return AcquireLocked(unit);
}

absl::Status ServedParameters::AcquireLocked(int unit) {
  if (acquired_[unit]) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(strategy_->Acquire(unit, Direction::kForward));
  acquired_[unit] = true;
  return absl::OkStatus();
}

absl::Status ServedParameters::BeginGradients() {
  if (takes_gradients_) return absl::OkStatus();
  for (size_t unit = 0; unit < acquired_.size(); ++unit) {
    MUSTER_RETURN_IF_ERROR(AcquireLocked(static_cast<int>(unit)));
  }
  MUSTER_RETURN_IF_ERROR(strategy_->BeforeBackward(kWeight, SeriesPosition::kLast));
  takes_gradients_ = true;
  return absl::OkStatus();
}

absl::Status ServedParameters::TakeGradient(int tensor, const float* gradient) {
  absl::MutexLock lock(&mutex_);
  return TakeGradientLocked(tensor, gradient);
}

absl::Status ServedParameters::TakeGradientLocked(int tensor, const float* gradient) {
  if (taken_[tensor]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the gradient of ", schema_.tensors(tensor).name(), " has been pushed at step ", clock_,
        " already; call step() after each backward, or run all but the last backward of a step in "
        "accumulate()"));
  }
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  const absl::Span<float> place = strategy_->gradients()[tensor];
  if (gradient != nullptr) {
    std::memcpy(place.data(), gradient, place.size() * sizeof(float));
  } else {
    std::fill(place.begin(), place.end(), 0.0f);
  }
  taken_[tensor] = true;
  const int unit = static_cast<int>(schema_.tensors(tensor).unit());
  return --missing_[unit] > 0 ? absl::OkStatus() : strategy_->GradientReady(unit);
}

absl::StatusOr<uint64_t> ServedParameters::LookUp(int table, absl::Span<const uint64_t> keys,
                                                  float* rows, Follows follows) {
  absl::MutexLock lock(&mutex_);
  OpenLookUp look_up{.table = table, .keys = {}, .inverse = {}};
  SparseRows& found = rows_.sparse[table];
  deduplicator_.Build(keys, found.keys, look_up.inverse);
  absl::Status status = strategy_->Prefetch(rows_);
  if (status.ok()) status = strategy_->LookUp(rows_);
  look_up.keys = std::exchange(found.keys, {});
  MUSTER_RETURN_IF_ERROR(status);
  const size_t dim = schema_.sparse(table).dim();
  for (size_t i = 0; i < keys.size(); ++i) {
    std::memcpy(rows + i * dim, &found.rows[static_cast<size_t>(look_up.inverse[i]) * dim],
                dim * sizeof(float));
  }
  if (follows == Follows::kNothing) return 0;
  ++tables_[table].open;
  look_ups_.emplace(++last_look_up_, std::move(look_up));
  return last_look_up_;
}

absl::Status ServedParameters::TakeRowGradients(uint64_t number, const float* gradients,
                                                SeriesPosition position) {
  absl::MutexLock lock(&mutex_);
  const auto found = look_ups_.find(number);
  if (found == look_ups_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients of rows came at step ", clock_,
                     " for a look-up of an earlier step, or for the second time"));
  }
  const OpenLookUp look_up = std::move(found->second);
  look_ups_.erase(found);
  TableStep& table = tables_[look_up.table];
  if (table.pushed) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", schema_.sparse(look_up.table).name(),
                     " were looked up after their gradients "
                     "had been pushed at step ",
                     clock_,
                     "; call step() after each backward, or run all but the "
                     "last backward of a step in accumulate()"));
  }
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  const size_t dim = schema_.sparse(look_up.table).dim();
  SparseRows& rows = rows_.sparse[look_up.table];
  rows.gradients.assign(look_up.keys.size() * dim, 0.0f);
  for (size_t i = 0; i < look_up.inverse.size(); ++i) {
    float* const sum = &rows.gradients[static_cast<size_t>(look_up.inverse[i]) * dim];
    for (size_t j = 0; j < dim; ++j) sum[j] += gradients[i * dim + j];
  }
  --table.open;
  const bool complete = table.open == 0 && position == SeriesPosition::kLast;
  if (complete && table.sum.keys().empty()) {
    // A step's only look-up needs no other sum.
    table.pushed = true;
    rows.keys = look_up.keys;
    const absl::Status pushed = strategy_->PushRows(rows_);
    rows.keys.clear();
    return pushed;
  }
  table.sum.Add(look_up.keys, rows.gradients);
  return complete ? PushSum(look_up.table) : absl::OkStatus();
}

absl::Status ServedParameters::PushSum(int table) {
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  SparseRows& rows = rows_.sparse[table];
  rows.keys = tables_[table].sum.keys();
  tables_[table].sum.TakeSums(rows.gradients);
  tables_[table].pushed = true;
  const absl::Status pushed = strategy_->PushRows(rows_);
  rows.keys.clear();
  return pushed;
}

absl::Status ServedParameters::EndStep() {
  absl::MutexLock lock(&mutex_);
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  for (int tensor = 0; tensor < schema_.tensors_size(); ++tensor) {
    if (!taken_[tensor]) MUSTER_RETURN_IF_ERROR(TakeGradientLocked(tensor, nullptr));
  }
  for (size_t table = 0; table < tables_.size(); ++table) {
    // Look-ups whose gradients never came held the others' back.
    if (tables_[table].pushed || tables_[table].sum.keys().empty()) continue;
    MUSTER_RETURN_IF_ERROR(PushSum(static_cast<int>(table)));
  }
  MUSTER_RETURN_IF_ERROR(strategy_->EndStep());
  ++clock_;
  return BeginStep();
}

absl::StatusOr<CutFiles> ServedParameters::Cut(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  if (takes_gradients_) {
    return absl::FailedPreconditionError(
        absl::StrCat("gradients of step ", clock_,
                     " have been pushed; make checkpoints between step() and the "
                     "next backward"));
  }
  absl::Notification ended;
  bool late = false;
  std::thread deadline([&] {
    late = !ended.WaitForNotificationWithTimeout(timeout);
    if (late) strategy_->EndWaits("its cut takes too long");
  });
  // An exception would leave the thread behind.
  absl::StatusOr<CutFiles> files =
      CatchOutOfMemory("the cut", [this] { return strategy_->Cut(clock_); });
  ended.Notify();
  deadline.join();
  if (late) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the cut at step ", clock_, " did not end within ", absl::FormatDuration(timeout),
        "; a server is lost, or a rank has not ended as many steps (if they only take long, raise "
        "the checkpoint's timeout)"));
  }
  MUSTER_RETURN_IF_ERROR(files.status());
  if (!files->failure.empty()) return absl::FailedPreconditionError(files->failure);
  return files;
}

}  // namespace muster
