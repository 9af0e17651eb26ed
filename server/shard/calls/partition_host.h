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
class EndGenerationReply;
class EndGenerationRequest;
class ExchangeReply;
class ExchangeRequest;
class GetServerStatsReply;
class OpenTablesReply;
class OpenTablesRequest;
}  // namespace v1

// One data-plane operation on its way through the server.
struct ExchangeCall {
  // Header, whose `payload` field is empty: the bytes are in `payload`.
  std::shared_ptr<const v1::ExchangeRequest> request;
  Payload payload;
  // Access of the caller's process to the payload's bytes. If it can change them (kShared,
  // kRegistered), whatever must stay as it was checked is copied first; a caller that changes the
  // rest corrupts only its own values. The caller leaves kRegistered, memory of its own, unchanged
  // for a while (MemoryRange in proto/parameter_service.proto); the other kinds are needed for the
  // next messages.
  enum class PayloadMemory { kPrivate, kShared, kRegistered };
  PayloadMemory payload_memory = PayloadMemory::kPrivate;
  // Returns memory, aligned for f32, from which an answer of so many bytes is sent without a copy;
  // to be given to `done` whole, once and soon, or not at all. May be null or return null.
  std::function<std::shared_ptr<std::byte>(size_t bytes)> answer_memory;
  // True once the caller is gone: a parked call may then be dropped without an answer. May be null.
  std::shared_ptr<const std::atomic<bool>> cancelled;
  // Called exactly once (unless cancelled), from any thread and without locks held; must not block.
  // The reply's `payload` field is empty; its bytes are the second argument, and never change.
  std::function<void(v1::ExchangeReply reply, Payload payload)> done;
};

// Memory that an operation takes beside its payload, about. With it, a bound on bytes also bounds
// the number of operations without a payload.
inline constexpr size_t kCallBytes = 512;

// All partitions on this server: the logic behind ParameterService, without gRPC. Thread-safe.
class PartitionHost {
 public:
  virtual ~PartitionHost() = default;

  // See the rpcs of the same name for meaning and errors. All block.
  virtual absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) = 0;
  virtual absl::StatusOr<v1::EndGenerationReply> EndGeneration(
      const v1::EndGenerationRequest& request) = 0;
  virtual absl::Status DropTables(const v1::DropTablesRequest& request) = 0;

  // Queues one operation; never blocks. Operations on one partition run in the order of calls.
  virtual void Execute(ExchangeCall call) = 0;

  virtual v1::GetServerStatsReply Stats() const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_PARTITION_HOST_H_
