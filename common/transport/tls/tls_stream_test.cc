#include "common/transport/tls/tls_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class TlsStreamTest : public testing::Test {
 protected:
  void Connect(const std::string& clients_key, const std::string& servers_key,
               TlsStreamOptions options = {}) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    std::thread connecting([&] {
      client_ = TlsStream::Create(Descriptor(sockets[0]), TlsRole::kClient, clients_key, deadline,
                                  options);
    });
    server_ =
        TlsStream::Create(Descriptor(sockets[1]), TlsRole::kServer, servers_key, deadline, options);
    connecting.join();
  }

  void PassBothWays() {
    constexpr size_t kBytes = 3'000'000;
    std::vector<std::byte> sent(kBytes), got(kBytes);
    for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i % 251);
    for (const bool back : {false, true}) {
      ByteStream& from = back ? **server_ : **client_;
      ByteStream& to = back ? **client_ : **server_;
      std::fill(got.begin(), got.end(), std::byte{0});
      size_t written = 0, read = 0;
      // One thread plays both: neither side ever blocks.
      while (read < kBytes) {
        const auto taken =
            from.Write(absl::MakeConstSpan(sent).subspan(written), ByteStream::Push::kNow);
        ASSERT_TRUE(taken.ok()) << taken.status();
        written += *taken;
        const auto arrived = to.Read(absl::MakeSpan(got).subspan(read));
        ASSERT_TRUE(arrived.ok()) << arrived.status();
        read += *arrived;
      }
      EXPECT_EQ(got, sent);
    }
  }

  static std::string Key(char byte) { return std::string(32, byte); }

  absl::StatusOr<std::unique_ptr<TlsStream>> client_ = absl::UnknownError("not connected");
  absl::StatusOr<std::unique_ptr<TlsStream>> server_ = absl::UnknownError("not connected");
};

TEST_F(TlsStreamTest, BytesPassBothWays) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok()) << client_.status();
  ASSERT_TRUE(server_.ok()) << server_.status();
  PassBothWays();
}

// A record that found the socket full holds more than the writer offers the next time.
TEST_F(TlsStreamTest, WhatWasNotTakenMayComeAgainInOtherPortions) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok()) << client_.status();
  ASSERT_TRUE(server_.ok()) << server_.status();
  constexpr size_t kBytes = 3'000'000;
  std::vector<std::byte> sent(kBytes), got(kBytes);
  for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<std::byte>(i * i % 251);
  size_t written = 0, read = 0;
  bool refused = false;
  for (size_t turn = 0; read < kBytes; ++turn) {
    const size_t portions[] = {100'000, 7, 64, 20'000, 1};
    const size_t offered = std::min(portions[turn % 5], kBytes - written);
    const auto taken = (*client_)->Write(absl::MakeConstSpan(sent).subspan(written, offered),
                                         ByteStream::Push::kNow);
    ASSERT_TRUE(taken.ok()) << taken.status();
    ASSERT_LE(*taken, offered);
    refused |= *taken < offered;
    written += *taken;
    // The reader is slower than the writer, so that the socket fills.
    const size_t want = std::min<size_t>(5'000, kBytes - read);
    const auto arrived = (*server_)->Read(absl::MakeSpan(got).subspan(read, want));
    ASSERT_TRUE(arrived.ok()) << arrived.status();
    read += *arrived;
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(got, sent);
}

TEST_F(TlsStreamTest, WhatPollDoesNotSeeIsTold) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok() && server_.ok());
  const std::vector<std::byte> sent(100);
  ASSERT_EQ(*(*client_)->Write(sent, ByteStream::Push::kNow), 100u);
  std::vector<std::byte> got(100);
  EXPECT_FALSE((*server_)->HasHiddenBytes());
  ASSERT_EQ(*(*server_)->Read(absl::MakeSpan(got).first(40)), 40u);
  EXPECT_TRUE((*server_)->HasHiddenBytes());
  ASSERT_EQ(*(*server_)->Read(absl::MakeSpan(got).first(60)), 60u);
  EXPECT_FALSE((*server_)->HasHiddenBytes());
  EXPECT_EQ(*(*server_)->Read(absl::MakeSpan(got)), 0u);
}

// 3 MB are some 200 records, so that keys change some 70 times, in each direction by itself.
TEST_F(TlsStreamTest, KeysAreRenewedAfterSoManyRecords) {
  Connect(Key('a'), Key('a'), {.records_per_key = 3});
  ASSERT_TRUE(client_.ok()) << client_.status();
  ASSERT_TRUE(server_.ok()) << server_.status();
  PassBothWays();
  EXPECT_GE((*client_)->key_changes(), 60u);
  EXPECT_GE((*server_)->key_changes(), 60u);
}

TEST_F(TlsStreamTest, OneKeyServesForLong) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok() && server_.ok());
  PassBothWays();
  EXPECT_EQ((*client_)->key_changes(), 0u);
  static_assert(kTlsRecordsPerKey < 23'726'566, "section 5.5 of RFC 8446");
}

TEST_F(TlsStreamTest, AHandshakeGoesOnAsItsMessagesCome) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  client_ = TlsStream::Begin(Descriptor(sockets[0]), TlsRole::kClient, Key('a'));
  server_ = TlsStream::Begin(Descriptor(sockets[1]), TlsRole::kServer, Key('a'));
  // One thread plays both: neither side ever blocks.
  EXPECT_EQ(*(*server_)->ShakeHands(), POLLIN);
  EXPECT_EQ(*(*client_)->ShakeHands(), POLLIN);
  EXPECT_EQ(*(*server_)->ShakeHands(), POLLIN);
  EXPECT_EQ(*(*client_)->ShakeHands(), 0);
  // The first bytes come with the client's last message; they stay in the socket.
  ASSERT_EQ(*(*client_)->Write(std::vector<std::byte>(10), ByteStream::Push::kNow), 10u);
  EXPECT_EQ(*(*server_)->ShakeHands(), 0);
  EXPECT_FALSE((*server_)->HasHiddenBytes());
  pollfd readable = {(*server_)->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 1);
  std::vector<std::byte> got(100);
  EXPECT_EQ(*(*server_)->Read(absl::MakeSpan(got)), 10u);
}

TEST_F(TlsStreamTest, APeerThatGoesEndsTheHandshake) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  server_ = TlsStream::Begin(Descriptor(sockets[1]), TlsRole::kServer, Key('a'));
  EXPECT_EQ(*(*server_)->ShakeHands(), POLLIN);
  close(sockets[0]);
  EXPECT_EQ((*server_)->ShakeHands().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(TlsStreamTest, AnotherKeyIsRefused) {
  Connect(Key('a'), Key('b'));
  EXPECT_FALSE(client_.ok());
  EXPECT_EQ(server_.status().code(), absl::StatusCode::kUnauthenticated) << server_.status();
}

TEST_F(TlsStreamTest, WhatGoesOverTheSocketIsNotWhatWasWritten) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok() && server_.ok());
  const std::string secret(1000, 's');
  ASSERT_EQ(
      *(*client_)->Write(
          absl::MakeConstSpan(reinterpret_cast<const std::byte*>(secret.data()), secret.size()),
          ByteStream::Push::kNow),
      secret.size());
  char seen[4000];
  const ssize_t got = recv((*server_)->descriptor(), seen, sizeof(seen), MSG_PEEK);
  ASSERT_GT(got, 1000);
  EXPECT_EQ(std::string(seen, got).find("ssss"), std::string::npos);
}

TEST_F(TlsStreamTest, TamperingIsNoticed) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok() && server_.ok());
  // A record of application data that nobody encrypted with the key.
  const std::string forged = std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  ASSERT_EQ(send((*client_)->descriptor(), forged.data(), forged.size(), 0),
            static_cast<ssize_t>(forged.size()));
  std::vector<std::byte> got(100);
  EXPECT_EQ((*server_)->Read(absl::MakeSpan(got)).status().code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(TlsStreamTest, TheEndIsAnErrorAfterTheLastByte) {
  Connect(Key('a'), Key('a'));
  ASSERT_TRUE(client_.ok() && server_.ok());
  ASSERT_EQ(*(*client_)->Write(std::vector<std::byte>(10), ByteStream::Push::kNow), 10u);
  client_->reset();
  std::vector<std::byte> got(100);
  EXPECT_EQ(*(*server_)->Read(absl::MakeSpan(got)), 10u);
  EXPECT_EQ((*server_)->Read(absl::MakeSpan(got)).status().code(), absl::StatusCode::kUnavailable);
  // Without SIGPIPE. The first write may still go into the socket.
  absl::Status status;
  for (int i = 0; i < 2 && status.ok(); ++i) {
    status = (*server_)->Write(got, ByteStream::Push::kNow).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_F(TlsStreamTest, ASilentPeerEndsTheHandshakeAtTheDeadline) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
  const Descriptor silent(sockets[1]);
  EXPECT_EQ(TlsStream::Create(Descriptor(sockets[0]), TlsRole::kClient, Key('a'),
                              absl::Now() + absl::Milliseconds(20))
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace muster
