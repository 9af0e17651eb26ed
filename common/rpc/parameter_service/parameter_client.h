#ifndef MUSTER_COMMON_RPC_PARAMETER_SERVICE_PARAMETER_CLIENT_H_
#define MUSTER_COMMON_RPC_PARAMETER_SERVICE_PARAMETER_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "common/base/work.h"

namespace muster {

namespace v1 {
class EndGenerationReply;
class EndGenerationRequest;
class ExchangeReply;
class ExchangeRequest;
class GetServerStatsReply;
class OpenTablesReply;
class OpenTablesRequest;
}  // namespace v1

// An answer to an exchange that the server carried out.
struct ExchangeResult {
  // Has code 0 and an empty payload field; the bytes are in `payload`.
  std::shared_ptr<const v1::ExchangeReply> reply;
  Payload payload;
};

// The data plane of one parameter server, as its clients see it. Thread-safe. Errors of the rpcs
// come back as statuses with the server's message; see proto/parameter_service.proto for their
// meaning.
//
// A client whose connection failed stays failed: all its outstanding and later exchanges end with
// UNAVAILABLE. Make a new client and repeat what was not answered; the server knows what it has
// applied.
class ParameterClient {
 public:
  using Done = std::function<void(absl::StatusOr<ExchangeResult>)>;

  virtual ~ParameterClient() = default;

  // Block until the answer or the timeout.
  virtual absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                         absl::Duration timeout) = 0;
  virtual absl::StatusOr<v1::EndGenerationReply> EndGeneration(
      const v1::EndGenerationRequest& request, absl::Duration timeout) = 0;
  virtual absl::Status DropTables(const std::string& job_id, absl::Duration timeout) = 0;
  virtual absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration timeout) = 0;

  // Sends one operation; never blocks. `request` needs no request_id, and its payload field stays
  // empty: the bytes go in `payload`. They must not change until their owner is released, which may
  // be after `done` (longer yet for memory that is registered with the server: see MemoryRange in
  // proto/parameter_service.proto). Operations on one partition reach the server in the order of
  // their calls here. `done` is called exactly once: with the result, or with the status of an
  // answer that is an error (RetryAfter tells when to repeat), or of the connection. It runs on a
  // network thread (or, for refusals, inside Call) and must not block; it may call Call.
  // RESOURCE_EXHAUSTED: the message is over the limit, or too many bytes wait to be sent.
  virtual void Call(v1::ExchangeRequest request, Payload payload, Done done) = 0;

  // Does the same as Call, with a place for the answer's payload: if the payload has landing.size()
  // bytes, they lie there when `done` is called, and the result's payload is that place, without an
  // owner. A transport may receive them there directly. Until `done` is called `landing` must stay,
  // its contents are undefined, and nobody else may use it; afterwards nothing is written there.
  virtual void CallInto(v1::ExchangeRequest request, Payload payload, absl::Span<std::byte> landing,
                        Done done);

  // Tells whether somebody waits for answers; somebody does at first. While nobody does, a
  // transport may leave answers where they are, and calls that wait for the window with them. It
  // takes them in together, at the latest when somebody waits again; `done` is called only then.
  virtual void SetWaiting(bool) {}

  // Ends all exchanges with `reason`, now and later. Idempotent.
  virtual void Abort(absl::Status reason) = 0;
};

// Returns a `done` for Call that keeps CallInto's promise by a copy.
ParameterClient::Done CopyInto(absl::Span<std::byte> landing, ParameterClient::Done done);

// Calls `client` and returns a handle to wait on.
std::shared_ptr<Pending<ExchangeResult>> StartExchange(ParameterClient& client,
                                                       v1::ExchangeRequest request,
                                                       Payload payload = {});

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_PARAMETER_SERVICE_PARAMETER_CLIENT_H_
