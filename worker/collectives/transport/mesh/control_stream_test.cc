#include "worker/collectives/transport/mesh/control_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

class ControlStreamTest : public testing::Test {
 protected:
  ControlStreamTest() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    one_ = std::make_unique<ControlStream>(Descriptor(sockets[0]));
    other_ = std::make_unique<ControlStream>(Descriptor(sockets[1]));
  }

  static ControlMessage Message(ControlKind kind, std::string body) {
    ControlMessage message;
    message.kind = kind;
    message.body = std::move(body);
    return message;
  }

  std::unique_ptr<ControlStream> one_, other_;
  std::vector<ControlMessage> got_;
};

TEST_F(ControlStreamTest, MessagesComeInOrderEvenThroughAFullSocket) {
  constexpr int kMessages = 300;
  for (int i = 0; i < kMessages; ++i) {
    one_->Send(Message(ControlKind::kAbort, std::string(static_cast<size_t>(i) * 20, 'x')));
  }
  bool was_full = false;
  while (one_->pending()) {
    ASSERT_TRUE(one_->Push().ok());
    was_full |= one_->pending();
    ASSERT_TRUE(other_->Receive(got_).ok());
  }
  EXPECT_TRUE(was_full);
  ASSERT_EQ(got_.size(), static_cast<size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(got_[i].body.size(), static_cast<size_t>(i) * 20);
}

TEST_F(ControlStreamTest, DescriptorsStayWithTheirMessages) {
  for (int i = 0; i < 3; ++i) {
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    Descriptor read_end(pipes[0]);
    const Descriptor write_end(pipes[1]);
    const char byte = static_cast<char>('a' + i);
    ASSERT_EQ(write(write_end.get(), &byte, 1), 1);
    one_->Send(Message(ControlKind::kSurvey, "12345678"));
    ControlMessage message = Message(ControlKind::kMemory, std::string(1, byte));
    message.descriptor = std::move(read_end);
    one_->Send(std::move(message));
  }
  ASSERT_TRUE(one_->Push().ok());
  ASSERT_TRUE(other_->Receive(got_).ok());
  ASSERT_EQ(got_.size(), 6u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(got_[2 * i].descriptor.valid());
    ASSERT_TRUE(got_[2 * i + 1].descriptor.valid());
    char byte = 0;
    EXPECT_EQ(read(got_[2 * i + 1].descriptor.get(), &byte, 1), 1);
    EXPECT_EQ(std::string(1, byte), got_[2 * i + 1].body);
  }
}

TEST_F(ControlStreamTest, WhatCameBeforeTheEndIsDelivered) {
  one_->Send(Message(ControlKind::kGoodbye, ""));
  ASSERT_TRUE(one_->Push().ok());
  one_.reset();
  EXPECT_EQ(other_->Receive(got_).code(), absl::StatusCode::kUnavailable);
  ASSERT_EQ(got_.size(), 1u);
  EXPECT_EQ(got_[0].kind, ControlKind::kGoodbye);
}

TEST_F(ControlStreamTest, AMessageThatIsTooLongEndsTheConnection) {
  const uint32_t length = 1 << 30;
  ASSERT_EQ(send(one_->descriptor(), &length, sizeof(length), 0), 4);
  ASSERT_EQ(send(one_->descriptor(), "x", 1, 0), 1);
  EXPECT_EQ(other_->Receive(got_).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace muster
