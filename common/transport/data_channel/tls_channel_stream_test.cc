#include "common/transport/data_channel/tls_channel_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/transport/descriptor.h"
#include "common/transport/tls/tls_stream.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class TlsChannelStreamTest : public ::testing::Test {
 protected:
  TlsChannelStreamTest() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    const std::string key(32, 'k');
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    std::thread connecting([&] {
      writer_ = MakeTlsChannelStream(
          *TlsStream::Create(Descriptor(sockets[0]), TlsRole::kClient, key, deadline));
    });
    reader_ = MakeTlsChannelStream(
        *TlsStream::Create(Descriptor(sockets[1]), TlsRole::kServer, key, deadline));
    connecting.join();
  }

  std::unique_ptr<ChannelStream> writer_;
  std::unique_ptr<ChannelStream> reader_;
};

// However fast the other end reads, and however long the spans are.
TEST_F(TlsChannelStreamTest, AWriteEndsAfterATurn) {
  constexpr size_t kTurnBytes = 1 << 20;
  std::vector<std::byte> sent(16 * kTurnBytes + 5), got(sent.size());
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  std::thread reading([&] {
    for (size_t read = 0; read < got.size();) {
      const iovec span = {got.data() + read, got.size() - read};
      const auto received = reader_->Read({&span, 1});
      ASSERT_TRUE(received.ok()) << received.status();
      read += received->bytes;
    }
  });
  size_t longest = 0;
  for (size_t written = 0; written < sent.size();) {
    // Short spans in front of a long one, as a message's head is.
    const size_t rest = sent.size() - written, head = std::min<size_t>(rest, 300);
    const iovec spans[] = {{sent.data() + written, head},
                           {sent.data() + written + head, rest - head}};
    const auto taken = writer_->Write(spans);
    ASSERT_TRUE(taken.ok()) << taken.status();
    written += *taken;
    longest = std::max(longest, *taken);
  }
  reading.join();
  EXPECT_LE(longest, kTurnBytes);
  EXPECT_EQ(got, sent);
}

// A channel that stood still reads what is left of a record, and more has come meanwhile: nobody
// will be told of that again.
TEST_F(TlsChannelStreamTest, WhatCameSinceTheLastReceiveIsNotDrained) {
  std::vector<std::byte> sent(1000), got(sent.size());
  const iovec all = {sent.data(), sent.size()};
  ASSERT_EQ(*writer_->Write({&all, 1}), sent.size());
  const iovec first = {got.data(), 10};
  const auto begun = reader_->Read({&first, 1});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->bytes, 10u);
  EXPECT_FALSE(begun->drained);
  ASSERT_EQ(*writer_->Write({&all, 1}), sent.size());
  const iovec rest = {got.data(), sent.size() - 10};
  const auto left = reader_->Read({&rest, 1});
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->bytes, sent.size() - 10);
  EXPECT_FALSE(left->drained);
  const auto second = reader_->Read({&all, 1});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->bytes, sent.size());
}

}  // namespace
}  // namespace muster
