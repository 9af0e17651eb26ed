#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_CONNECTOR_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_CONNECTOR_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/transport/data_channel/channel_handshake.h"
#include "common/transport/data_channel/frame_channel.h"
#include "common/transport/data_channel/io_loop.h"
#include "common/transport/deadline.h"
#include "common/transport/shared_memory/registered_memory.h"

// The client's side of opening a data channel. These block until the deadline at most. Errors:
// Unavailable: it cannot be reached, or not so; Unauthenticated, FailedPrecondition,
// ResourceExhausted: what the server says. Whoever gets one tries the next way.
namespace muster {

// Over TCP, plain or under TLS as the address says; Unauthenticated as well: the handshake of TLS
// failed. `loop` outlives the channel.
absl::StatusOr<std::shared_ptr<FrameChannel>> ConnectSocketChannel(const ChannelAddress& address,
                                                                   IoLoop& loop,
                                                                   std::shared_ptr<BufferPool> pool,
                                                                   Deadline deadline);

// Through shared memory. That the two processes are on one machine and of one user is proved by
// doing it: the memory is handed over on the server's unix socket. The server reaches `registered`,
// unless that is null, until the channel and all that came by it are gone.
absl::StatusOr<std::shared_ptr<FrameChannel>> ConnectSharedChannel(
    const ChannelAddress& address, size_t arena_bytes, IoLoop& loop,
    std::shared_ptr<BufferPool> pool, Deadline deadline,
    std::shared_ptr<const RegisteredMemory> registered = nullptr);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_CONNECTOR_H_
