#ifndef MUSTER_SERVER_COORDINATOR_PARKED_REACTOR_H_
#define MUSTER_SERVER_COORDINATOR_PARKED_REACTOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/rpc/rpc_status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/coordinator/call.h"
#include "server/coordinator/coordinator_loop.h"

namespace muster {

// A unary rpc that is answered whenever its Call is. Deletes itself when gRPC is done with it.
template <typename Reply>
class ParkedReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit ParkedReactor(Reply* reply) : reply_(reply) {}

  // To be taken once.
  Call<Reply> TakeCall() {
    return {.done =
                [this](absl::StatusOr<Reply> reply) {
                  if (reply.ok()) *reply_ = *std::move(reply);
                  Finish(ToGrpc(reply.status()));
                },
            .cancelled = cancelled_};
  }

 private:
  void OnCancel() override { cancelled_->store(true, std::memory_order_release); }
  void OnDone() override { delete this; }

  Reply* const reply_;
  // Outlives the reactor where a call is parked for longer than gRPC waits.
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// An rpc that the coordinator may park.
template <typename Reply>
grpc::ServerUnaryReactor* RunParked(CoordinatorLoop& loop, Reply* reply,
                                    std::function<void(Coordinator&, Call<Reply>)> work) {
  auto* reactor = new ParkedReactor<Reply>(reply);
  loop.Post([reactor, work = std::move(work)](Coordinator& coordinator) {
    work(coordinator, reactor->TakeCall());
  });
  return reactor;
}

// An rpc that the coordinator answers at once.
template <typename Reply>
grpc::ServerUnaryReactor* RunAtOnce(CoordinatorLoop& loop, Reply* reply,
                                    std::function<absl::StatusOr<Reply>(Coordinator&)> work) {
  return RunParked<Reply>(loop, reply,
                          [work = std::move(work)](Coordinator& coordinator, Call<Reply> call) {
                            call.done(work(coordinator));
                          });
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PARKED_REACTOR_H_
