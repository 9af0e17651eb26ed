#include "server/shard/service/parameter_service.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/catch_out_of_memory.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/server_context.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/shard/service/blocking_pool.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/exchange_limits.h"
#include "server/shard/service/exchange_stream.h"
#include "server/shard/service/hand_over_stream.h"

namespace muster {
namespace {

// Small calls as callbacks; Exchange as raw bytes.
using ServiceBase = v1::ParameterService::WithCallbackMethod_OpenTables<
    v1::ParameterService::WithCallbackMethod_EndGeneration<
        v1::ParameterService::WithCallbackMethod_DropTables<
            v1::ParameterService::WithCallbackMethod_OpenChannel<
                v1::ParameterService::WithCallbackMethod_GetServerStats<
                    v1::ParameterService::WithCallbackMethod_HandOver<
                        v1::ParameterService::WithRawCallbackMethod_Exchange<
                            v1::ParameterService::Service>>>>>>>;

// Partitions that are handed over at a time, and that may wait beside.
constexpr int kHandOverThreads = 2;
constexpr size_t kHandOverQueue = 64;

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

class GrpcParameterService final : public ParameterService, private ServiceBase {
 public:
  GrpcParameterService(PartitionHost& host, ParameterServiceOptions options,
                       DataChannelServer* data_channels)
      : host_(host),
        data_channels_(data_channels),
        limits_{options.push_bytes, options.reply_bytes, options.parked_bytes},
        budgets_(std::move(options.budgets)),
        mover_(options.mover),
        pool_(options.blocking_threads, options.blocking_queue),
        hand_overs_(kHandOverThreads, kHandOverQueue) {}

  grpc::Service& service() override { return *this; }

  void Shutdown() override {
    std::vector<std::weak_ptr<ExchangeStream>> streams;
    {
      absl::MutexLock lock(&mutex_);
      shut_down_ = true;
      streams.swap(streams_);
    }
    for (const auto& weak : streams) {
      if (auto stream = weak.lock()) stream->Close(ShuttingDown());
    }
    if (data_channels_ != nullptr) data_channels_->Shutdown(ShuttingDown());
  }

  v1::GetServerStatsReply Stats() const override {
    v1::GetServerStatsReply reply = host_.Stats();
    streams_counters_.Save("grpc", *reply.add_channels());
    if (data_channels_ != nullptr) data_channels_->AddStats(reply);
    return reply;
  }

 private:
  grpc::ServerUnaryReactor* OpenTables(grpc::CallbackServerContext* context,
                                       const v1::OpenTablesRequest* request,
                                       v1::OpenTablesReply* reply) override {
    return RunBlocking(context, [this, request, reply] {
      absl::StatusOr<v1::OpenTablesReply> opened = host_.OpenTables(*request);
      if (opened.ok()) *reply = *std::move(opened);
      return opened.status();
    });
  }

  grpc::ServerUnaryReactor* EndGeneration(grpc::CallbackServerContext* context,
                                          const v1::EndGenerationRequest* request,
                                          v1::EndGenerationReply* reply) override {
    return RunBlocking(context, [this, request, reply] {
      absl::StatusOr<v1::EndGenerationReply> ended = host_.EndGeneration(*request);
      if (ended.ok()) *reply = *std::move(ended);
      return ended.status();
    });
  }

  grpc::ServerUnaryReactor* DropTables(grpc::CallbackServerContext* context,
                                       const v1::DropTablesRequest* request,
                                       v1::DropTablesReply*) override {
    return RunBlocking(context, [this, request] { return host_.DropTables(*request); });
  }

  grpc::ServerWriteReactor<v1::HandOverChunk>* HandOver(
      grpc::CallbackServerContext*, const v1::HandOverRequest* request) override {
    return StartHandOver(mover_, *request, hand_overs_);
  }

  grpc::ServerUnaryReactor* GetServerStats(grpc::CallbackServerContext* context,
                                           const v1::GetServerStatsRequest*,
                                           v1::GetServerStatsReply* reply) override {
    *reply = Stats();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* OpenChannel(grpc::CallbackServerContext* context,
                                        const v1::OpenChannelRequest* request,
                                        v1::OpenChannelReply* reply) override {
    absl::Status status =
        absl::UnimplementedError("this server has no data channel; use the rpc Exchange");
    if (data_channels_ != nullptr) {
      absl::StatusOr<v1::OpenChannelReply> opened = data_channels_->OpenChannel(*request);
      status = opened.status();
      if (opened.ok()) *reply = *std::move(opened);
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext*) override {
    // Lives until gRPC is done with it, which cannot be before it has been returned.
    std::shared_ptr<ExchangeStream> stream =
        ExchangeStream::Start(host_, limits_, budgets_, streams_counters_);
    bool refused;
    {
      absl::MutexLock lock(&mutex_);
      refused = shut_down_;
      streams_.erase(std::remove_if(streams_.begin(), streams_.end(),
                                    [](const auto& weak) { return weak.expired(); }),
                     streams_.end());
      streams_.push_back(stream);
    }
    if (refused) stream->Close(ShuttingDown());
    return stream.get();
  }

  // Finishes the call with the status of `work`, run on the pool. gRPC keeps the messages until
  // then.
  template <typename WorkFunction>
  grpc::ServerUnaryReactor* RunBlocking(grpc::CallbackServerContext* context, WorkFunction work) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const bool taken = pool_.Run([reactor, work = std::move(work)] {
      reactor->Finish(ToGrpc(CatchOutOfMemory("the call", work)));
    });
    if (!taken) {
      reactor->Finish(
          ToGrpc(absl::UnavailableError("too many tables are being opened, ended or dropped on "
                                        "this server; try again in a second")));
    }
    return reactor;
  }

  PartitionHost& host_;
  DataChannelServer* const data_channels_;
  const ExchangeLimits limits_;
  const std::shared_ptr<MessageBudgets> budgets_;
  ExchangeCounters streams_counters_;
  absl::Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<ExchangeStream>> streams_ ABSL_GUARDED_BY(mutex_);
  PartitionMover* const mover_;
  // Last, so that their tasks end before what they use goes.
  BlockingPool pool_;
  BlockingPool hand_overs_;
};

}  // namespace

std::unique_ptr<ParameterService> ParameterService::Create(PartitionHost& host,
                                                           ParameterServiceOptions options,
                                                           DataChannelServer* data_channels) {
  return std::make_unique<GrpcParameterService>(host, std::move(options), data_channels);
}

}  // namespace muster
