#include "worker/strategy/group/served_group.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/mesh/tensor_ranks.h"
#include "common/partition/schema.h"
#include "worker/strategy/blocked_time.h"

namespace muster {

ServedGroup::ServedGroup(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                         const Options& options, ShardRouterDependencies routing)
    : order_(order), schema_(schema), options_(options), routing_(std::move(routing)) {}

ServedGroup::~ServedGroup() { Leave(); }

absl::Status ServedGroup::Join(std::unique_ptr<Communicator> communicator,
                               absl::optional<int> source) {
  Leave();
  const int ranks = static_cast<int>(TensorRanks(order_.spec()));
  const int rank = static_cast<int>(order_.slot()) % ranks;
  MUSTER_ASSIGN_OR_RETURN(
      groups_,
      RankGroups::Create(std::move(communicator), {.tensor_rank = rank, .tensor_ranks = ranks}));
  Communicator& group = *groups_->tensor_group();
  tensor_group_ = std::make_unique<CommunicatorTensorGroup>(
      group, options_.timeout, [this](Communicator& among, const CollectiveCall& call) {
        const BlockedTime blocked(*routing_.clock, exposed_seconds_);
        return among.Run(call);
      });
  MUSTER_ASSIGN_OR_RETURN(const Tables tables, LocalTables(schema_, ranks, rank));
  MUSTER_ASSIGN_OR_RETURN(shared_gradients_,
                          SharedGradients::Create(group, tables.tensors,
                                                  {.divides_tokens = DividesTokens(order_.spec()),
                                                   .timeout = options_.timeout}));
  ParameterServerStrategy::Options servers = options_.servers;
  servers.registered_memory = nullptr;
  servers.peers = this;
  MUSTER_ASSIGN_OR_RETURN(strategy_,
                          ParameterServerStrategy::Create(order_, schema_, servers, routing_));
  order_.set_expect_state(true);
  absl::MutexLock lock(&mutex_);
  waiting_ = strategy_.get();
  return absl::OkStatus();
}

void ServedGroup::EndWaits(absl::string_view reason) {
  absl::MutexLock lock(&mutex_);
  if (waiting_ != nullptr) waiting_->EndWaits(reason);
}

void ServedGroup::Leave() {
  {
    absl::MutexLock lock(&mutex_);
    waiting_ = nullptr;
  }
  if (strategy_ != nullptr && strategy_->closed().has_value()) clock_ = strategy_->closed();
  strategy_.reset();
  shared_gradients_.reset();
  tensor_group_.reset();
  groups_.reset();
}

std::vector<const FlightRecorder*> ServedGroup::recorders() const {
  if (groups_ == nullptr) return {};
  std::vector<const FlightRecorder*> recorders = groups_->recorders();
  if (shared_gradients_ == nullptr) return recorders;
  for (const FlightRecorder* recorder : shared_gradients_->recorders()) {
    recorders.push_back(recorder);
  }
  return recorders;
}

absl::StatusOr<uint64_t> ServedGroup::Least(absl::string_view what, uint64_t value) {
  const BlockedTime blocked(*routing_.clock, exposed_seconds_);
  int64_t least = static_cast<int64_t>(value);
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.reduction = Reduction::kMin;
  call.dtype = DType::kInt64;
  call.in = call.out = &least;
  call.count = 1;
  call.timeout = options_.timeout;
  call.label = what;
  MUSTER_RETURN_IF_ERROR(groups_->tensor_group()->Run(call));
  return static_cast<uint64_t>(least);
}

absl::Status ServedGroup::SumShared(int unit, GradientSpans gradients) {
  const BlockedTime blocked(*routing_.clock, exposed_seconds_);
  return shared_gradients_->Sum(unit, gradients);
}

void ServedGroup::AddTo(StrategyCounters& counters) const {
  const CollectiveTraffic own = groups_->tensor_group()->traffic();
  const CollectiveTraffic shared = shared_gradients_->traffic();
  counters.tensor_bytes_sent += own.sent + shared.sent;
  counters.tensor_bytes_received += own.received + shared.received;
  counters.exposed_seconds += exposed_seconds_;
}

}  // namespace muster
