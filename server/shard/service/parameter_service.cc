#include "server/shard/service/parameter_service.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/server_context.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/shard/service/blocking_pool.h"
#include "server/shard/service/exchange_stream.h"

namespace muster {
namespace {

// Small calls as callbacks; Exchange as raw bytes.
using ServiceBase = v1::ParameterService::WithCallbackMethod_OpenTables<
    v1::ParameterService::WithCallbackMethod_DropTables<
        v1::ParameterService::WithCallbackMethod_GetServerStats<
            v1::ParameterService::WithRawCallbackMethod_Exchange<v1::ParameterService::Service>>>>;

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

class GrpcParameterService final : public ParameterService, private ServiceBase {
 public:
  GrpcParameterService(PartitionHost& host, ParameterServiceOptions options)
      : host_(host),
        limits_{options.push_bytes, options.reply_bytes, options.parked_bytes},
        pool_(options.blocking_threads, options.blocking_queue) {}

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

  grpc::ServerUnaryReactor* DropTables(grpc::CallbackServerContext* context,
                                       const v1::DropTablesRequest* request,
                                       v1::DropTablesReply*) override {
    return RunBlocking(context, [this, request] { return host_.DropTables(*request); });
  }

  grpc::ServerUnaryReactor* GetServerStats(grpc::CallbackServerContext* context,
                                           const v1::GetServerStatsRequest*,
                                           v1::GetServerStatsReply* reply) override {
    *reply = host_.Stats();
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext*) override {
    // Lives until gRPC is done with it, which cannot be before it has been returned.
    std::shared_ptr<ExchangeStream> stream = ExchangeStream::Start(host_, limits_);
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
    const bool taken =
        pool_.Run([reactor, work = std::move(work)] { reactor->Finish(ToGrpc(work())); });
    if (!taken) {
      reactor->Finish(ToGrpc(absl::UnavailableError(
          "too many tables are being opened or dropped on this server; try again in a second")));
    }
    return reactor;
  }

  PartitionHost& host_;
  const ExchangeLimits limits_;
  absl::Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<ExchangeStream>> streams_ ABSL_GUARDED_BY(mutex_);
  // Last, so that its tasks end before what they use goes.
  BlockingPool pool_;
};

}  // namespace

std::unique_ptr<ParameterService> ParameterService::Create(PartitionHost& host,
                                                           ParameterServiceOptions options) {
  return std::make_unique<GrpcParameterService>(host, options);
}

}  // namespace muster
