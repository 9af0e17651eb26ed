#ifndef MUSTER_COMMON_RPC_MEMBERSHIP_CLUSTER_CLIENT_H_
#define MUSTER_COMMON_RPC_MEMBERSHIP_CLUSTER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

namespace v1 {
class HeartbeatReply;
class HeartbeatRequest;
}  // namespace v1

// What a task can train on beside processors.
struct OfferedDevice {
  std::string name;
  uint64_t memory_bytes = 0;
  // Among its machine's: what tasks on it are told. The coordinator only counts.
  uint32_t number = 0;
};

// What a daemon says of itself at registration; see proto/cluster_service.proto.
struct DaemonIdentity {
  enum class Kind { kServer, kWorker };
  Kind kind = Kind::kServer;
  std::string id;
  // Random per process: tells a restarted daemon from a repeated registration.
  uint64_t process_nonce = 0;
  std::string address;
  uint32_t slots = 0;
  uint64_t memory_bytes = 0;
  // Workers'.
  std::vector<OfferedDevice> devices;
  // Of a worker's machine (common/base/machine/multiplies_bfloat16.h).
  bool multiplies_bf16 = false;
  // A worker's, which its tasks share; 0: not told.
  uint32_t processors = 0;
};

// The coordinator, as far as membership needs it: ClusterService without gRPC, so that tests can be
// one.
class ClusterClient {
 public:
  struct Registration {
    uint64_t incarnation = 0;
    absl::Duration lease;
  };

  virtual ~ClusterClient() = default;

  virtual absl::StatusOr<Registration> Register(const DaemonIdentity& daemon,
                                                absl::Duration timeout) = 0;
  // Blocks for up to the request's poll_ms, or until Interrupt.
  virtual absl::StatusOr<v1::HeartbeatReply> Heartbeat(const v1::HeartbeatRequest& request,
                                                       absl::Duration timeout) = 0;
  // Ends a Heartbeat or Register in progress with CANCELLED, or the next one where none is.
  // Thread-safe.
  virtual void Interrupt() = 0;
};

// Over gRPC to the coordinator at `address`.
std::unique_ptr<ClusterClient> MakeGrpcClusterClient(const std::string& address,
                                                     const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMBERSHIP_CLUSTER_CLIENT_H_
