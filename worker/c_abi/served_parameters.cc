#include "worker/c_abi/served_parameters.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/fingerprint.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/kernels/gemm/row_sums.h"
#include "common/partition/schema.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/rpc_credentials.h"
#include "worker/c_abi/initial_values.h"

namespace muster {
namespace {

// Each rank's gradient counts alike, so that the step's is their mean.
constexpr uint64_t kWeight = 1;

// Returns the schema with the division that the job says, and with each tensor as a unit.
v1::TablesSchema Divided(const v1::TablesSchema& given, const v1::UpdateSpec& update) {
  v1::TablesSchema schema = given;
  const DenseLayout::Options layout = LayoutOptions(update);
  schema.set_partitions(layout.partitions);
  schema.set_block_bytes(layout.block_bytes);
  schema.set_own_steps(true);
  for (int i = 0; i < schema.tensors_size(); ++i) {
    schema.mutable_tensors(i)->set_unit(static_cast<uint32_t>(i));
  }
  return schema;
}

uint64_t FingerprintOf(absl::Span<const float> values) {
  return Fingerprint({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

}  // namespace

ServedParameters::ServedParameters(const v1::TablesSchema& schema) : schema_(schema) {
  for (const v1::SparseTableSchema& table : schema_.sparse()) tables_.emplace_back(table.dim());
  rows_.sparse.resize(tables_.size());
}

absl::StatusOr<std::unique_ptr<ServedParameters>> ServedParameters::Open(Options options) {
  const v1::TablesSchema schema = Divided(options.schema, options.order.spec().update());
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  if (schema.optimizer().name() == "muon") {
    return absl::InvalidArgumentError(
        "the optimizer is muon: which of a program's tensors are matrices of hidden layers is not "
        "known here; take another optimizer, such as adamw");
  }
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

void ServedParameters::TableStep::Clear() {
  open = 0;
  keys.clear();
  gradients.clear();
  sum.Clear();
  pushed = false;
}

absl::Status ServedParameters::BeginStep() {
  const auto tensors = static_cast<size_t>(schema_.tensors_size());
  acquired_.assign(tensors, false);
  fingerprints_.assign(tensors, 0);
  pushed_.assign(tensors, false);
  takes_gradients_ = false;
  look_ups_.clear();
  for (TableStep& table : tables_) table.Clear();
  return strategy_->BeginStep(clock_);
}

absl::Span<const float> ServedParameters::ValuesOf(int tensor) const {
  return strategy_->parameters().values[tensor];
}

absl::Status ServedParameters::Acquire(int tensor) {
  absl::MutexLock lock(&mutex_);
  return AcquireLocked(tensor);
}

absl::Status ServedParameters::AcquireLocked(int tensor) {
  if (acquired_[tensor]) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(strategy_->Acquire(tensor, Direction::kForward));
  acquired_[tensor] = true;
  fingerprints_[tensor] = FingerprintOf(ValuesOf(tensor));
  return absl::OkStatus();
}

absl::Status ServedParameters::CheckUnchanged(int tensor) const {
  if (!acquired_[tensor] || fingerprints_[tensor] == FingerprintOf(ValuesOf(tensor))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      schema_.tensors(tensor).name(), " was changed by hand in step ", clock_,
      ", but its values are the servers', and only their optimizer changes them; load or set "
      "values before the ParameterServer is made"));
}

absl::Status ServedParameters::CheckFinite(absl::string_view what,
                                           absl::Span<const float> gradient) const {
  if (AllFinite(static_cast<int64_t>(gradient.size()), gradient.data())) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "the gradient of ", what, " is not finite in step ", clock_, ", and was not sent",
      takes_gradients_ ? "" : "; zero_grad() drops the step, which can then be made anew"));
}

absl::Status ServedParameters::BeginGradients() {
  if (takes_gradients_) return absl::OkStatus();
  for (int tensor = 0; tensor < schema_.tensors_size(); ++tensor) {
    MUSTER_RETURN_IF_ERROR(AcquireLocked(tensor));
  }
  MUSTER_RETURN_IF_ERROR(strategy_->BeforeBackward(kWeight, SeriesPosition::kLast));
  takes_gradients_ = true;
  return absl::OkStatus();
}

absl::Status ServedParameters::PushGradient(int tensor, const float* gradient) {
  absl::MutexLock lock(&mutex_);
  const std::string& name = schema_.tensors(tensor).name();
  if (pushed_[tensor]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the gradient of ", name, " has been pushed at step ", clock_,
        " already; call step() after each backward, or run all but the last backward of a step in "
        "accumulate()"));
  }
  MUSTER_RETURN_IF_ERROR(CheckFinite(name, {gradient, ValuesOf(tensor).size()}));
  return PushLocked(tensor, gradient);
}

absl::Status ServedParameters::PushLocked(int tensor, const float* gradient) {
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  pushed_[tensor] = true;
  if (gradient == nullptr) return strategy_->NoGradient(tensor);
  const absl::Span<float> place = strategy_->gradients()[tensor];
  std::memcpy(place.data(), gradient, place.size() * sizeof(float));
  return strategy_->GradientReady(tensor);
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
                                                Push push) {
  absl::MutexLock lock(&mutex_);
  const auto found = look_ups_.find(number);
  if (found == look_ups_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients of rows came at step ", clock_,
                     " for a look-up of an earlier or dropped step, or for the second time"));
  }
  OpenLookUp look_up = std::move(found->second);
  look_ups_.erase(found);
  TableStep& table = tables_[look_up.table];
  const std::string& name = schema_.sparse(look_up.table).name();
  if (table.pushed) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", name, " were looked up after their gradients had been pushed at ",
                     "step ", clock_,
                     "; call step() after each backward, or run all but the last backward of a "
                     "step in accumulate()"));
  }
  const size_t dim = schema_.sparse(look_up.table).dim();
  std::vector<float> sums(look_up.keys.size() * dim, 0.0f);
  for (size_t i = 0; i < look_up.inverse.size(); ++i) {
    float* const sum = &sums[static_cast<size_t>(look_up.inverse[i]) * dim];
    for (size_t j = 0; j < dim; ++j) sum[j] += gradients[i * dim + j];
  }
  --table.open;
  if (table.keys.empty() && table.sum.keys().empty()) {
    // A step's only look-up needs no other sum.
    table.keys = std::move(look_up.keys);
    table.gradients = std::move(sums);
  } else {
    table.sum.Add(std::exchange(table.keys, {}), std::exchange(table.gradients, {}));
    table.sum.Add(look_up.keys, sums);
  }
  if (push == Push::kAtEnd || table.open > 0) return absl::OkStatus();
  SumRows(table);
  MUSTER_RETURN_IF_ERROR(CheckFinite(absl::StrCat("rows of ", name), table.gradients));
  return PushRows(look_up.table);
}

void ServedParameters::SumRows(TableStep& table) {
  if (table.sum.keys().empty()) return;
  // Rows may come after a step that could not be ended.
  table.sum.Add(std::exchange(table.keys, {}), std::exchange(table.gradients, {}));
  table.keys = table.sum.keys();
  table.sum.TakeSums(table.gradients);
  table.sum.Clear();
}

absl::Status ServedParameters::PushRows(int table) {
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  SparseRows& rows = rows_.sparse[table];
  rows.keys = std::move(tables_[table].keys);
  rows.gradients = std::move(tables_[table].gradients);
  tables_[table].pushed = true;
  const absl::Status pushed = strategy_->PushRows(rows_);
  rows.keys.clear();
  return pushed;
}

absl::Status ServedParameters::Drop() {
  absl::MutexLock lock(&mutex_);
  if (takes_gradients_) {
    return absl::FailedPreconditionError(
        absl::StrCat("gradients of step ", clock_,
                     " have been pushed, so it cannot be dropped; with "
                     "push=\"step\" nothing is pushed before step()"));
  }
  look_ups_.clear();
  for (TableStep& table : tables_) table.Clear();
  return absl::OkStatus();
}

absl::Status ServedParameters::EndStep(absl::Span<const float* const> gradients) {
  absl::MutexLock lock(&mutex_);
  for (int tensor = 0; tensor < schema_.tensors_size(); ++tensor) {
    MUSTER_RETURN_IF_ERROR(CheckUnchanged(tensor));
    if (pushed_[tensor] || gradients[tensor] == nullptr) continue;
    MUSTER_RETURN_IF_ERROR(
        CheckFinite(schema_.tensors(tensor).name(), {gradients[tensor], ValuesOf(tensor).size()}));
  }
  for (size_t i = 0; i < tables_.size(); ++i) {
    SumRows(tables_[i]);
    MUSTER_RETURN_IF_ERROR(
        CheckFinite(absl::StrCat("rows of ", schema_.sparse(static_cast<int>(i)).name()),
                    tables_[i].gradients));
  }
  MUSTER_RETURN_IF_ERROR(BeginGradients());
  for (int tensor = schema_.tensors_size() - 1; tensor >= 0; --tensor) {
    if (!pushed_[tensor]) MUSTER_RETURN_IF_ERROR(PushLocked(tensor, gradients[tensor]));
  }
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (!tables_[i].keys.empty()) MUSTER_RETURN_IF_ERROR(PushRows(static_cast<int>(i)));
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
