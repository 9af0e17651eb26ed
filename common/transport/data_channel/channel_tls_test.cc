// A data channel's server under TLS before those who would have it otherwise: plain clients, those
// that fail in the handshake of TLS, and those that stop in its middle.

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/channel_handshake.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/deadline_for_testing.h"
#include "common/transport/data_channel/knock_for_testing.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/tls/tls_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

ChannelListenerOptions UnderTls(absl::Duration patience = absl::Seconds(30)) {
  ChannelListenerOptions options;
  options.security = ChannelSecurity::kTls;
  options.patience = patience;
  return options;
}

// Whether the server closes the connection.
bool IsClosed(int socket) {
  char byte;
  while (AwaitSocket(socket, POLLIN, TestDeadline()).ok()) {
    if (recv(socket, &byte, 1, 0) <= 0) return true;
  }
  return false;
}

// That an honest client is served.
void ExpectServed(ListenerForTesting& listener) {
  auto io = *ChannelIo::Create();
  auto client =
      ConnectSocketChannel(listener.address(), io->NextLoop(), io->pool(), TestDeadline());
  ASSERT_TRUE(client.ok()) << client.status();
  auto answers = std::make_shared<RecordingHandler>();
  (*client)->Start(answers);
  auto handler = std::make_shared<RecordingHandler>();
  listener.AwaitChannel()->Start(handler);
  (*client)->Send("hello", {});
  EXPECT_EQ(handler->AwaitMessages(1)[0].header, "hello");
  (*client)->Close(absl::CancelledError("done"));
  EXPECT_FALSE(answers->AwaitClosed().ok());
  EXPECT_FALSE(handler->AwaitClosed().ok());
}

TEST(ChannelTlsTest, APlainClientIsRefusedAndToldWhy) {
  ListenerForTesting listener(UnderTls());
  ChannelAddress plain = listener.address();
  EXPECT_EQ(plain.security, ChannelSecurity::kTls);
  plain.security = ChannelSecurity::kPlain;
  auto io = *ChannelIo::Create();
  const absl::Status status =
      ConnectSocketChannel(plain, io->NextLoop(), io->pool(), TestDeadline()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is under TLS"));
  ExpectServed(listener);
}

TEST(ChannelTlsTest, AClientThatWantsTlsOfAPlainServerIsToldWhy) {
  ListenerForTesting listener;
  ChannelAddress encrypted = listener.address();
  encrypted.security = ChannelSecurity::kTls;
  auto io = *ChannelIo::Create();
  const absl::Status status =
      ConnectSocketChannel(encrypted, io->NextLoop(), io->pool(), TestDeadline()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("asks for TLS"));
  ExpectServed(listener);
}

TEST(ChannelTlsTest, SharedMemoryStaysAsItIs) {
  ListenerForTesting listener(UnderTls());
  auto io = *ChannelIo::Create();
  auto client =
      ConnectSharedChannel(listener.address(), 1 << 20, io->NextLoop(), io->pool(), TestDeadline());
  ASSERT_TRUE(client.ok()) << client.status();
  auto answers = std::make_shared<RecordingHandler>();
  (*client)->Start(answers);
  auto handler = std::make_shared<RecordingHandler>();
  const auto served = listener.AwaitChannel();
  served->Start(handler);
  EXPECT_STREQ(served->kind(), "shared_memory");
  (*client)->Close(absl::CancelledError("done"));
  EXPECT_FALSE(answers->AwaitClosed().ok());
  EXPECT_FALSE(handler->AwaitClosed().ok());
}

TEST(ChannelTlsTest, NobodysInvitationOpensForAnother) {
  ChannelListener::Sinks sinks;
  sinks.stream = [](std::unique_ptr<ChannelStream>) { ADD_FAILURE() << "admitted"; };
  auto listener = *ChannelListener::Create({.host = "127.0.0.1"}, std::move(sinks));
  const ChannelAddress one = listener->Invite(), other = listener->Invite();
  EXPECT_NE(one.secret, other.secret);
  ChannelAddress forged = one;
  forged.secret = other.secret;
  EXPECT_EQ(KnockAt(forged, ChannelHello::Kind::kStream).status().code(),
            absl::StatusCode::kUnauthenticated);
}

TEST(ChannelTlsTest, AnotherKeyOrGarbageInTheHandshakeEndsTheConnection) {
  ListenerForTesting listener(UnderTls());
  auto client = KnockAt(listener.address(), ChannelHello::Kind::kTls);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE(TlsStream::Create(std::move(client->socket), TlsRole::kClient, std::string(32, 'x'),
                                 TestDeadline())
                   .ok());
  client = KnockAt(listener.address(), ChannelHello::Kind::kTls);
  ASSERT_TRUE(client.ok()) << client.status();
  const std::string frames(1000, 'f');
  send(client->socket.get(), frames.data(), frames.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(IsClosed(client->socket.get()));
  ExpectServed(listener);
}

TEST(ChannelTlsTest, ThoseWhoStopInTheHandshakeHoldUpNobody) {
  ListenerForTesting listener(UnderTls());
  std::vector<Admitted> silent;
  for (int i = 0; i < 20; ++i) {
    auto client = KnockAt(listener.address(), ChannelHello::Kind::kTls);
    ASSERT_TRUE(client.ok()) << client.status();
    // The beginning of a ClientHello, or nothing.
    if (i % 2 == 0) send(client->socket.get(), "\x16\x03\x01", 3, MSG_NOSIGNAL);
    silent.push_back(*std::move(client));
  }
  ExpectServed(listener);
}

TEST(ChannelTlsTest, ThoseWhoStopInTheHandshakeAreDropped) {
  ListenerForTesting listener(UnderTls(absl::Milliseconds(50)));
  const auto client = KnockAt(listener.address(), ChannelHello::Kind::kTls);
  // On a busy machine the time may pass sooner.
  if (client.ok()) {
    EXPECT_TRUE(IsClosed(client->socket.get()));
  }
}

TEST(ChannelTlsTest, AProcessThatIsKilledInTheHandshakeLeavesNothingBehind) {
  ListenerForTesting listener(UnderTls());
  auto client = KnockAt(listener.address(), ChannelHello::Kind::kTls);
  ASSERT_TRUE(client.ok()) << client.status();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    send(client->socket.get(), "\x16\x03\x01", 3, MSG_NOSIGNAL);
    if (write(ready[1], "r", 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  client->socket.Close();
  kill(child, SIGKILL);
  int status;
  waitpid(child, &status, 0);
  close(ready[0]);
  close(ready[1]);
  ExpectServed(listener);
}

}  // namespace
}  // namespace muster
