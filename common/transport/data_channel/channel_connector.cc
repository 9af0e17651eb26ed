#include "common/transport/data_channel/channel_connector.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/transport/answer.h"
#include "common/transport/data_channel/channel_stream.h"
#include "common/transport/data_channel/shared_channel.h"
#include "common/transport/data_channel/socket_channel.h"
#include "common/transport/data_channel/tls_channel_stream.h"
#include "common/transport/shared_memory/shared_segment.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/sockets.h"
#include "common/transport/system_error.h"
#include "common/transport/tls/tls_stream.h"

namespace muster {
namespace {

// The values that the client derives from the server's challenge.
struct Greeting {
  std::string proof;
  std::string tls_key;
};

// Says hello and hears the challenge.
absl::StatusOr<Greeting> Greet(int socket, const ChannelAddress& address, ChannelHello hello,
                               Deadline deadline) {
  hello.version = address.version;
  hello.nonce = address.nonce;
  const std::string sent = hello.Serialize();
  MUSTER_RETURN_IF_ERROR(SendFrame(socket, sent, deadline));
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ReceiveFrame(socket, deadline));
  MUSTER_ASSIGN_OR_RETURN(const std::string challenge, DecodeAnswer(answer));
  return Greeting{ChannelProof(address.secret, sent, challenge),
                  ChannelTlsKey(address.secret, sent, challenge)};
}

}  // namespace

absl::StatusOr<std::shared_ptr<FrameChannel>> ConnectSocketChannel(const ChannelAddress& address,
                                                                   IoLoop& loop,
                                                                   std::shared_ptr<BufferPool> pool,
                                                                   Deadline deadline) {
  MUSTER_ASSIGN_OR_RETURN(Descriptor socket, ConnectTcp(address.host, address.port, deadline));
  const bool tls = address.security == ChannelSecurity::kTls;
  MUSTER_ASSIGN_OR_RETURN(
      const Greeting greeting,
      Greet(socket.get(), address,
            {.kind = tls ? ChannelHello::Kind::kTls : ChannelHello::Kind::kStream}, deadline));
  MUSTER_RETURN_IF_ERROR(SendFrame(socket.get(), greeting.proof, deadline));
  MUSTER_ASSIGN_OR_RETURN(const std::string verdict, ReceiveFrame(socket.get(), deadline));
  MUSTER_RETURN_IF_ERROR(DecodeAnswer(verdict).status());
  std::unique_ptr<ChannelStream> stream;
  if (tls) {
    MUSTER_ASSIGN_OR_RETURN(
        std::unique_ptr<TlsStream> encrypted,
        TlsStream::Create(std::move(socket), TlsRole::kClient, greeting.tls_key, deadline));
    stream = MakeTlsChannelStream(std::move(encrypted));
  } else {
    stream = MakePlainChannelStream(std::move(socket));
  }
  return std::shared_ptr<FrameChannel>(
      SocketChannel::Create(std::move(stream), loop, std::move(pool)));
}

absl::StatusOr<std::shared_ptr<FrameChannel>> ConnectSharedChannel(
    const ChannelAddress& address, size_t arena_bytes, IoLoop& loop,
    std::shared_ptr<BufferPool> pool, Deadline deadline,
    std::shared_ptr<const RegisteredMemory> registered) {
  SharedLink link;
  link.direction = SharedSegment::Direction::kToServer;
  MUSTER_ASSIGN_OR_RETURN(link.socket, ConnectUnix(address.unix_name, deadline));
  if (!SameUser(link.socket.get())) {
    return absl::UnavailableError("the unix socket belongs to another user");
  }
  fcntl(link.socket.get(), F_SETFL, O_NONBLOCK);
  MUSTER_ASSIGN_OR_RETURN(
      const Greeting greeting,
      Greet(link.socket.get(), address,
            {.kind = ChannelHello::Kind::kSharedMemory,
             .arena_bytes = arena_bytes,
             .registered_bytes = registered == nullptr ? 0 : registered->bytes()},
            deadline));
  MUSTER_ASSIGN_OR_RETURN(link.segment, SharedSegment::Create(arena_bytes));
  link.own_bell = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!link.own_bell.valid()) return SystemError("eventfd");
  std::vector<int> descriptors = {link.segment->descriptor(), link.own_bell.get()};
  if (registered != nullptr) descriptors.push_back(registered->descriptor());
  MUSTER_RETURN_IF_ERROR(SendDescriptors(link.socket.get(), greeting.proof, descriptors, deadline));
  MUSTER_ASSIGN_OR_RETURN(DescriptorFrame verdict, ReceiveDescriptors(link.socket.get(), deadline));
  MUSTER_RETURN_IF_ERROR(DecodeAnswer(verdict.bytes).status());
  if (verdict.descriptors.size() != 1) {
    return absl::UnavailableError("the server did not hand over its bell");
  }
  link.peer_bell = std::move(verdict.descriptors[0]);
  MUSTER_RETURN_IF_ERROR(CheckBell(link.peer_bell.get()));
  link.segment->CloseDescriptor();
  link.registered = std::move(registered);
  return std::shared_ptr<FrameChannel>(
      SharedChannel::Create(std::move(link), loop, std::move(pool)));
}

}  // namespace muster
