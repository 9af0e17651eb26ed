#include "common/rpc/parameter_service/data_channel_client.h"

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/philox.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/channel_lane.h"
#include "common/rpc/parameter_service/exchange_connection.h"
#include "common/rpc/parameter_service/opening_lane.h"
#include "common/rpc/parameter_service/parameter_stub.h"
#include "common/rpc/rpc_status.h"
#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/deadline.h"
#include "common/transport/sockets/host_of.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {
namespace {

// For each attempt at opening a channel.
constexpr absl::Duration kOpenTimeout = absl::Seconds(3);
// Waits before the data channel is tried again.
constexpr absl::Duration kFirstRetry = absl::Seconds(10);
constexpr absl::Duration kLongestRetry = absl::Minutes(5);

class DataChannelClient final : public ParameterClient {
 public:
  DataChannelClient(const std::string& address, const RpcCredentials& credentials,
                    std::shared_ptr<ChannelIo> io, DataChannelClientOptions options)
      : address_(address),
        encrypted_(credentials.encrypted()),
        io_(std::move(io)),
        options_(std::move(options)),
        limits_{options_.client.window_bytes / options_.client.connections,
                options_.client.max_queued_bytes / options_.client.connections},
        waiter_(options_.waiter != nullptr ? options_.waiter : std::make_shared<RealWaiter>()),
        channel_(MakeChannel(address, credentials, ConnectionSharing::kOwn)),
        stub_(channel_, address) {
    for (int i = 0; i < options_.client.connections; ++i) {
      lanes_.push_back(std::make_unique<OpeningLane>(address, limits_));
    }
  }

  ~DataChannelClient() override {
    Abort(absl::CancelledError(absl::StrCat("the client of server ", address_, " was closed")));
    std::thread opener;
    {
      absl::MutexLock lock(&mutex_);
      opener = std::move(opener_);
    }
    if (opener.joinable()) opener.join();
  }

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration timeout) override {
    return stub_.OpenTables(request, timeout);
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest& request,
                                                       absl::Duration timeout) override {
    return stub_.EndGeneration(request, timeout);
  }
  absl::Status DropTables(const std::string& job_id, absl::Duration timeout) override {
    return stub_.DropTables(job_id, timeout);
  }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) override {
    return stub_.Stats(timeout);
  }

  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    CallInto(std::move(request), std::move(payload), {}, std::move(done));
  }

  void CallInto(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                Done done) override {
    // In this order: the opener sends what waits in a lane, or Abort ends it.
    ExchangeLane& lane = *lanes_[request.partition() % lanes_.size()];
    lane.Call(std::move(request), std::move(payload), landing, std::move(done));
    if (!opening_.load(std::memory_order_acquire)) StartOpening();
  }

  void SetWaiting(bool waiting) override {
    for (auto& lane : lanes_) lane->SetWaiting(waiting);
  }

  void Abort(absl::Status reason) override {
    aborted_.store(true);
    waiter_->Stop();
    {
      absl::MutexLock lock(&mutex_);
      if (open_context_ != nullptr) open_context_->TryCancel();
    }
    for (auto& lane : lanes_) lane->Abort(reason);
  }

 private:
  void StartOpening() {
    absl::MutexLock lock(&mutex_);
    if (opening_.exchange(true) || aborted_.load()) return;
    opener_ = std::thread([this] { Open(); });
  }

  // Opens all lanes, and tries to replace those that are makeshifts, on a thread of its own.
  void Open() {
    const absl::StatusOr<ChannelAddress> target = FindChannel();
    std::vector<OpeningLane*> makeshifts;
    for (auto& lane : lanes_) {
      std::string reason;
      if (std::unique_ptr<ExchangeLane> opened = OpenLane(target, reason)) {
        lane->Open(std::move(opened), OpeningLane::Stay::kForGood);
        continue;
      }
      // After an abort nothing goes this way.
      if (options_.opened && !aborted_.load()) options_.opened("grpc", reason);
      lane->Open(std::make_unique<ExchangeConnection>(channel_, address_, limits_),
                 OpeningLane::Stay::kAsMakeshift);
      makeshifts.push_back(lane.get());
    }
    const bool can_improve =
        options_.shared_memory_bytes > 0 || options_.tcp == DataChannelClientOptions::Tcp::kUsed;
    if (can_improve) Improve(std::move(makeshifts));
  }

  // Replaces lanes until none is left or the client is aborted.
  void Improve(std::vector<OpeningLane*> makeshifts) {
    Backoff backoff({.first = kFirstRetry, .longest = kLongestRetry},
                    Philox(std::random_device()(), "data channel", address_));
    while (!makeshifts.empty() && waiter_->Wait(backoff.Next())) {
      const absl::StatusOr<ChannelAddress> target = FindChannel();
      std::vector<OpeningLane*> left;
      for (OpeningLane* lane : makeshifts) {
        std::string reason;
        if (std::unique_ptr<ExchangeLane> opened = OpenLane(target, reason)) {
          lane->Replace(std::move(opened));
        } else {
          left.push_back(lane);
        }
      }
      makeshifts = std::move(left);
    }
  }

  // Asks the server for its data channel.
  absl::StatusOr<ChannelAddress> FindChannel() {
    auto context = std::make_unique<grpc::ClientContext>();
    grpc::ClientContext& used = *context;
    {
      absl::MutexLock lock(&mutex_);
      open_context_ = std::move(context);
      if (aborted_.load()) used.TryCancel();
    }
    absl::StatusOr<ChannelAddress> target = stub_.OpenChannel(used, kOpenTimeout);
    if (target.ok() && target->host.empty()) target->host = HostOf(address_);
    return target;
  }

  // Opens a lane by the data channel. Returns null, and says why, if there is no way.
  std::unique_ptr<ExchangeLane> OpenLane(const absl::StatusOr<ChannelAddress>& target,
                                         std::string& reason) {
    if (!target.ok()) {
      reason = std::string(target.status().message());
    } else if (!aborted_.load()) {
      IoLoop& loop = io_->NextLoop();
      if (options_.shared_memory_bytes == 0) {
        reason = "shared memory is not asked for";
      } else if (target->unix_name.empty()) {
        reason = "the server offers no shared memory";
      } else {
        auto channel =
            ConnectSharedChannel(*target, options_.shared_memory_bytes, loop, io_->pool(),
                                 Deadline::After(kOpenTimeout), options_.registered_memory);
        if (channel.ok()) return Opened(*std::move(channel), loop, reason);
        reason = absl::StrCat("shared memory: ", std::string(channel.status().message()));
      }
      if (encrypted_ && target->security == ChannelSecurity::kPlain) {
        absl::StrAppend(&reason,
                        "; TCP: the server's data channel is plain, and a client with certificates "
                        "sends nothing in plain text; use the same release on both sides");
      } else if (options_.tcp == DataChannelClientOptions::Tcp::kUsed && !aborted_.load()) {
        auto channel =
            ConnectSocketChannel(*target, loop, io_->pool(), Deadline::After(kOpenTimeout));
        if (channel.ok()) return Opened(*std::move(channel), loop, reason);
        absl::StrAppend(&reason, target->security == ChannelSecurity::kTls ? "; TLS: " : "; TCP: ",
                        std::string(channel.status().message()));
      }
    }
    return nullptr;
  }

  std::unique_ptr<ExchangeLane> Opened(std::shared_ptr<FrameChannel> channel, IoLoop& loop,
                                       const std::string& reason) {
    if (options_.opened) options_.opened(channel->kind(), reason);
    return std::make_unique<ChannelLane>(std::move(channel), loop, address_, limits_);
  }

  const std::string address_;
  // If true, nothing goes between machines in plain text.
  const bool encrypted_;
  const std::shared_ptr<ChannelIo> io_;
  const DataChannelClientOptions options_;
  const ExchangeLane::Limits limits_;
  const std::shared_ptr<Waiter> waiter_;
  const std::shared_ptr<grpc::Channel> channel_;
  ParameterStub stub_;
  std::atomic<bool> opening_{false};
  std::atomic<bool> aborted_{false};
  std::vector<std::unique_ptr<OpeningLane>> lanes_;

  absl::Mutex mutex_;
  // Context of the last call that asked for the data channel.
  std::unique_ptr<grpc::ClientContext> open_context_ ABSL_GUARDED_BY(mutex_);
  std::thread opener_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ParameterClient> MakeDataChannelClient(const std::string& address,
                                                       const RpcCredentials& credentials,
                                                       std::shared_ptr<ChannelIo> io,
                                                       DataChannelClientOptions options) {
  return std::make_unique<DataChannelClient>(address, credentials, std::move(io),
                                             std::move(options));
}

}  // namespace muster
