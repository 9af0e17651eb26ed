#include "worker/strategy/servers/shard_connections.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_status.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// OpenTables blocks while a server restores.
constexpr absl::Duration kOpenTablesTimeout = absl::Minutes(5);

}  // namespace

bool IsConnectionTrouble(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

ShardConnections::ShardConnections(const v1::OpenTablesRequest& tables, uint32_t slot,
                                   ParameterClientFactory make_client)
    : tables_(std::make_unique<v1::OpenTablesRequest>(tables)),
      slot_(slot),
      make_client_(std::move(make_client)) {}

ShardConnections::~ShardConnections() {
  for (auto& [address, connection] : connections_) {
    connection.client->Abort(absl::CancelledError("the task ends"));
  }
}

absl::Status ShardConnections::TakeMap(const v1::ShardMap& map) {
  if (!addresses_.empty() && map.version() <= map_version_) return absl::OkStatus();
  const uint32_t partitions = tables_->schema().partitions();
  std::vector<std::string> addresses(partitions);
  std::vector<uint64_t> terms(partitions);
  std::map<std::string, uint64_t> process_nonces;
  std::map<std::string, std::string> names;
  for (const v1::PartitionPlacement& placement : map.partitions()) {
    if (placement.partition() >= partitions) continue;
    for (const v1::Replica& replica : placement.replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      addresses[placement.partition()] = replica.address();
      names[replica.address()] =
          replica.server_id().empty()
              ? replica.address()
              : absl::StrCat("server ", replica.server_id(), " at ", replica.address());
      terms[placement.partition()] = replica.term();
      process_nonces[replica.address()] = replica.process_nonce();
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
  process_nonces_ = std::move(process_nonces);
  names_ = std::move(names);
  told_.resize(partitions);
  return absl::OkStatus();
}

std::vector<ShardConnections::Opening> ShardConnections::Prepare() {
  std::map<std::string, Terms> wanted;
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
      connection.number = next_number_++;
      connection.client = make_client_(address);
    }
    if (connection.opened == partitions) continue;
    Opening& opening = openings.emplace_back();
    opening.address = address;
    opening.process_nonce = process_nonces_.at(address);
    opening.partitions = partitions;
  }
  return openings;
}

absl::Status ShardConnections::Connect(uint64_t acknowledged, std::vector<uint32_t>& opened) {
  std::vector<Opening> openings = Prepare();
  std::vector<std::thread> threads;
  for (Opening& opening : openings) {
    ParameterClient& client = *connections_.at(opening.address).client;
    threads.emplace_back([this, acknowledged, &opening, &client] {
      opening.status = Open(client, acknowledged, opening);
    });
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status first_error;
  for (const Opening& opening : openings) {
    Connection& connection = connections_.at(opening.address);
    if (opening.status.ok()) {
      connection.opened = opening.partitions;
      for (const auto& [partition, told] : opening.told) {
        told_[partition] = told;
        opened.push_back(partition);
      }
      continue;
    }
    connection.broken = true;
    if (first_error.ok() ||
        (IsConnectionTrouble(first_error) && !IsConnectionTrouble(opening.status))) {
      first_error =
          Annotate(opening.status, absl::StrCat("open tables on ", names_.at(opening.address)));
    }
  }
  return first_error;
}

absl::Status ShardConnections::Open(ParameterClient& client, uint64_t acknowledged,
                                    Opening& opening) const {
  v1::OpenTablesRequest request = *tables_;
  request.set_shard_map_version(map_version_);
  request.set_process_nonce(opening.process_nonce);
  // A server that acknowledged a clock has held this generation before.
  if (acknowledged > 0) request.set_expect_state(true);
  for (auto [partition, term] : opening.partitions) {
    v1::PartitionTerm* entry = request.add_partitions();
    entry->set_partition(partition);
    entry->set_term(term);
  }
  MUSTER_ASSIGN_OR_RETURN(v1::OpenTablesReply reply,
                          client.OpenTables(request, kOpenTablesTimeout));
  for (const v1::PartitionClocks& clocks : reply.partitions()) {
    if (opening.partitions.count(clocks.partition()) == 0) continue;
    if (slot_ >= static_cast<uint32_t>(clocks.closed_size())) continue;
    opening.told[clocks.partition()] = {.closed = clocks.closed(slot_),
                                        .withdrawn = clocks.withdrawn(),
                                        .closed_withdrawn = clocks.closed_withdrawn()};
  }
  for (auto [partition, term] : opening.partitions) {
    auto it = opening.told.find(partition);
    if (it == opening.told.end()) {
      return absl::InternalError(
          absl::StrCat("the reply lacks the clocks of slot ", slot_, " on partition ", partition));
    }
    if (it->second.closed < acknowledged) {
      return WithLostState(
          absl::AbortedError(absl::StrCat(
              "partition ", partition, " holds ", it->second.closed, " closed clocks of slot ",
              slot_, " where ", acknowledged,
              " were acknowledged: the server lost its state, and the job has to go back to its "
              "last checkpoint")),
          LostState::kServerState);
    }
  }
  return absl::OkStatus();
}

SlotContributions ShardConnections::contributions() const {
  SlotContributions all;
  if (told_.empty()) return all;
  all.closed = std::numeric_limits<uint64_t>::max();
  for (const OfPartition& told : told_) all.closed = std::min(all.closed, told.closed);
  for (const OfPartition& told : told_) {
    const bool has_closed = told.closed > all.closed;
    all.closing |= has_closed;
    all.withdrawn |= has_closed ? told.closed_withdrawn : told.withdrawn;
  }
  return all;
}

uint64_t ShardConnections::Call(
    const v1::ExchangeRequest& request, const Payload& payload, absl::Span<std::byte> landing,
    std::function<void(uint64_t connection, absl::StatusOr<ExchangeResult>)> done) {
  Connection& connection = connections_.at(addresses_[request.partition()]);
  connection.client->CallInto(
      request, payload, landing,
      [number = connection.number, done = std::move(done)](absl::StatusOr<ExchangeResult> result) {
        done(number, std::move(result));
      });
  return connection.number;
}

void ShardConnections::SetWaiting(bool waiting) {
  for (auto& [address, connection] : connections_) connection.client->SetWaiting(waiting);
}

bool ShardConnections::MarkBroken(uint32_t partition, uint64_t connection) {
  auto it = connections_.find(addresses_[partition]);
  if (it == connections_.end() || it->second.number != connection) return false;
  return !std::exchange(it->second.broken, true);
}

bool ShardConnections::WasReplaced(uint32_t partition, uint64_t connection) const {
  const auto it = connections_.find(addresses_[partition]);
  return it == connections_.end() || it->second.number != connection;
}

bool ShardConnections::any_broken() const {
  for (const auto& [address, connection] : connections_) {
    if (connection.broken) return true;
  }
  return false;
}

}  // namespace muster
