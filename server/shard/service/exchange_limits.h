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
  // Pushes being applied, and replies waiting to be sent: beyond either, the connection is not
  // read, and the client feels it by flow control. Both go down by themselves.
  int64_t push_bytes = 16 << 20;
  int64_t reply_bytes = 32 << 20;
  // Pulls and other operations that may be parked until other slots, or later messages of this very
  // connection, arrive: not reading could wait forever, so that what comes on top is answered
  // RESOURCE_EXHAUSTED.
  int64_t parked_bytes = 64 << 20;
};

// What came and went by one kind of connection.
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

// To an operation of `bytes` where others with `parked_bytes` are parked; OK: it may be parked too.
// A single one always may.
absl::Status CheckParked(int64_t parked_bytes, int64_t bytes, const ExchangeLimits& limits);
// How long a client that was refused so is to wait.
inline constexpr uint32_t kParkedRetryAfterMs = 100;

// To an operation of `bytes` that may wait, where others of all connections leave no room.
absl::Status NoRoomToWait(int64_t bytes, const MessageBudget& budget);

// To a push of `bytes` in the client's own memory, where messages under way leave no room for a
// copy.
absl::Status NoRoomToCopy(int64_t bytes, const MessageBudget& budget);

// To a pull whose answer of `bytes` has no room in the process's budget: to be asked for again.
v1::ExchangeReply NoRoomReply(int64_t bytes, const MessageBudget& budget);

// To a pull whose answer would be over the limit of a message; OK: it is not.
absl::Status CheckAnswerBytes(uint64_t bytes);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_EXCHANGE_LIMITS_H_
