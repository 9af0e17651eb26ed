#include "worker/runtime/process/framed_message.h"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace muster {
namespace {

class FramedMessageTest : public ::testing::Test {
 protected:
  FramedMessageTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_), 0); }
  ~FramedMessageTest() override {
    CloseFirst();
    close(sockets_[1]);
  }

  void CloseFirst() {
    if (sockets_[0] >= 0) close(sockets_[0]);
    sockets_[0] = -1;
  }

  int sockets_[2];
};

TEST_F(FramedMessageTest, MessagesKeepTheirBounds) {
  ASSERT_EQ(WriteFrame(sockets_[0], "first"), absl::OkStatus());
  ASSERT_EQ(WriteFrame(sockets_[0], ""), absl::OkStatus());
  ASSERT_EQ(WriteFrame(sockets_[0], std::string("a\0b", 3)), absl::OkStatus());
  EXPECT_EQ(ReadFrame(sockets_[1], 100).value(), "first");
  EXPECT_EQ(ReadFrame(sockets_[1], 100).value(), "");
  EXPECT_EQ(ReadFrame(sockets_[1], 100).value(), std::string("a\0b", 3));
}

TEST_F(FramedMessageTest, LargeMessagesPassInPieces) {
  const std::string large(8 << 20, 'x');
  std::thread writer([&] { EXPECT_EQ(WriteFrame(sockets_[0], large), absl::OkStatus()); });
  EXPECT_EQ(ReadFrame(sockets_[1], 16 << 20).value(), large);
  writer.join();
}

TEST_F(FramedMessageTest, AClosedPeerIsUnavailable) {
  CloseFirst();
  EXPECT_EQ(ReadFrame(sockets_[1], 100).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(WriteFrame(sockets_[1], "text").code(), absl::StatusCode::kUnavailable);
}

TEST_F(FramedMessageTest, ATornMessageIsDataLoss) {
  const char head_and_some[] = {9, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'};
  ASSERT_EQ(write(sockets_[0], head_and_some, sizeof(head_and_some)), sizeof(head_and_some));
  CloseFirst();
  EXPECT_EQ(ReadFrame(sockets_[1], 100).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FramedMessageTest, AnOversizedMessageIsRefused) {
  ASSERT_EQ(WriteFrame(sockets_[0], "0123456789"), absl::OkStatus());
  EXPECT_EQ(ReadFrame(sockets_[1], 9).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
