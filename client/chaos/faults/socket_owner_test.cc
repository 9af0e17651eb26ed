#include "client/chaos/faults/socket_owner.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/transport/deadline.h"
#include "common/transport/sockets/sockets.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(SocketOwnerTest, FindsTheProcessThatCalls) {
  const TcpListener listener = ListenTcp("127.0.0.1").value();
  const Descriptor call =
      ConnectTcp("127.0.0.1", listener.port, Deadline::After(absl::Seconds(30))).value();
  sockaddr_in own = {};
  socklen_t length = sizeof(own);
  ASSERT_EQ(getsockname(call.get(), reinterpret_cast<sockaddr*>(&own), &length), 0);
  const uint16_t port = ntohs(own.sin_port);
  EXPECT_EQ(ConnectionOwner(port, listener.port, {getppid(), getpid()}), getpid());
  EXPECT_EQ(ConnectionOwner(port, listener.port, {getppid()}), 0);
  EXPECT_EQ(ConnectionOwner(listener.port, listener.port, {getpid()}), 0);
}

}  // namespace
}  // namespace muster
