#ifndef MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_LIMITS_H_
#define MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_LIMITS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace muster {

namespace v1 {
class ChannelStats;
class ExchangeReply;
}  // namespace v1

class MessageBudget;

// Bounds on what one connection may hold of the server's memory; a single message always fits.
struct ExchangeLimits {
  // Bytes of pushes being applied, and of replies waiting to be sent. Beyond either bound the
  // connection is not read, and the client feels it by flow control. Both go down by themselves.
  int64_t push_bytes = 16 << 20;
  int64_t reply_bytes = 32 << 20;
  // Bytes of pulls and other operations that may be parked until other slots, or later messages of
  // this very connection, arrive. Not reading could wait for ever, so operations beyond the bound
  // are answered RESOURCE_EXHAUSTED.
  int64_t parked_bytes = 64 << 20;
};

// Counts of what came and went by one kind of connection.
struct ExchangeCounters {
  std::atomic<int64_t> connections{0};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> bytes_sent{0};

  void Count(uint64_t bytes) {
    requests.fetch_add(1, std::memory_order_relaxed);
    bytes_received.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Save(const char* kind, v1::ChannelStats& stats) const;
};

v1::ExchangeReply ErrorReply(const absl::Status& status);

// Returns an error if an operation of `bytes` may not be parked, too. A single one always may.
absl::Status CheckParked(int64_t parked_bytes, int64_t bytes, const ExchangeLimits& limits);
// Time that a client waits after such a refusal.
inline constexpr uint32_t kParkedRetryAfterMs = 100;

// Returns the refusal of an operation of `bytes` that may wait, for want of room.
absl::Status NoRoomToWait(int64_t bytes, const MessageBudget& budget);

// Returns the refusal of a push of `bytes` in the client's own memory, for want of room for a copy.
absl::Status NoRoomToCopy(int64_t bytes, const MessageBudget& budget);

// Returns the refusal of a pull whose answer of `bytes` finds no room: to be asked for again.
v1::ExchangeReply NoRoomReply(int64_t bytes, const MessageBudget& budget);

// Returns an error if a pull's answer of `bytes` would be over the limit of a message.
absl::Status CheckAnswerBytes(uint64_t bytes);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_LIMITS_H_
