#include "worker/strategy/servers/shard_router.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_status.h"
#include "common/trace/trace_scope.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// The time after which a refusal that names no time is repeated.
constexpr absl::Duration kDefaultRetryAfter = absl::Milliseconds(50);

// A wait longer than this is logged, and again each time it passes once more.
constexpr absl::Duration kLogWaits = absl::Seconds(30);

// Servers that cannot be reached for this long are told of: some seconds more than a restart of a
// server takes to be noticed by its tasks.
constexpr absl::Duration kTellAfter = absl::Seconds(3);

absl::string_view OperationName(const v1::ExchangeRequest& request) {
  switch (request.operation_case()) {
    case v1::ExchangeRequest::kDensePush:
      return "dense push";
    case v1::ExchangeRequest::kSparsePush:
      return "sparse push";
    case v1::ExchangeRequest::kClose:
      return "close";
    case v1::ExchangeRequest::kDensePull:
      return "dense pull";
    case v1::ExchangeRequest::kSparsePull:
      return "sparse pull";
    case v1::ExchangeRequest::kCut:
      return "cut";
    case v1::ExchangeRequest::kClip:
      return "clip exchange";
    case v1::ExchangeRequest::kEnter:
      return "entry";
    case v1::ExchangeRequest::OPERATION_NOT_SET:
      break;
  }
  return "empty operation";
}

// Returns how the operation is named in a trace.
ActionKind TracedAs(const v1::ExchangeRequest& request) {
  switch (request.operation_case()) {
    case v1::ExchangeRequest::kDensePush:
      return ActionKind::kPush;
    case v1::ExchangeRequest::kSparsePush:
      return ActionKind::kRowPush;
    case v1::ExchangeRequest::kClose:
    case v1::ExchangeRequest::kEnter:
      return ActionKind::kClose;
    case v1::ExchangeRequest::kSparsePull:
      return ActionKind::kRowPull;
    case v1::ExchangeRequest::kCut:
      return ActionKind::kCut;
    case v1::ExchangeRequest::kClip:
      return ActionKind::kClip;
    default:
      return ActionKind::kPull;
  }
}

// Servers that a task cannot reach, from the first attempt on, and who is told of them.
class Trouble {
 public:
  explicit Trouble(const ShardRouterDependencies& dependencies)
      : dependencies_(dependencies), tell_at_(dependencies.clock->Monotonic() + kTellAfter) {}

  // An attempt failed.
  void Goes(const absl::Status& attempt) {
    const absl::Duration now = dependencies_.clock->Monotonic();
    if (now < tell_at_) return;
    tell_at_ = now + kLogWaits;
    told_ = true;
    dependencies_.log(absl::StrCat(attempt.message(), "; trying again"));
    dependencies_.tell_wait(attempt.message());
  }

  // All servers are reached.
  void Ends() {
    if (told_) dependencies_.tell_wait("");
  }

 private:
  const ShardRouterDependencies& dependencies_;
  absl::Duration tell_at_;
  bool told_ = false;
};

}  // namespace

ShardRouter::ShardRouter(const v1::OpenTablesRequest& tables, const v1::ShardMap& map,
                         const ShardRouterOptions& options, ShardRouterDependencies dependencies)
    : job_id_(tables.job_id()),
      generation_(tables.generation()),
      options_(options),
      dependencies_(std::move(dependencies)),
      initial_map_(std::make_unique<v1::ShardMap>(map)),
      connections_(tables, options.slot, dependencies_.make_client) {}

ShardRouter::~ShardRouter() = default;

absl::StatusOr<SlotContributions> ShardRouter::Open() {
  MUSTER_RETURN_IF_ERROR(connections_.TakeMap(*initial_map_));
  MUSTER_RETURN_IF_ERROR(Reconnect());
  opened_ = true;
  return connections_.contributions();
}

ShardRouter::Handle ShardRouter::Send(uint32_t partition, v1::ExchangeRequest request,
                                      Payload payload, Order order, absl::Span<std::byte> landing) {
  auto operation = std::make_shared<Operation>();
  operation->id_ = next_operation_++;
  operation->order_ = order;
  request.set_job_id(job_id_);
  request.set_generation(generation_);
  request.set_partition(partition);
  request.set_slot(options_.slot);
  request.set_incarnation(options_.incarnation);
  if (order == Order::kLane && rate_factor_ != 1) request.set_rate_factor(rate_factor_);
  operation->request_ = std::make_unique<v1::ExchangeRequest>(std::move(request));
  operation->payload_ = std::move(payload);
  operation->landing_ = landing;
  operations_.emplace(operation->id_, operation);
  if (order == Order::kLane) {
    ++lane_operations_;
    // Behind something that must be repeated first, it waits for that.
    if (LaneHasRefused(partition)) {
      operation->state_ = Operation::State::kRefused;
      return operation;
    }
  }
  Transmit(*operation);
  return operation;
}

void ShardRouter::Transmit(Operation& operation) {
  ++operation.sent_;
  operation.state_ = Operation::State::kInFlight;
  operation.request_->set_term(connections_.term(operation.request_->partition()));
  const TraceSpan span(TracingHere(), TraceTrack::kRequests, TracedAs(*operation.request_),
                       operation.request_->partition());
  operation.connection_ = connections_.Call(
      *operation.request_, operation.payload_, operation.landing_,
      [mailbox = mailbox_, id = operation.id_, span, pushed = operation.payload_.size()](
          uint64_t connection, absl::StatusOr<ExchangeResult> result) {
        span.End(pushed + (result.ok() ? result->payload.size() : 0));
        absl::MutexLock lock(&mailbox->mutex);
        mailbox->arrivals.push_back({id, connection, std::move(result)});
      });
}

absl::Status ShardRouter::Wait(const Handle& operation) {
  return WaitUntil([&operation] { return operation->done(); });
}

absl::Status ShardRouter::WaitForLanes() {
  MUSTER_RETURN_IF_ERROR(WaitUntil([this] { return lane_operations_ == 0; }));
  answered_.clear();
  return absl::OkStatus();
}

void ShardRouter::Interrupt(absl::string_view reason) {
  absl::MutexLock lock(&mailbox_->mutex);
  mailbox_->interruption =
      absl::AbortedError(absl::StrCat("slot ", options_.slot, " waits no longer: ", reason));
}

absl::Status ShardRouter::CheckInterruption() const {
  absl::MutexLock lock(&mailbox_->mutex);
  return mailbox_->interruption;
}

absl::Status ShardRouter::WaitUntil(const std::function<bool()>& satisfied) {
  MUSTER_RETURN_IF_ERROR(Receive(absl::ZeroDuration()));
  if (satisfied()) return absl::OkStatus();
  connections_.SetWaiting(true);
  const absl::Status status = ReceiveUntil(satisfied);
  // Between waits the caller computes, and is not to be disturbed for each answer.
  connections_.SetWaiting(false);
  return status;
}

absl::Status ShardRouter::ReceiveUntil(const std::function<bool()>& satisfied) {
  absl::Duration log_at = dependencies_.clock->Monotonic() + kLogWaits;
  while (true) {
    MUSTER_RETURN_IF_ERROR(Receive(absl::ZeroDuration()));
    if (satisfied()) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(CheckInterruption());
    MUSTER_RETURN_IF_ERROR(Repeat());
    const absl::Duration now = dependencies_.clock->Monotonic();
    if (now >= log_at && !operations_.empty()) {
      dependencies_.log(absl::StrCat("slot ", options_.slot, " has waited ",
                                     absl::FormatDuration(now - log_at + kLogWaits), " for ",
                                     Describe(*operations_.begin()->second), " and ",
                                     operations_.size() - 1, " more"));
      log_at = now + kLogWaits;
    }
    absl::Duration timeout = log_at - now;
    for (const auto& [id, operation] : operations_) {
      if (operation->state_ == Operation::State::kRefused) {
        timeout = std::min(timeout, operation->not_before_ - now);
      }
    }
    MUSTER_RETURN_IF_ERROR(Receive(std::max(timeout, absl::Milliseconds(1))));
  }
}

absl::Status ShardRouter::Receive(absl::Duration timeout) {
  std::vector<Arrival> arrivals;
  {
    absl::MutexLock lock(&mailbox_->mutex);
    auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mailbox_->mutex) {
      return !mailbox_->arrivals.empty() || !mailbox_->interruption.ok();
    };
    if (timeout > absl::ZeroDuration()) {
      mailbox_->mutex.AwaitWithTimeout(absl::Condition(&any), timeout);
    }
    arrivals.swap(mailbox_->arrivals);
  }
  for (Arrival& arrival : arrivals) {
    auto it = operations_.find(arrival.operation);
    // A connection given up on may still have answered what was then sent again over another.
    if (it == operations_.end() || it->second->connection_ != arrival.connection) continue;
    Operation& operation = *it->second;
    if (!arrival.result.ok()) {
      operation.state_ = Operation::State::kRefused;
      operation.refusal_ = arrival.result.status();
      continue;
    }
    trouble_since_ = absl::InfiniteDuration();
    operation.result_ = *std::move(arrival.result);
    if (operation.sent_ == 1) operation.was_in_ = operation.result_.reply->already_applied();
    operation.state_ = Operation::State::kDone;
    if (operation.order_ == Order::kLane) {
      --lane_operations_;
      if (options_.answered == ShardRouterOptions::Answered::kKept) answered_.insert(*it);
    }
    operations_.erase(it);
  }
  // Judged only now, when all answers that came together are in.
  for (const auto& [id, operation] : operations_) {
    if (operation->state_ == Operation::State::kRefused && !operation->refusal_.ok()) {
      MUSTER_RETURN_IF_ERROR(Judge(*operation));
      operation->refusal_ = absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::Status ShardRouter::Judge(Operation& operation) {
  const absl::Status& refusal = operation.refusal_;
  const uint32_t partition = operation.request_->partition();
  const absl::Duration now = dependencies_.clock->Monotonic();
  if (IsConnectionTrouble(refusal)) {
    if (connections_.MarkBroken(partition, operation.connection_)) {
      dependencies_.log(absl::StrCat("connection to server ", connections_.address(partition),
                                     " failed: ", refusal.message(), "; connecting again"));
    }
    return GiveUpAfterPatience(operation);
  }
  if (absl::IsResourceExhausted(refusal)) {
    operation.not_before_ = now + RetryAfter(refusal).value_or(kDefaultRetryAfter);
    return GiveUpAfterPatience(operation);
  }
  if (absl::IsFailedPrecondition(refusal)) {
    // A close is refused when a push before it was; both are repeated, in order.
    if (operation.order_ == Order::kLane && IsBehindAnother(operation)) return absl::OkStatus();
    // An answer of the server that had the partition before, or to a term of before, which another
    // operation's has shown to have moved.
    if (connections_.WasReplaced(partition, operation.connection_) ||
        operation.request_->term() != connections_.term(partition)) {
      return absl::OkStatus();
    }
    if (!operation.rerouted_) {
      const uint64_t version = connections_.map_version();
      absl::StatusOr<v1::ShardMap> map = dependencies_.newest_shard_map();
      if (absl::IsAborted(map.status()) || absl::IsNotFound(map.status())) return map.status();
      if (!map.ok()) {
        // Whether the refusal is final shows only when the coordinator is back.
        operation.not_before_ = now + kDefaultRetryAfter;
        return GiveUpAfterPatience(operation);
      }
      operation.rerouted_ = true;
      MUSTER_RETURN_IF_ERROR(connections_.TakeMap(*map));
      if (connections_.map_version() > version) {
        // It may move again.
        operation.rerouted_ = false;
        return Reconnect();
      }
    }
  }
  if (absl::IsNotFound(refusal)) {
    // Dropped under us: by a later generation, or because the job has ended.
    return absl::AbortedError(absl::StrCat(Describe(operation), ": ", refusal.message(),
                                           "; the tables were open before, rejoin"));
  }
  return DataLossIs(Annotate(refusal, Describe(operation)), LostState::kServerState);
}

absl::Status ShardRouter::GiveUpAfterPatience(const Operation& operation) {
  const absl::Duration now = dependencies_.clock->Monotonic();
  if (trouble_since_ == absl::InfiniteDuration()) trouble_since_ = now;
  if (now - trouble_since_ <= kServersPatience) return absl::OkStatus();
  return Annotate(operation.refusal_, absl::StrCat(Describe(operation), " had no success for ",
                                                   absl::FormatDuration(now - trouble_since_)));
}

absl::Status ShardRouter::Repeat() {
  if (connections_.any_broken()) MUSTER_RETURN_IF_ERROR(Reconnect());
  // In order of first sending, which is the order of each lane. A lane goes as a whole, once
  // nothing of it is under way and the last refusal's time has come.
  const absl::Duration now = dependencies_.clock->Monotonic();
  std::vector<bool> held(connections_.partitions(), false);
  for (const auto& [id, operation] : operations_) {
    if (operation->order_ != Order::kLane) continue;
    if (operation->state_ == Operation::State::kInFlight || operation->not_before_ > now) {
      held[operation->request_->partition()] = true;
    }
  }
  for (const auto& [id, operation] : operations_) {
    if (operation->state_ != Operation::State::kRefused || operation->not_before_ > now) continue;
    if (operation->order_ == Order::kLane && held[operation->request_->partition()]) continue;
    Transmit(*operation);
  }
  return absl::OkStatus();
}

absl::Status ShardRouter::Reconnect() {
  absl::Status final = absl::OkStatus();
  Trouble trouble(dependencies_);
  // The map that the task came with is new enough to begin with.
  bool refresh = opened_;
  RetryOptions retry;
  retry.give_up_after = kServersPatience;
  absl::Status status =
      Retry(retry, *dependencies_.clock, *dependencies_.waiter,
            Philox(options_.slot, "reconnect", job_id_), [&]() -> absl::Status {
              final = CheckInterruption();
              if (!final.ok()) return absl::OkStatus();
              if (refresh) {
                absl::StatusOr<v1::ShardMap> map = dependencies_.newest_shard_map();
                if (absl::IsAborted(map.status()) || absl::IsNotFound(map.status())) {
                  final = map.status();
                  return absl::OkStatus();
                }
                if (map.ok()) MUSTER_RETURN_IF_ERROR(connections_.TakeMap(*map));
              }
              refresh = true;
              std::vector<uint32_t> opened;
              absl::Status attempt = connections_.Connect(closed_, opened);
              SendAgain(opened);
              if (attempt.ok()) return attempt;
              if (IsConnectionTrouble(attempt)) {
                trouble.Goes(attempt);
                return attempt;
              }
              if (absl::IsFailedPrecondition(attempt) && MayHaveNewerMap(final)) {
                return absl::UnavailableError(attempt.message());
              }
              if (final.ok()) final = attempt;
              return absl::OkStatus();
            });
  if (!final.ok()) return final;
  if (status.ok()) trouble.Ends();
  return status;
}

bool ShardRouter::MayHaveNewerMap(absl::Status& final) {
  absl::StatusOr<v1::ShardMap> map = dependencies_.newest_shard_map();
  if (absl::IsAborted(map.status()) || absl::IsNotFound(map.status())) final = map.status();
  return map.ok() ? map->version() > connections_.map_version() : final.ok();
}

void ShardRouter::SendAgain(const std::vector<uint32_t>& partitions) {
  for (auto it = answered_.begin(); it != answered_.end();) {
    Operation& operation = *it->second;
    if (absl::c_count(partitions, operation.request_->partition()) == 0) {
      ++it;
      continue;
    }
    operation.state_ = Operation::State::kRefused;
    ++lane_operations_;
    operations_.insert(*it);
    it = answered_.erase(it);
  }
}

std::string ShardRouter::Describe(const Operation& operation) const {
  const v1::ExchangeRequest& request = *operation.request_;
  return absl::StrCat(OperationName(request), " at clock ", request.clock(), " on partition ",
                      request.partition(), " (server ", connections_.address(request.partition()),
                      ")");
}

bool ShardRouter::LaneHasRefused(uint32_t partition) const {
  for (const auto& [id, operation] : operations_) {
    if (operation->order_ == Order::kLane && operation->request_->partition() == partition &&
        operation->state_ == Operation::State::kRefused) {
      return true;
    }
  }
  return false;
}

bool ShardRouter::IsBehindAnother(const Operation& operation) const {
  for (const auto& [id, other] : operations_) {
    if (id >= operation.id_) return false;
    if (other->order_ == Order::kLane &&
        other->request_->partition() == operation.request_->partition()) {
      return true;
    }
  }
  return false;
}

}  // namespace muster
