#ifndef MUSTER_CLIENT_DOCTOR_EXAMINATION_CALLER_H_
#define MUSTER_CLIENT_DOCTOR_EXAMINATION_CALLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

namespace v1 {
class ExaminationUpdate;
}  // namespace v1

// The coordinator's ExaminationService as a client uses it. Nothing is repeated: that a call fails
// is what an examination looks for. Errors are those of the rpcs. Calls block; single-threaded.
class ExaminationCaller {
 public:
  ExaminationCaller(const std::string& coordinator_address, const RpcCredentials& credentials);
  ~ExaminationCaller();

  // Returns the coordinator's time in microseconds since 1970.
  absl::StatusOr<int64_t> ReadClock(absl::Duration timeout);

  // Examines the cluster and calls `added` with each message.
  absl::Status Examine(absl::Duration wait,
                       const std::function<void(const v1::ExaminationUpdate&)>& added);

 private:
  struct Connection;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_EXAMINATION_CALLER_H_
