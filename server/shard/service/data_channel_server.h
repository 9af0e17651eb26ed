#ifndef MUSTER_SERVER_SHARD_SERVICE_DATA_CHANNEL_SERVER_H_
#define MUSTER_SERVER_SHARD_SERVICE_DATA_CHANNEL_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/data_channel/channel_listener.h"
#include "server/shard/calls/partition_host.h"
#include "server/shard/service/channel_session.h"
#include "server/shard/service/exchange_limits.h"
#include "server/shard/service/message_budget.h"

namespace muster {

namespace v1 {
class GetServerStatsReply;
class OpenChannelReply;
class OpenChannelRequest;
}  // namespace v1

struct DataChannelServerOptions {
  ChannelListenerOptions listener;
  ChannelIoOptions io;
  ExchangeLimits limits;
  // Budgets shared by all kinds of connections to the server.
  std::shared_ptr<MessageBudgets> budgets = std::make_shared<MessageBudgets>(int64_t{1} << 30);
  // Further clients are turned away with ResourceExhausted, so that they connect in another way;
  // under TLS some only after their handshake, as channels that end at once.
  size_t max_connections = 4096;
};

// The data channels of a server: accepts clients that come by OpenChannel, and serves each with a
// ChannelSession. Thread-safe.
class DataChannelServer {
 public:
  // `host` outlives this object and all calls that it has made there. Errors: ChannelListener's.
  static absl::StatusOr<std::unique_ptr<DataChannelServer>> Create(
      PartitionHost& host, DataChannelServerOptions options);
  // Shuts down.
  ~DataChannelServer();

  // Answers the rpc of that name. FailedPrecondition: no common version.
  absl::StatusOr<v1::OpenChannelReply> OpenChannel(const v1::OpenChannelRequest& request) const;

  // Ends all channels with `reason`, accepts no more, and waits until they have ended. Idempotent.
  void Shutdown(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  void AddStats(v1::GetServerStatsReply& reply) const;

 private:
  DataChannelServer(PartitionHost& host, DataChannelServerOptions options,
                    std::shared_ptr<ChannelIo> io);

  // Returns an error unless one more channel may come.
  absl::Status RoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Likewise, for the listener. Under TLS a handshake follows, and others may come before its end.
  absl::Status Admit() ABSL_LOCKS_EXCLUDED(mutex_);
  // Serves a channel that a client has opened; without room, ends it with the reason.
  void Serve(std::shared_ptr<FrameChannel> channel, std::shared_ptr<ExchangeCounters> counters)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends, until shut down, channels whose messages do not come while others wait for their memory.
  void WatchStalled() ABSL_LOCKS_EXCLUDED(mutex_);

  PartitionHost& host_;
  const DataChannelServerOptions options_;
  const std::shared_ptr<ExchangeCounters> stream_ = std::make_shared<ExchangeCounters>();
  const std::shared_ptr<ExchangeCounters> shared_memory_ = std::make_shared<ExchangeCounters>();

  absl::Mutex mutex_;
  // Not OK once shut down.
  absl::Status shut_down_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_session_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, std::shared_ptr<ChannelSession>> sessions_ ABSL_GUARDED_BY(mutex_);

  // Declared so that the listener is destroyed before the loops.
  const std::shared_ptr<ChannelIo> io_;
  std::unique_ptr<ChannelListener> listener_;
  std::thread watch_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_DATA_CHANNEL_SERVER_H_
