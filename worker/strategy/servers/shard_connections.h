#ifndef MUSTER_WORKER_STRATEGY_SERVERS_SHARD_CONNECTIONS_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_SHARD_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/rpc/parameter_service/parameter_client.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
class OpenTablesRequest;
class ShardMap;
}  // namespace v1

using ParameterClientFactory =
    std::function<std::unique_ptr<ParameterClient>(const std::string& address)>;

// The contributions of a slot that servers have when its task opens the tables.
struct SlotContributions {
  // The clocks that the slot has closed on every partition.
  uint64_t closed = 0;
  // Two things about the next clock, `closed`: whether the slot has closed it on some partition;
  // and whether its gradients overflowed, so that zeros stand for some of them or a close has said
  // so.
  bool closing = false;
  bool withdrawn = false;
};

// Returns whether a status says that a server was not reached, rather than what it answered.
bool IsConnectionTrouble(const absl::Status& status);

// One task's connections to the servers that its job's shard map names, with the tables opened on
// each. Each attempt to connect gets a number, so that answers over an old connection can be told
// apart. Used by one thread.
class ShardConnections {
 public:
  // `tables` is the request to open with, its list of partitions empty.
  ShardConnections(const v1::OpenTablesRequest& tables, uint32_t slot,
                   ParameterClientFactory make_client);
  // Ends all exchanges.
  ~ShardConnections();

  ShardConnections(const ShardConnections&) = delete;
  ShardConnections& operator=(const ShardConnections&) = delete;

  // Adopts a map if it is newer than the one in use; Connect makes it so. Internal: it lacks a
  // partition's primary.
  absl::Status TakeMap(const v1::ShardMap& map);

  uint64_t map_version() const { return map_version_; }
  uint32_t partitions() const { return addresses_.size(); }
  const std::string& address(uint32_t partition) const { return addresses_[partition]; }
  uint64_t term(uint32_t partition) const { return terms_[partition]; }

  // Tries once to have an unbroken connection to every server, with the tables open on each;
  // servers restore side by side. `acknowledged` clocks of this slot must be closed on each
  // partition that is opened, or its server has lost state: Aborted. Adds the partitions opened in
  // this call to `opened`. Other errors: those of OpenTables, where one that trying again does not
  // cure goes before one that it may.
  absl::Status Connect(uint64_t acknowledged, std::vector<uint32_t>& opened);

  // Returns what partitions had of this slot when each was opened last.
  SlotContributions contributions() const;

  // Sends to the request's partition, as CallInto of ParameterClient, and returns the connection's
  // number. REQUIRES: Connect succeeded since the last TakeMap.
  uint64_t Call(const v1::ExchangeRequest& request, const Payload& payload,
                absl::Span<std::byte> landing,
                std::function<void(uint64_t connection, absl::StatusOr<ExchangeResult>)> done);

  // Tells all connections whether somebody waits for answers (ParameterClient).
  void SetWaiting(bool waiting);

  // Notes that the partition's server was not reached over this connection. Returns whether this is
  // the first to say so of the connection in use.
  bool MarkBroken(uint32_t partition, uint64_t connection);
  bool any_broken() const;
  // Returns whether what goes to the partition now goes over another connection than this.
  bool WasReplaced(uint32_t partition, uint64_t connection) const;

 private:
  // The terms of partitions.
  using Terms = std::map<uint32_t, uint64_t>;

  struct Connection {
    uint64_t number = 0;
    std::unique_ptr<ParameterClient> client;
    // The partitions that were opened through it.
    Terms opened;
    bool broken = false;
  };
  // The answer of a partition about this slot.
  struct OfPartition {
    uint64_t closed = 0;
    // True if the slot has withdrawn gradients of its open clock, and of the last closed one.
    bool withdrawn = false;
    bool closed_withdrawn = false;
  };
  // Opening the tables on one server.
  struct Opening {
    std::string address;
    // The process of the server that the map names there.
    uint64_t process_nonce = 0;
    Terms partitions;
    // The result, by partition.
    std::map<uint32_t, OfPartition> told;
    absl::Status status;
  };

  // Drops connections that are broken or not wanted, adds those that are missing, and returns what
  // is to be opened.
  std::vector<Opening> Prepare();
  // Changes nothing but its argument, as it runs beside others.
  absl::Status Open(ParameterClient& client, uint64_t acknowledged, Opening& opening) const;

  const std::unique_ptr<v1::OpenTablesRequest> tables_;
  const uint32_t slot_;
  const ParameterClientFactory make_client_;

  uint64_t map_version_ = 0;
  // The address of each partition's primary, and the partition's term.
  std::vector<std::string> addresses_;
  std::vector<uint64_t> terms_;
  // The process that the map names at each address.
  std::map<std::string, uint64_t> process_nonces_;
  // The name of each address in errors: with the server's id, where the map has it.
  std::map<std::string, std::string> names_;
  // The answers of the partitions about this slot.
  std::vector<OfPartition> told_;
  std::map<std::string, Connection> connections_;
  uint64_t next_number_ = 1;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_SHARD_CONNECTIONS_H_
