#ifndef MUSTER_SERVER_SHARD_SERVICE_PARAMETER_SERVICE_H_
#define MUSTER_SERVER_SHARD_SERVICE_PARAMETER_SERVICE_H_

#include <memory>

#include "server/shard/calls/partition_host.h"
#include "server/shard/service/message_budget.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace muster {

class DataChannelServer;
class PartitionMover;

struct ParameterServiceOptions {
  // Bounds per stream; see ExchangeLimits.
  int64_t push_bytes = 16 << 20;
  int64_t reply_bytes = 32 << 20;
  int64_t parked_bytes = 64 << 20;
  // Budgets shared by all kinds of connections to the server.
  std::shared_ptr<MessageBudgets> budgets = std::make_shared<MessageBudgets>(int64_t{1} << 30);
  // Number of OpenTables, EndGeneration and DropTables that run at a time, and of those that may
  // wait beside; more are answered UNAVAILABLE.
  int blocking_threads = 2;
  int blocking_queue = 64;
  // Answers HandOver, and outlives the service. Null: HandOver is answered UNIMPLEMENTED.
  PartitionMover* mover = nullptr;
};

// ParameterService over a PartitionHost: payloads go to and from it without a copy. Thread-safe.
class ParameterService {
 public:
  // `host` and `data_channels` (if any) outlive this object and the server that has the service.
  static std::unique_ptr<ParameterService> Create(PartitionHost& host,
                                                  ParameterServiceOptions options = {},
                                                  DataChannelServer* data_channels = nullptr);

  virtual ~ParameterService() = default;

  // Returns the service to register with a server, which is shut down before this object goes.
  virtual grpc::Service& service() = 0;

  // Returns the host's figures and those of all kinds of connections, as GetServerStats answers.
  virtual v1::GetServerStatsReply Stats() const = 0;

  // Ends all streams and data channels with UNAVAILABLE and refuses new calls, so that the server's
  // own shutdown need not wait for clients. Idempotent.
  virtual void Shutdown() = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_PARAMETER_SERVICE_H_
