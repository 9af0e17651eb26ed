#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_CONNECTION_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/parameter_service/exchange_lane.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"

namespace muster {

// A lane over one Exchange stream, which opens with the first call.
class ExchangeConnection final
    : public ExchangeLane,
      private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `address` is for messages.
  ExchangeConnection(std::shared_ptr<grpc::Channel> channel, std::string address, Limits limits);
  ~ExchangeConnection() override;

  void Call(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
            ParameterClient::Done done) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status reason) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Outgoing {
    grpc::ByteBuffer message;
    int64_t bytes;
    int64_t window_bytes;
  };
  struct Unanswered {
    ParameterClient::Done done;
    int64_t window_bytes;
  };

  void OnWriteDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  // Actions to take outside the lock after a change of state.
  struct Actions {
    bool open = false;
    bool write = false;
    bool release = false;
  };
  Actions NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Perform(Actions actions) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes no more calls; those outstanding end with `reason`.
  void Close(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string address_;
  const Limits limits_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::atomic<uint64_t> next_id_{1};
  absl::Notification ended_;

  // Owned by gRPC between the start of a write or read and its reaction.
  grpc::ByteBuffer writing_message_;
  grpc::ByteBuffer reading_message_;

  absl::Mutex mutex_;
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  // True while a write, or the opening of the stream, is under way.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // True while this side may write: gRPC keeps the stream until this hold is given up.
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  // True once gRPC says that the stream is at its end; OnDone brings the reason.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  // Not OK once closed.
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t window_used_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, Unanswered> unanswered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_EXCHANGE_CONNECTION_H_
