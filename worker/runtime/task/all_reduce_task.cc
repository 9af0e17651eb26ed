#include "worker/runtime/task/all_reduce_task.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/holding_message.h"
#include "common/text/utf8.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/collective_records.h"
#include "worker/runtime/task/task_parts.h"
#include "worker/runtime/training/rank_engine.h"
#include "worker/strategy/group/served_group.h"
#include "worker/strategy/group/sharded_strategy.h"

namespace muster {
namespace {

// The coordinator has just answered all tasks, so one that does not connect in this time is lost.
constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
// A collective call that takes longer is told to the coordinator, for people to see.
constexpr absl::Duration kLongCall = absl::Seconds(5);
// The task gives up after so many rounds in a row without a finished step.
constexpr int kMaxFruitlessRounds = 10;
// Most bytes of the reason that the coordinator is told for the end of a round.
constexpr size_t kMostFailureBytes = 2048;

// Returns whether a collective call failed since another task was lost, is stuck or left the round.
bool IsLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

// Returns the rank of `slot` in the round; -1 if the slot has none.
int RankOf(uint32_t slot, const v1::RendezvousReply& round) {
  for (int rank = 0; rank < round.peers_size(); ++rank) {
    if (round.peers(rank).slot() == slot) return rank;
  }
  return -1;
}

CollectiveEndpoint::Group GroupOf(const v1::RendezvousReply& round, int rank) {
  CollectiveEndpoint::Group group;
  group.name = "world";
  group.round = round.round();
  group.secret = round.secret();
  group.rank = rank;
  for (const v1::CollectivePeer& peer : round.peers()) {
    group.addresses.push_back(peer.endpoint());
    group.names.push_back(absl::StrCat("slot ", peer.slot()));
  }
  return group;
}

// Returns what makes engines for a group's ranks, by layers. All outlive it.
template <typename Group>
auto EnginesOf(const v1::TaskOrder& order, const PreparedJob& job, Group& group) {
  return [&order, &job, &group] {
    const ModelPeers peers = {.tensor_group = group.tensor_group(),
                              .context_group = group.context_group(),
                              .expert_group = group.expert_group(),
                              .counting_group = group.counting_group(),
                              .stages = group.stage_group(),
                              .timeout = StallTimeoutOf(order)};
    return MakeRankEngine(order.spec(), job, group.strategy(), peers);
  };
}

// Makes a replica in the host's memory, with engines that compute by layers.
absl::StatusOr<ReplicaParts> MakeHostReplica(const v1::TaskOrder& order, const PreparedJob& job,
                                             const TaskDependencies& dependencies) {
  ShardedDependencies lent;
  lent.storage = dependencies.storage;
  lent.clock = dependencies.clock;
  lent.offload_folder = dependencies.offload_folder;
  lent.log = dependencies.log;
  lent.routing = RoutingOf(dependencies);
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<ShardedStrategy> strategy,
      ShardedStrategy::Create(order, *job.schema, {.timeout = StallTimeoutOf(order), .servers = {}},
                              std::move(lent)));
  ReplicaParts parts;
  parts.make_engine = EnginesOf(order, job, *strategy);
  parts.group = std::move(strategy);
  return parts;
}

// Makes the parts of a rank whose parameters are on servers.
ReplicaParts MakeServedRank(const v1::TaskOrder& order, const PreparedJob& job,
                            const TaskDependencies& dependencies) {
  ServedGroup::Options options;
  options.timeout = StallTimeoutOf(order);
  options.servers.checkpoints = dependencies.storage;
  auto group = std::make_unique<ServedGroup>(order, *job.schema, options, RoutingOf(dependencies));
  ReplicaParts parts;
  parts.make_engine = EnginesOf(order, job, *group);
  parts.end_waits = [lent = group.get()](absl::string_view reason) { lent->EndWaits(reason); };
  parts.group = std::move(group);
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduceTask>> AllReduceTask::Create(
    const v1::TaskOrder& order, const PreparedJob& job, const TaskDependencies& dependencies) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveEndpoint> endpoint,
                          dependencies.make_endpoint());
  const bool on_device = order.spec().compute().device() == v1::ComputeSpec::CUDA;
  absl::StatusOr<ReplicaParts> parts;
  if (!TrainsByAllReduce(order.spec())) {
    parts = MakeServedRank(order, job, dependencies);
  } else if (on_device) {
    parts = dependencies.devices->MakeReplica(order, job, dependencies);
  } else {
    parts = MakeHostReplica(order, job, dependencies);
  }
  if (!parts.ok()) return parts.status();
  return std::unique_ptr<AllReduceTask>(
      new AllReduceTask(order, job, dependencies, std::move(endpoint), *std::move(parts)));
}

AllReduceTask::AllReduceTask(const v1::TaskOrder& order, const PreparedJob& job,
                             const TaskDependencies& dependencies,
                             std::unique_ptr<CollectiveEndpoint> endpoint, ReplicaParts parts)
    : order_(order),
      job_(job),
      dependencies_(dependencies),
      endpoint_(std::move(endpoint)),
      parts_(std::move(parts)) {}

absl::Status AllReduceTask::Run() {
  int fruitless = 0;
  while (true) {
    const absl::optional<uint64_t> before = parts_.group->replica_clock();
    MUSTER_ASSIGN_OR_RETURN(const v1::RendezvousReply round, Meet());
    const Outcome outcome = RunRound(round);
    if (outcome.end == End::kFinal) return outcome.status;
    const absl::optional<uint64_t> after = parts_.group->replica_clock();
    dependencies_.log(absl::StrCat(
        "slot ", order_.slot(), " meets the others again: round ", round_, " ended",
        after.has_value() ? absl::StrCat(" at step ", *after) : " before there were parameters",
        ": ", outcome.status.message()));
    if (after > before) {
      fruitless = 0;
      continue;
    }
    if (++fruitless == kMaxFruitlessRounds) {
      return absl::UnavailableError(
          absl::StrCat("no step was finished in ", fruitless,
                       " rounds one after another; look at the workers and the network between "
                       "them. The last one ended: ",
                       outcome.status.ToString()));
    }
  }
}

absl::StatusOr<v1::RendezvousReply> AllReduceTask::Meet() {
  v1::RendezvousRequest request = MeetingRequest(job_);
  request.set_endpoint(endpoint_->address());
  request.set_bucket_plan_fingerprint(parts_.group->bucket_plan_fingerprint());
  request.set_round(round_);
  request.set_late(late_);
  request.set_failure(failure_);
  SetHolding(parts_.group->holding(), request);
  MUSTER_ASSIGN_OR_RETURN(v1::RendezvousReply round,
                          dependencies_.coordinator->Rendezvous(std::move(request)));
  const auto& sat_out = round.sat_out_slots();
  if (std::find(sat_out.begin(), sat_out.end(), order_.slot()) != sat_out.end()) {
    parts_.group->Forget();
  }
  round_ = round.round();
  return round;
}

AllReduceTask::Outcome AllReduceTask::RunRound(const v1::RendezvousReply& round) {
  late_ = false;
  failure_.clear();
  const int rank = RankOf(order_.slot(), round);
  if (rank < 0) {
    return {End::kFinal,
            absl::InternalError(absl::StrCat("slot ", order_.slot(), " was answered with round ",
                                             round_, ", which it is not in"))};
  }
  const absl::Status entered = Enter(round, rank);
  const Outcome outcome = entered.ok() ? Train(round, rank) : AfterFailure(entered);
  parts_.group->Leave();
  return outcome;
}

absl::Status AllReduceTask::Enter(const v1::RendezvousReply& round, int rank) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
                          endpoint_->Connect(GroupOf(round, rank), kConnectTimeout));
  absl::optional<int> source;
  if (round.has_source_slot()) {
    source = RankOf(round.source_slot(), round);
    if (*source < 0) {
      return absl::InternalError(absl::StrCat("slot ", round.source_slot(),
                                              " is the source of round ", round_,
                                              ", which it is not in"));
    }
  }
  if (!round.leaving_slots().empty()) {
    std::vector<int> leaving;
    for (const uint32_t slot : round.leaving_slots()) leaving.push_back(RankOf(slot, round));
    MUSTER_RETURN_IF_ERROR(parts_.group->HandOver(std::move(communicator), source, leaving));
    return absl::AbortedError(absl::StrCat("slot ", absl::StrJoin(round.leaving_slots(), ", "),
                                           " handed over what nobody else had, and leaves"));
  }
  dependencies_.log(absl::StrCat(
      "slot ", order_.slot(), " is rank ", rank, " of ", round.peers_size(), " in round ", round_,
      source.has_value() ? absl::StrCat(", with the parameters of slot ", round.source_slot())
                         : ""));
  return parts_.group->Join(std::move(communicator), source);
}

AllReduceTask::Outcome AllReduceTask::Train(const v1::RendezvousReply& round, int rank) {
  absl::StatusOr<TrainerOptions> options = TrainerOptionsFor(
      order_, round, {.rank = rank, .world_size = round.peers_size()}, dependencies_);
  if (!options.ok()) return {End::kFinal, options.status()};
  options->round = round_;
  options->reported_clock = reported_clock_;
  options->reporting.collectives =
      [recorders = parts_.group->recorders()](v1::ReportCollectivesRequest& request) {
        AddCollectiveRecords(recorders, request);
      };
  options->reporting.add_calls =
      [recorders = parts_.group->recorders()](v1::ReportProgressRequest& request) {
        AddCollectiveTimes(recorders, request);
        AddCallUnderWay(recorders, absl::Now() - kLongCall, request);
      };
  options->reporting.round_lost = [this](uint64_t last) {
    if (last < round_) return;
    endpoint_->Abort("a task of this round is lost; the others meet again");
  };
  if (parts_.end_waits != nullptr) {
    options->reporting.meet_after = [this](uint64_t last) {
      if (last >= round_) parts_.end_waits("the coordinator wants the tasks to meet again");
    };
  }
  const absl::StatusOr<std::unique_ptr<StepEngine>> engine = parts_.make_engine();
  if (!engine.ok()) return AfterFailure(engine.status());
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      Trainer::Create(order_.spec(), *options, job_, {parts_.group->state(), **engine},
                      *dependencies_.coordinator, *dependencies_.clock);
  if (!trainer.ok()) return {End::kFinal, trainer.status()};
  const absl::Status status = (*trainer)->Run();
  reported_clock_ = (*trainer)->reported_clock();
  if (status.ok()) return {End::kFinal, status};
  if ((*trainer)->coordinator_status().ok()) return AfterFailure(status);
  return {absl::IsCancelled(status) ? End::kMeetAgain : End::kFinal, status};
}

AllReduceTask::Outcome AllReduceTask::AfterFailure(absl::Status status) {
  late_ = absl::IsDeadlineExceeded(status);
  failure_ = std::string(CutUtf8(ToUtf8(status.message()), kMostFailureBytes));
  if (const std::vector<const FlightRecorder*> recorders = parts_.group->recorders();
      !recorders.empty()) {
    v1::ReportCollectivesRequest request;
    AddCollectiveRecords(recorders, request);
    // For people to look at; training does not depend on it.
    dependencies_.coordinator->ReportCollectives(std::move(request)).IgnoreError();
  }
  return {IsLoss(status) ? End::kMeetAgain : End::kFinal, std::move(status)};
}

}  // namespace muster
