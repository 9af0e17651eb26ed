#ifndef MUSTER_SERVER_SHARD_CALLS_PARTITION_HOST_H_
#define MUSTER_SERVER_SHARD_CALLS_PARTITION_HOST_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/payload.h"

namespace muster {

namespace v1 {
class DropTablesRequest;
class ExchangeReply;
class ExchangeRequest;
class GetServerStatsReply;
class OpenTablesReply;
class OpenTablesRequest;
}  // namespace v1

// One data-plane operation on its way through the server.
struct ExchangeCall {
  // Header with an empty `payload` field; the bytes are in `payload`.
  std::shared_ptr<const v1::ExchangeRequest> request;
  Payload payload;
  // Whether the caller's process can still change the payload's bytes: what has to stay as it was
  // checked is copied first. It gives way to nothing worse than wrong numbers of its own. What is
  // registered is the caller's own memory, which it has agreed to leave as it is for a while
  // (MemoryRange in proto/parameter_service.proto): the others are wanted for what comes next.
  enum class PayloadMemory { kPrivate, kShared, kRegistered };
  PayloadMemory payload_memory = PayloadMemory::kPrivate;
  // Null, or where an answer of so many bytes may be made so that it goes without a copy: to be
  // given to `done` whole, once and soon, or not at all. Aligned for f32. It may return null: other
  // memory does as well.
  std::function<std::shared_ptr<std::byte>(size_t bytes)> answer_memory;
  // Set once the caller is gone: a parked call may then be dropped without an answer.
  std::shared_ptr<const std::atomic<bool>> cancelled;
  // Called exactly once (unless cancelled), from any thread and without locks held; must not block.
  // The reply's `payload` field is empty, its bytes are the second argument and never change
  // afterwards.
  std::function<void(v1::ExchangeReply reply, Payload payload)> done;
};

// What an operation takes of memory beside its payload, about: those without one are bounded in
// number where payloads are bounded in bytes.
inline constexpr size_t kCallBytes = 512;

// All partitions on this server: the logic behind ParameterService, which knows no gRPC.
// Thread-safe.
class PartitionHost {
 public:
  virtual ~PartitionHost() = default;

  // See the rpc of the same name for meaning and errors. Blocks while it restores.
  virtual absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) = 0;
  virtual absl::Status DropTables(const v1::DropTablesRequest& request) = 0;

  // Queues one operation; never blocks. Operations on one partition run in the order of their calls
  // here.
  virtual void Execute(ExchangeCall call) = 0;

  virtual v1::GetServerStatsReply Stats() const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_PARTITION_HOST_H_
