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

// The client's side of opening a data channel. Both functions block until the deadline at most.
// Errors, after which a caller may try the next way: Unavailable: the server cannot be reached so;
// Unauthenticated, FailedPrecondition, ResourceExhausted: the server's refusal.
namespace muster {

// Connects over TCP, plain or under TLS as the address says. Also Unauthenticated: the TLS
// handshake failed. `loop` outlives the channel.
absl::StatusOr<std::shared_ptr<FrameChannel>> ConnectSocketChannel(const ChannelAddress& address,
                                                                   IoLoop& loop,
                                                                   std::shared_ptr<BufferPool> pool,
                                                                   Deadline deadline);

// Connects through shared memory. Handing the memory over on the server's unix socket proves that
// both processes are on one machine and of one user. The server reaches `registered`, unless it is
// null, until the channel and all payloads from it are gone.
absl::StatusOr<std::shared_ptr<FrameChannel>> ConnectSharedChannel(
    const ChannelAddress& address, size_t arena_bytes, IoLoop& loop,
    std::shared_ptr<BufferPool> pool, Deadline deadline,
    std::shared_ptr<const RegisteredMemory> registered = nullptr);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_CONNECTOR_H_
