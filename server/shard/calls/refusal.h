#ifndef MUSTER_SERVER_SHARD_CALLS_REFUSAL_H_
#define MUSTER_SERVER_SHARD_CALLS_REFUSAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

// Times that a refused caller should wait for disk space, which somebody has to make, and for
// memory, which others have to give back.
inline constexpr uint32_t kDiskFullRetryMs = 1000;
inline constexpr uint32_t kNoMemoryRetryMs = 1000;

// Returns the answer that carries an error: without its message rather than not at all, where
// memory is short. `retry_after_ms` 0: trying again later does not help by itself.
v1::ExchangeReply Refusal(const v1::ExchangeRequest& request, const absl::Status& status,
                          uint32_t retry_after_ms = 0);

// Answers a call with an error.
void Refuse(const ExchangeCall& call, const absl::Status& status, uint32_t retry_after_ms = 0);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_REFUSAL_H_
