#include "worker/strategy/shard_router.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// How soon a refusal that names no time is repeated.
constexpr absl::Duration kDefaultRetryAfter = absl::Milliseconds(50);

bool IsConnectionTrouble(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

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
    case v1::ExchangeRequest::OPERATION_NOT_SET:
      break;
  }
  return "empty operation";
}

}  // namespace

ShardRouter::ShardRouter(const v1::OpenTablesRequest& tables, const v1::ShardMap& map,
                         const ShardRouterOptions& options, ShardRouterDependencies dependencies)
    : tables_(std::make_unique<v1::OpenTablesRequest>(tables)),
      options_(options),
      dependencies_(std::move(dependencies)),
      initial_map_(std::make_unique<v1::ShardMap>(map)) {}

ShardRouter::~ShardRouter() {
  for (auto& [address, connection] : connections_) {
    connection.client->Abort(absl::CancelledError("the task ends"));
  }
}

absl::StatusOr<uint64_t> ShardRouter::Open() {
  MUSTER_RETURN_IF_ERROR(TakeMap(*initial_map_));
  MUSTER_RETURN_IF_ERROR(Reconnect());
  opened_ = true;
  return *std::min_element(reported_closed_.begin(), reported_closed_.end());
}

ShardRouter::Handle ShardRouter::Send(uint32_t partition, v1::ExchangeRequest request,
                                      Payload payload, Order order) {
  auto operation = std::make_shared<Operation>();
  operation->id_ = next_operation_++;
  operation->order_ = order;
  request.set_job_id(tables_->job_id());
  request.set_generation(tables_->generation());
  request.set_partition(partition);
  request.set_slot(options_.slot);
  request.set_incarnation(options_.incarnation);
  operation->request_ = std::make_unique<v1::ExchangeRequest>(std::move(request));
  operation->payload_ = std::move(payload);
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
  Connection& connection = connections_.at(addresses_[operation.request_->partition()]);
  operation.state_ = Operation::State::kInFlight;
  operation.connection_ = connection.id;
  connection.client->Call(
      *operation.request_, operation.payload_,
      [mailbox = mailbox_, id = operation.id_,
       from = connection.id](absl::StatusOr<ExchangeResult> result) {
        absl::MutexLock lock(&mailbox->mutex);
        mailbox->arrivals.push_back({id, from, std::move(result)});
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

absl::Status ShardRouter::WaitUntil(const std::function<bool()>& satisfied) {
  absl::Duration log_at = dependencies_.clock->Monotonic() + options_.log_waits;
  while (true) {
    MUSTER_RETURN_IF_ERROR(Receive(absl::ZeroDuration()));
    if (satisfied()) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(Repeat());
    const absl::Duration now = dependencies_.clock->Monotonic();
    if (now >= log_at && !operations_.empty()) {
      dependencies_.log(absl::StrCat("slot ", options_.slot, " has waited ",
                                     absl::FormatDuration(now - log_at + options_.log_waits),
                                     " for ", Describe(*operations_.begin()->second),
                                     " and ", operations_.size() - 1, " more"));
      log_at = now + options_.log_waits;
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
      return !mailbox_->arrivals.empty();
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
    operation.state_ = Operation::State::kDone;
    if (operation.order_ == Order::kLane) {
      --lane_operations_;
      answered_.insert(*it);
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
    Connection& connection = connections_.at(addresses_[partition]);
    if (connection.id == operation.connection_ && !connection.broken) {
      connection.broken = true;
      dependencies_.log(absl::StrCat("connection to server ", addresses_[partition],
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
    if (!operation.rerouted_) {
      operation.rerouted_ = true;
      const uint64_t version = map_version_;
      absl::StatusOr<v1::ShardMap> map = dependencies_.newest_shard_map();
      if (map.ok()) MUSTER_RETURN_IF_ERROR(TakeMap(*map));
      if (map_version_ > version) return Reconnect();
    }
  }
  return Annotate(refusal, Describe(operation));
}

absl::Status ShardRouter::GiveUpAfterPatience(const Operation& operation) {
  const absl::Duration now = dependencies_.clock->Monotonic();
  if (trouble_since_ == absl::InfiniteDuration()) trouble_since_ = now;
  if (now - trouble_since_ <= options_.patience) return absl::OkStatus();
  return Annotate(operation.refusal_,
                  absl::StrCat(Describe(operation), " had no success for ",
                               absl::FormatDuration(now - trouble_since_)));
}

absl::Status ShardRouter::Repeat() {
  bool broken = false;
  for (const auto& [address, connection] : connections_) broken |= connection.broken;
  if (broken) MUSTER_RETURN_IF_ERROR(Reconnect());
  // In order of first sending, which is the order of each lane. A lane goes as a whole, once nothing of it is under
  // way and the last refusal's time has come.
  const absl::Duration now = dependencies_.clock->Monotonic();
  std::vector<bool> held(addresses_.size(), false);
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
  // The map that the task came with is new enough to begin with.
  bool refresh = opened_;
  RetryOptions retry;
  retry.give_up_after = options_.patience;
  absl::Status status = Retry(
      retry, *dependencies_.clock, *dependencies_.waiter,
      Philox(options_.slot, "reconnect", tables_->job_id()), [&]() -> absl::Status {
        if (refresh) {
          absl::StatusOr<v1::ShardMap> map = dependencies_.newest_shard_map();
          if (absl::IsAborted(map.status()) || absl::IsNotFound(map.status())) {
            final = map.status();
            return absl::OkStatus();
          }
          if (map.ok()) MUSTER_RETURN_IF_ERROR(TakeMap(*map));
        }
        refresh = true;
        absl::Status attempt = TryConnect();
        if (attempt.ok() || IsConnectionTrouble(attempt)) return attempt;
        final = attempt;
        return absl::OkStatus();
      });
  return final.ok() ? status : final;
}

absl::Status ShardRouter::TakeMap(const v1::ShardMap& map) {
  if (!addresses_.empty() && map.version() <= map_version_) return absl::OkStatus();
  const uint32_t partitions = tables_->schema().partitions();
  std::vector<std::string> addresses(partitions);
  std::vector<uint64_t> terms(partitions);
  for (const v1::PartitionPlacement& placement : map.partitions()) {
    if (placement.partition() >= partitions) continue;
    for (const v1::Replica& replica : placement.replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      addresses[placement.partition()] = replica.address();
      terms[placement.partition()] = replica.term();
    }
  }
  for (uint32_t partition = 0; partition < partitions; ++partition) {
    if (addresses[partition].empty()) {
      return absl::InternalError(absl::StrCat("shard map ", map.version(), " of job ",
                                              tables_->job_id(), " has no primary for partition ",
                                              partition, " of ", partitions));
    }
  }
  map_version_ = map.version();
  addresses_ = std::move(addresses);
  terms_ = std::move(terms);
  reported_closed_.resize(partitions, 0);
  return absl::OkStatus();
}

absl::Status ShardRouter::TryConnect() {
  std::map<std::string, std::map<uint32_t, uint64_t>> wanted;
  for (size_t i = 0; i < addresses_.size(); ++i) wanted[addresses_[i]][i] = terms_[i];
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (wanted.count(it->first) == 0 || it->second.broken) {
      it->second.client->Abort(absl::UnavailableError("the connection was replaced"));
      it = connections_.erase(it);
    } else {
      ++it;
    }
  }
  std::vector<Opening> openings;
  for (const auto& [address, partitions] : wanted) {
    auto [it, added] = connections_.try_emplace(address);
    Connection& connection = it->second;
    if (added) {
      connection.id = next_connection_++;
      connection.client = dependencies_.make_client(address);
    }
    if (connection.opened != partitions) openings.push_back({address, partitions, {}});
  }
  // Servers restore at the same time, not one after the other.
  std::vector<std::thread> threads;
  for (Opening& opening : openings) {
    threads.emplace_back([this, &opening, client = connections_.at(opening.address).client.get()] {
      opening.status = OpenOn(*client, opening);
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status first_error;
  for (const Opening& opening : openings) {
    Connection& connection = connections_.at(opening.address);
    if (opening.status.ok()) {
      connection.opened = opening.partitions;
      for (auto [partition, closed] : opening.closed) reported_closed_[partition] = closed;
      SendAgain(opening.partitions);
      continue;
    }
    connection.broken = true;
    // An error that repeating does not cure goes first.
    if (first_error.ok() || (IsConnectionTrouble(first_error) && !IsConnectionTrouble(opening.status))) {
      first_error = Annotate(opening.status, absl::StrCat("open tables on ", opening.address));
    }
  }
  return first_error;
}

absl::Status ShardRouter::OpenOn(ParameterClient& client, Opening& opening) const {
  v1::OpenTablesRequest request = *tables_;
  request.set_shard_map_version(map_version_);
  // A server that is opened again has held this generation before.
  if (closed_ > 0) request.set_expect_state(true);
  for (auto [partition, term] : opening.partitions) {
    v1::PartitionTerm* entry = request.add_partitions();
    entry->set_partition(partition);
    entry->set_term(term);
  }
  MUSTER_ASSIGN_OR_RETURN(v1::OpenTablesReply reply,
                          client.OpenTables(request, options_.open_timeout));
  for (const v1::PartitionClocks& clocks : reply.partitions()) {
    if (options_.slot >= static_cast<uint32_t>(clocks.closed_size())) continue;
    opening.closed[clocks.partition()] = clocks.closed(options_.slot);
  }
  for (auto [partition, term] : opening.partitions) {
    auto it = opening.closed.find(partition);
    if (it == opening.closed.end()) {
      return absl::InternalError(absl::StrCat("the reply lacks the clocks of slot ", options_.slot,
                                              " on partition ", partition));
    }
    if (it->second < closed_) {
      return absl::AbortedError(absl::StrCat(
          "partition ", partition, " holds ", it->second, " closed clocks of slot ", options_.slot,
          " where ", closed_, " were acknowledged: the server lost its state, and the job has to go "
          "back to its last checkpoint"));
    }
  }
  return absl::OkStatus();
}

void ShardRouter::SendAgain(const std::map<uint32_t, uint64_t>& partitions) {
  for (auto it = answered_.begin(); it != answered_.end();) {
    Operation& operation = *it->second;
    if (partitions.count(operation.request_->partition()) == 0) {
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
                      request.partition(), " (server ", addresses_[request.partition()], ")");
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
