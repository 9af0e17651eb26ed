#include "worker/strategy/group/served_group.h"

#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/work.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/partition/schema.h"
#include "worker/strategy/blocked_time.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

// Returns the axes of the group of the ranks that compute together: all, or those of a data rank
// and of all data ranks that share out experts. These have one of their own unless all are of one
// tensor, context or expert group (PlanGroups in common/plan/memory/group_plan.h).
Axes AxesTogether(const v1::JobSpec& spec) {
  if (AllComputeTogether(spec)) return Axes().Others();
  const Mesh mesh = MeshOf(spec);
  for (const Axes axes : {Axes(Axis::kTensor), kContext, kExpertAxes}) {
    if (mesh.size(axes) == mesh.size(kShareAxes)) return axes;
  }
  return kShareAxes;
}

}  // namespace

ServedGroup::ServedGroup(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                         const Options& options, ShardRouterDependencies routing)
    : order_(order), schema_(schema), options_(options), routing_(std::move(routing)) {}

ServedGroup::~ServedGroup() { Leave(); }

absl::Status ServedGroup::Join(std::unique_ptr<Communicator> communicator,
                               absl::optional<int> source) {
  Leave();
  const Mesh mesh = MeshOf(order_.spec());
  const int slot = static_cast<int>(order_.slot());
  const MeshPosition share(mesh, slot, kStateAxes);
  MUSTER_ASSIGN_OR_RETURN(const Tables tables, LocalTables(schema_, share));
  MUSTER_ASSIGN_OR_RETURN(
      groups_, RankGroups::Create(std::move(communicator), share, tables.tensors,
                                  mesh.size(Axis::kContextCopy), ChoicesCountedOf(order_.spec())));
  if (AxesTogether(order_.spec()) == kShareAxes) MUSTER_RETURN_IF_ERROR(groups_->Make(kShareAxes));
  TensorRanks::Options peers;
  peers.divides_tokens = DividesTokens(order_.spec());
  peers.timeout = options_.timeout;
  peers.run = [this](Communicator& among, const CollectiveCall& call) {
    const BlockedTime blocked(*routing_.clock, exposed_seconds_);
    return among.Run(call);
  };
  MUSTER_ASSIGN_OR_RETURN(
      tensor_ranks_, TensorRanks::Create(groups_->Others(Axis::kTensor), tables.tensors, peers));
  if (Communicator* const sharing = groups_->Others(kContext); sharing != nullptr) {
    context_group_ =
        std::make_unique<CommunicatorContextGroup>(*sharing, options_.timeout, [this](Work& work) {
          const BlockedTime blocked(*routing_.clock, exposed_seconds_);
          return WaitForever(work);
        });
  }
  if (Communicator* const sharing = groups_->Others(kExpertAxes); sharing != nullptr) {
    expert_group_ = std::make_unique<CommunicatorExpertGroup>(
        *sharing, CommunicatorExpertGroup::Options{
                      .timeout = options_.timeout, .wait = [this](Work& work) {
                        const BlockedTime blocked(*routing_.clock, exposed_seconds_);
                        return WaitForever(work);
                      }});
  }
  if (AllComputeTogether(order_.spec())) {
    counting_group_ = std::make_unique<CommunicatorCountingGroup>(groups_->Group(kDataAxes),
                                                                  options_.timeout, peers.run);
  }
  if (Communicator* const stages = groups_->tied_group(); stages != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(tied_sums_,
                            TiedSums::Create(*stages, tables.tensors, options_.timeout));
  }
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
  tied_sums_.reset();
  strategy_.reset();
  counting_group_.reset();
  expert_group_.reset();
  context_group_.reset();
  tensor_ranks_.reset();
  groups_.reset();
}

std::vector<const FlightRecorder*> ServedGroup::recorders() const {
  if (groups_ == nullptr) return {};
  std::vector<const FlightRecorder*> recorders = groups_->recorders();
  if (tensor_ranks_ == nullptr) return recorders;
  for (const FlightRecorder* recorder : tensor_ranks_->recorders()) recorders.push_back(recorder);
  return recorders;
}

absl::StatusOr<uint64_t> ServedGroup::Begin(uint64_t closed) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t first, Least("first clock", closed));
  layers_uncounted_ = LayerTraffic();
  stages_formed_ = groups_->traffic(Axis::kPipeline);
  return first;
}

absl::StatusOr<uint64_t> ServedGroup::Least(absl::string_view what, uint64_t value) {
  const BlockedTime blocked(*routing_.clock, exposed_seconds_);
  int64_t least = static_cast<int64_t>(value);
  CollectiveCall call = Sum(absl::MakeSpan(&least, 1), options_.timeout, what);
  call.reduction = Reduction::kMin;
  const CollectiveTraffic before = LayerTraffic();
  const Axes together = AxesTogether(order_.spec());
  Communicator& among = together == Axes().Others() ? groups_->world() : groups_->Group(together);
  MUSTER_RETURN_IF_ERROR(among.Run(call));
  Add(Since(before, LayerTraffic()), layers_uncounted_.sent, layers_uncounted_.received);
  return static_cast<uint64_t>(least);
}

absl::Status ServedGroup::SumShared(int unit, GradientSpans gradients) {
  return tensor_ranks_ == nullptr ? absl::OkStatus() : tensor_ranks_->Sum(unit, gradients);
}

absl::Status ServedGroup::AddTied(int unit, GradientSpans gradients) {
  if (tied_sums_ == nullptr) return absl::OkStatus();
  const BlockedTime blocked(*routing_.clock, exposed_seconds_);
  return tied_sums_->SumOnFirst(unit, gradients);
}

absl::Status ServedGroup::AwaitLent() {
  if (tied_sums_ == nullptr) return absl::OkStatus();
  const BlockedTime blocked(*routing_.clock, exposed_seconds_);
  return tied_sums_->AwaitSent();
}

CollectiveTraffic ServedGroup::LayerTraffic() const {
  CollectiveTraffic sum = groups_->traffic(kContext);
  for (const Axes axes : {kExpertAxes, kDataAxes}) {
    Add(groups_->traffic(axes), sum.sent, sum.received);
  }
  if (tensor_ranks_ != nullptr) Add(tensor_ranks_->traffic(), sum.sent, sum.received);
  return sum;
}

void ServedGroup::AddTo(StrategyCounters& counters) const {
  Add(Since(layers_uncounted_, LayerTraffic()), counters.tensor_bytes_sent,
      counters.tensor_bytes_received);
  Add(Since(stages_formed_, groups_->traffic(Axis::kPipeline)), counters.stage_bytes_sent,
      counters.stage_bytes_received);
  counters.exposed_seconds += exposed_seconds_;
}

}  // namespace muster
