#include "common/transport/data_channel/knock_for_testing.h"

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/transport/answer.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/sockets.h"

namespace muster {

absl::StatusOr<Admitted> KnockAt(const ChannelAddress& address, ChannelHello::Kind kind) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  Admitted client;
  MUSTER_ASSIGN_OR_RETURN(client.socket, ConnectTcp("127.0.0.1", address.port, deadline));
  ChannelHello hello;
  hello.version = kChannelVersion;
  hello.nonce = address.nonce;
  hello.kind = kind;
  const std::string sent = hello.Serialize();
  // If sending fails, the answer that is there says why.
  SendFrame(client.socket.get(), sent, deadline).IgnoreError();
  MUSTER_ASSIGN_OR_RETURN(const std::string answer, ReceiveFrame(client.socket.get(), deadline));
  MUSTER_ASSIGN_OR_RETURN(const std::string challenge, DecodeAnswer(answer));
  client.tls_key = ChannelTlsKey(address.secret, sent, challenge);
  SendFrame(client.socket.get(), ChannelProof(address.secret, sent, challenge), deadline)
      .IgnoreError();
  MUSTER_ASSIGN_OR_RETURN(const std::string verdict, ReceiveFrame(client.socket.get(), deadline));
  MUSTER_RETURN_IF_ERROR(DecodeAnswer(verdict).status());
  return client;
}

}  // namespace muster
