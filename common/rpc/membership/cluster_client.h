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

// A device, other than processors, on which a task can train.
struct OfferedDevice {
  std::string name;
  uint64_t memory_bytes = 0;
  // Number among the machine's devices, which its tasks are told; the coordinator only counts.
  uint32_t number = 0;
};

// A daemon's description of itself at registration; see proto/cluster_service.proto.
struct DaemonIdentity {
  enum class Kind { kServer, kWorker };
  Kind kind = Kind::kServer;
  std::string id;
  // Random per process: tells a restarted daemon from a repeated registration.
  uint64_t process_nonce = 0;
  std::string address;
  uint32_t slots = 0;
  uint64_t memory_bytes = 0;
  // Workers only.
  std::vector<OfferedDevice> devices;
  // Workers only: see common/base/machine/multiplies_bfloat16.h.
  bool multiplies_bf16 = false;
  // Processors that a worker's tasks share; 0: unknown.
  uint32_t processors = 0;
  // Workers only: whether tasks may run programs.
  bool allows_programs = false;
};

// The coordinator's ClusterService as membership needs it, without gRPC, so that tests can fake it.
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
  // Ends a Heartbeat or Register in progress, otherwise the next one, with CANCELLED. Thread-safe.
  virtual void Interrupt() = 0;
};

// Returns a client, over gRPC, of the coordinator at `address`.
std::unique_ptr<ClusterClient> MakeGrpcClusterClient(const std::string& address,
                                                     const RpcCredentials& credentials);

}  // namespace muster

#endif  // MUSTER_COMMON_RPC_MEMBERSHIP_CLUSTER_CLIENT_H_
