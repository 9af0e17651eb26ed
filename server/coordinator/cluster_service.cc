#include "server/coordinator/cluster_service.h"

#include <utility>

#include "proto/cluster_service.grpc.pb.h"
#include "server/coordinator/rpc_edge.h"

namespace muster {
namespace {

class ClusterService final : public EdgeService<v1::ClusterService> {
 public:
  explicit ClusterService(CoordinatorLoop& loop) : EdgeService(loop) {
    Park<v1::RegisterDaemonRequest, v1::RegisterDaemonReply>(
        "RegisterDaemon", [](Coordinator& c, const auto& request, auto call) {
          c.daemons().Register(request, std::move(call));
        });
    ParkReport<v1::HeartbeatRequest, v1::HeartbeatReply>(
        "Heartbeat", [](Coordinator& c, const auto& request, auto call) {
          c.daemons().Heartbeat(request, std::move(call));
        });
    Report<v1::AppendLogsRequest, v1::AppendLogsReply>(
        "AppendLogs",
        [](Coordinator& c, const auto& request) { return c.daemons().AppendLogs(request); });
    AtOnce<v1::ReportServerTraceRequest, v1::TraceReply>(
        "ReportServerTrace",
        [](Coordinator& c, const auto& request) { return c.daemons().ReportServerTrace(request); });
  }
};

}  // namespace

std::unique_ptr<grpc::Service> MakeClusterService(CoordinatorLoop& loop) {
  return std::make_unique<ClusterService>(loop);
}

}  // namespace muster
