#include "server/coordinator/cluster_service.h"

#include "proto/cluster_service.grpc.pb.h"
#include "server/coordinator/parked_reactor.h"

namespace muster {
namespace {

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class ClusterService final : public v1::ClusterService::CallbackService {
 public:
  explicit ClusterService(CoordinatorLoop& loop) : loop_(loop) {}

 private:
  Reactor* RegisterDaemon(Context*, const v1::RegisterDaemonRequest* request,
                          v1::RegisterDaemonReply* reply) override {
    return RunAtOnce<v1::RegisterDaemonReply>(
        loop_, reply, [request](Coordinator& c) { return c.daemons().Register(*request); });
  }

  Reactor* Heartbeat(Context*, const v1::HeartbeatRequest* request,
                     v1::HeartbeatReply* reply) override {
    return RunParked<v1::HeartbeatReply>(loop_, reply,
                                         [request](Coordinator& c, Call<v1::HeartbeatReply> call) {
                                           c.daemons().Heartbeat(*request, std::move(call));
                                         });
  }

  Reactor* AppendLogs(Context*, const v1::AppendLogsRequest* request,
                      v1::AppendLogsReply* reply) override {
    return RunAtOnce<v1::AppendLogsReply>(
        loop_, reply, [request](Coordinator& c) { return c.daemons().AppendLogs(*request); });
  }

  CoordinatorLoop& loop_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeClusterService(CoordinatorLoop& loop) {
  return std::make_unique<ClusterService>(loop);
}

}  // namespace muster
