#ifndef MUSTER_TESTS_BENCHMARKS_COORDINATOR_RPC_CALL_H_
#define MUSTER_TESTS_BENCHMARKS_COORDINATOR_RPC_CALL_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/client_context.h"

namespace muster {

// One unary call that no thread waits for. Lives until it is answered.
template <typename Request, typename Reply>
struct RpcCall {
  grpc::ClientContext context;
  Request request;
  Reply reply;

  // Starts a call by `start`, a method of a stub's async(). `done` runs on a thread of gRPC's.
  template <typename Start>
  static void Begin(Request request, absl::Duration timeout, const Start& start,
                    std::function<void(const absl::Status&, Reply&)> done) {
    auto call = std::make_shared<RpcCall>();
    call->request = std::move(request);
    SetDeadline(call->context, timeout);
    start(&call->context, &call->request, &call->reply,
          [call, done = std::move(done)](const grpc::Status& status) {
            done(FromGrpc(status), call->reply);
          });
  }
};

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_COORDINATOR_RPC_CALL_H_
