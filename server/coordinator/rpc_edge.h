#ifndef MUSTER_SERVER_COORDINATOR_RPC_EDGE_H_
#define MUSTER_SERVER_COORDINATOR_RPC_EDGE_H_

#include <prometheus/histogram.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/catch_out_of_memory.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/rpc_metrics.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Rpcs enter the coordinator here. A request arrives as bytes; it is parsed only if its size is
// within the limit of its type, and handled only if all its fields are within theirs
// (request_limits.h). RESOURCE_EXHAUSTED: no memory for the request or the answer.

// Parses and checks a request. INVALID_ARGUMENT: it is too large, malformed, or beyond a limit.
absl::Status ReadRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message& request);
absl::Status WriteReply(const google::protobuf::Message& reply, grpc::ByteBuffer& bytes);
// Returns a buffer that shares `bytes`.
grpc::ByteBuffer BufferOf(const std::shared_ptr<const std::string>& bytes);
// Converts a status for gRPC; cuts a message that is longer than gRPC would deliver.
grpc::Status AtEdge(const absl::Status& status);

// A unary rpc, answered whenever its Call is. Deletes itself when gRPC is done with it.
template <typename Request, typename Reply>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(grpc::ByteBuffer* reply, RpcMetrics::Timer timer) : reply_(reply), timer_(timer) {}

  Request& request() { return request_; }

  // Returns the Call that answers this rpc. Call once.
  Call<Reply> TakeCall() {
    return {.done =
                [this](absl::StatusOr<Reply> reply) {
                  absl::Status status = reply.status();
                  if (status.ok()) status = WriteReply(*reply, *reply_);
                  End(status);
                },
            .cancelled = cancelled_,
            .done_alike =
                [this](const SharedReply<Reply>& reply) {
                  End(CatchOutOfMemory("the call", [&] {
                    *reply_ = BufferOf(reply.bytes());
                    return absl::OkStatus();
                  }));
                }};
  }

  // Ends the rpc. Call once, or the Call.
  void End(const absl::Status& status) {
    timer_.End(status.code());
    Finish(AtEdge(status));
  }

 private:
  void OnCancel() override { cancelled_->store(true, std::memory_order_release); }
  void OnDone() override { delete this; }

  Request request_;
  grpc::ByteBuffer* const reply_;
  const RpcMetrics::Timer timer_;
  // Outlives the reactor if a call is parked for longer than gRPC waits.
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// A stream of messages to the client, as gRPC takes it.
using RawStream = grpc::ServerWriteReactor<grpc::ByteBuffer>;

// The stream of a request that was refused.
class RefusedStream final : public RawStream {
 public:
  explicit RefusedStream(const absl::Status& status) { Finish(AtEdge(status)); }

 private:
  void OnDone() override { delete this; }
};

// A stream of messages from the client, as gRPC gives it.
using RawUpload = grpc::ServerReadReactor<grpc::ByteBuffer>;

// Returns the position of a service's method. REQUIRES: the service has it.
int MethodIndex(absl::string_view service, absl::string_view method);

// A service over the loop. The derived class's constructor registers a handler for each method.
// `Api` is the class that gRPC generated. Handlers never block. After methods that only read, the
// coordinator does not settle (CoordinatorLoop::PostRead).
template <typename Api>
class EdgeService : public Api::Service {
 protected:
  explicit EdgeService(CoordinatorLoop& loop) : loop_(loop) {}

  // Registers a method that the coordinator may park. The request lives until the call is answered.
  template <typename Request, typename Reply>
  void Park(const char* method,
            std::function<void(Coordinator&, const Request&, Call<Reply>)> work) {
    Serve(method, &CoordinatorLoop::Post, std::move(work));
  }

  // Registers a method that takes a report, and that the coordinator may park
  // (CoordinatorLoop::PostReport).
  template <typename Request, typename Reply>
  void ParkReport(const char* method,
                  std::function<void(Coordinator&, const Request&, Call<Reply>)> work) {
    Serve(method, &CoordinatorLoop::PostReport, std::move(work));
  }

  // Registers a method that the coordinator may park and that only reads.
  template <typename Request, typename Reply>
  void ParkRead(const char* method,
                std::function<void(Coordinator&, const Request&, Call<Reply>)> work) {
    Serve(method, &CoordinatorLoop::PostRead, std::move(work));
  }

  // Registers a method that the coordinator answers at once.
  template <typename Request, typename Reply>
  void AtOnce(const char* method,
              std::function<absl::StatusOr<Reply>(Coordinator&, const Request&)> work) {
    Serve(method, &CoordinatorLoop::Post, Answering<Request, Reply>(std::move(work)));
  }

  // Registers a method that takes a report, and that the coordinator answers at once
  // (CoordinatorLoop::PostReport).
  template <typename Request, typename Reply>
  void Report(const char* method,
              std::function<absl::StatusOr<Reply>(Coordinator&, const Request&)> work) {
    Serve(method, &CoordinatorLoop::PostReport, Answering<Request, Reply>(std::move(work)));
  }

  // Registers a method that the coordinator answers at once and that only reads.
  template <typename Request, typename Reply>
  void Read(const char* method,
            std::function<absl::StatusOr<Reply>(Coordinator&, const Request&)> work) {
    Serve(method, &CoordinatorLoop::PostRead, Answering<Request, Reply>(std::move(work)));
  }

  // Registers a method with a stream of answers.
  template <typename Request>
  void Stream(
      const char* method,
      std::function<RawStream*(CoordinatorLoop&, const Request&, grpc::CallbackServerContext*)>
          start_stream) {
    const auto start = [this, start_stream = std::move(start_stream)](
                           grpc::CallbackServerContext* context,
                           const grpc::ByteBuffer* bytes) -> RawStream* {
      Request request;
      if (absl::Status status = ReadRequest(*bytes, request); !status.ok()) {
        return new RefusedStream(status);
      }
      return start_stream(loop_, request, context);
    };
    this->MarkMethodRawCallback(
        MethodIndex(Api::service_full_name(), method),
        new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            start));
  }

  // Registers a method with a stream of requests. `start_stream` gets the buffer for the reply,
  // which lives until the call has ended.
  void Upload(const char* method,
              std::function<RawUpload*(CoordinatorLoop&, grpc::ByteBuffer*)> start_stream) {
    this->MarkMethodRawCallback(
        MethodIndex(Api::service_full_name(), method),
        new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            [this, start_stream = std::move(start_stream)](grpc::CallbackServerContext*,
                                                           grpc::ByteBuffer* reply) -> RawUpload* {
              return start_stream(loop_, reply);
            }));
  }

  CoordinatorLoop& loop_;

 private:
  using PostWork = void (CoordinatorLoop::*)(std::function<void(Coordinator&)>);

  // Returns work that answers a call with what `work` returns.
  template <typename Request, typename Reply>
  static std::function<void(Coordinator&, const Request&, Call<Reply>)> Answering(
      std::function<absl::StatusOr<Reply>(Coordinator&, const Request&)> work) {
    return [work = std::move(work)](Coordinator& coordinator, const Request& request,
                                    Call<Reply> call) {
      call.done(CatchOutOfMemory("the call", [&] { return work(coordinator, request); }));
    };
  }

  // Registers a unary method whose work `post` brings to the logic thread.
  template <typename Request, typename Reply>
  void Serve(const char* method, PostWork post,
             std::function<void(Coordinator&, const Request&, Call<Reply>)> work) {
    const auto shared = std::make_shared<const decltype(work)>(std::move(work));
    const auto name = std::make_shared<const std::string>(
        absl::StrCat(Api::service_full_name() + std::strlen("muster.v1."), "/", method));
    prometheus::Histogram& seconds = loop_.rpc_metrics().Seconds(*name);
    const auto start = [this, post, shared, name, &seconds](
                           grpc::CallbackServerContext*, const grpc::ByteBuffer* bytes,
                           grpc::ByteBuffer* reply) -> grpc::ServerUnaryReactor* {
      auto* call = new UnaryCall<Request, Reply>(
          reply, RpcMetrics::Timer(loop_.rpc_metrics(), *name, seconds));
      if (absl::Status status = ReadRequest(*bytes, call->request()); !status.ok()) {
        call->End(status);
        return call;
      }
      (loop_.*post)([call, shared](Coordinator& coordinator) {
        (*shared)(coordinator, call->request(), call->TakeCall());
      });
      return call;
    };
    this->MarkMethodRawCallback(
        MethodIndex(Api::service_full_name(), method),
        new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(start));
  }
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_RPC_EDGE_H_
