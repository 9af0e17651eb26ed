#include "server/shard/service/data_channel_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/shared_channel.h"
#include "common/transport/data_channel/socket_channel.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kWatchPeriod = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<DataChannelServer>> DataChannelServer::Create(
    PartitionHost& host, DataChannelServerOptions options) {
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<ChannelIo> io, ChannelIo::Create(options.io));
  std::unique_ptr<DataChannelServer> server(
      new DataChannelServer(host, std::move(options), std::move(io)));
  ChannelListener::Sinks sinks;
  sinks.admit = [server = server.get()] { return server->Admit(); };
  sinks.stream = [server = server.get()](std::unique_ptr<ChannelStream> stream) {
    IoLoop& loop = server->io_->NextLoop();
    server->Serve(SocketChannel::Create(std::move(stream), loop, server->io_->pool()),
                  server->stream_);
  };
  sinks.shared_memory = [server = server.get()](SharedLink link) {
    IoLoop& loop = server->io_->NextLoop();
    server->Serve(SharedChannel::Create(std::move(link), loop, server->io_->pool()),
                  server->shared_memory_);
  };
  MUSTER_ASSIGN_OR_RETURN(server->listener_,
                          ChannelListener::Create(server->options_.listener, std::move(sinks)));
  server->watch_ = std::thread([server = server.get()] { server->WatchStalled(); });
  return server;
}

DataChannelServer::DataChannelServer(PartitionHost& host, DataChannelServerOptions options,
                                     std::shared_ptr<ChannelIo> io)
    : host_(host), options_(std::move(options)), io_(std::move(io)) {}

DataChannelServer::~DataChannelServer() {
  Shutdown(absl::UnavailableError("the server is shutting down"));
  listener_.reset();
  if (watch_.joinable()) watch_.join();
}

void DataChannelServer::WatchStalled() {
  const auto shut_down = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !shut_down_.ok(); };
  while (true) {
    std::vector<std::shared_ptr<ChannelSession>> sessions;
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&shut_down), kWatchPeriod)) return;
      if (!options_.budgets->passing.has_waiters()) continue;
      for (const auto& [id, session] : sessions_) {
        if (session != nullptr) sessions.push_back(session);
      }
    }
    const auto now = std::chrono::steady_clock::now();
    for (const std::shared_ptr<ChannelSession>& session : sessions) session->CloseIfStalled(now);
  }
}

absl::StatusOr<v1::OpenChannelReply> DataChannelServer::OpenChannel(
    const v1::OpenChannelRequest& request) const {
  const ChannelAddress address = listener_->Invite();
  if (request.version() < address.version) {
    return absl::FailedPreconditionError(
        absl::StrCat("the client speaks the data channel up to version ", request.version(),
                     ", this server from version ", address.version, " on; use the rpc Exchange"));
  }
  v1::OpenChannelReply reply;
  reply.set_version(address.version);
  reply.set_host(address.host);
  reply.set_port(address.port);
  reply.set_unix_name(address.unix_name);
  reply.set_nonce(address.nonce);
  reply.set_secret(address.secret);
  reply.set_tls(address.security == ChannelSecurity::kTls);
  return reply;
}

absl::Status DataChannelServer::Admit() {
  absl::MutexLock lock(&mutex_);
  return RoomLocked();
}

absl::Status DataChannelServer::RoomLocked() const {
  if (!shut_down_.ok() || sessions_.size() < options_.max_connections) return shut_down_;
  return absl::ResourceExhaustedError(
      absl::StrCat(sessions_.size(), " data channels are open on this server, the limit is ",
                   options_.max_connections));
}

void DataChannelServer::Serve(std::shared_ptr<FrameChannel> channel,
                              std::shared_ptr<ExchangeCounters> counters) {
  uint64_t id;
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    id = next_session_++;
    // Its place is taken before it starts, so that it cannot end before.
    refused = RoomLocked();
    sessions_.emplace(id, nullptr);
  }
  // One that is turned away hears why, and nothing else.
  if (!refused.ok()) channel->SetReading(false);
  ChannelSession::Options options;
  options.limits = options_.limits;
  options.budgets = options_.budgets;
  options.ended = [this, id] {
    std::shared_ptr<ChannelSession> session;
    absl::MutexLock lock(&mutex_);
    const auto found = sessions_.find(id);
    session = std::move(found->second);
    sessions_.erase(found);
  };
  const std::shared_ptr<ChannelSession> session =
      ChannelSession::Start(std::move(channel), host_, std::move(counters), std::move(options));
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = sessions_.find(id); found != sessions_.end()) found->second = session;
    if (refused.ok()) refused = shut_down_;
  }
  if (!refused.ok()) session->Close(refused);
}

void DataChannelServer::Shutdown(const absl::Status& reason) {
  std::vector<std::shared_ptr<ChannelSession>> sessions;
  {
    absl::MutexLock lock(&mutex_);
    if (shut_down_.ok()) shut_down_ = reason;
    for (const auto& [id, session] : sessions_) {
      if (session != nullptr) sessions.push_back(session);
    }
  }
  for (const std::shared_ptr<ChannelSession>& session : sessions) session->Close(reason);
  // One that was being opened sees that, and closes itself.
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sessions_.empty(); };
  mutex_.Await(absl::Condition(&none));
}

void DataChannelServer::AddStats(v1::GetServerStatsReply& reply) const {
  const bool tls = options_.listener.security == ChannelSecurity::kTls;
  stream_->Save(tls ? "tls" : "tcp", *reply.add_channels());
  shared_memory_->Save("shared_memory", *reply.add_channels());
}

}  // namespace muster
