#ifndef MUSTER_COMMON_TRACE_SEND_TRACE_H_
#define MUSTER_COMMON_TRACE_SEND_TRACE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/rpc/rpc_credentials.h"
#include "common/trace/trace_sender.h"

namespace muster {

namespace v1 {
class TaskIdentity;
}  // namespace v1

// Return what sends pieces of a trace to the coordinator at `address`, for a task and for a server
// (ReportTrace of TaskService, ReportServerTrace of ClusterService). `incarnation` returns the
// server's present one.
TraceSender::Send SendTaskTrace(const std::string& address, const RpcCredentials& credentials,
                                const v1::TaskIdentity& task);
TraceSender::Send SendServerTrace(const std::string& address, const RpcCredentials& credentials,
                                  const std::string& server_id,
                                  std::function<uint64_t()> incarnation);

}  // namespace muster

#endif  // MUSTER_COMMON_TRACE_SEND_TRACE_H_
