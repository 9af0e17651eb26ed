#ifndef MUSTER_COMMON_EXAMINATION_EXAMINATION_CLIENT_H_
#define MUSTER_COMMON_EXAMINATION_EXAMINATION_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

namespace v1 {
class AwaitExaminationRequest;
class ExaminationOrder;
class ReadClockReply;
class ReportExaminationReply;
class ReportExaminationRequest;
}  // namespace v1

// The daemons' part of the coordinator's ExaminationService, without gRPC, so that tests can fake
// it and the coordinator's own process can do without a connection. Calls block; errors are those
// of the rpcs. One thread at a time, but for Interrupt.
class ExaminationClient {
 public:
  virtual ~ExaminationClient() = default;

  virtual absl::StatusOr<v1::ExaminationOrder> Await(const v1::AwaitExaminationRequest& request,
                                                     absl::Duration timeout) = 0;
  virtual absl::StatusOr<v1::ReportExaminationReply> Report(
      const v1::ReportExaminationRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<v1::ReadClockReply> ReadClock(absl::Duration timeout) = 0;
  // Ends the call in progress and all later ones with CANCELLED. Thread-safe.
  virtual void Interrupt() = 0;
};

// Returns a client, over gRPC, of the coordinator at `address`. It uses the connection that the
// process has already.
std::unique_ptr<ExaminationClient> MakeGrpcExaminationClient(const std::string& address,
                                                             const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_EXAMINATION_CLIENT_H_
