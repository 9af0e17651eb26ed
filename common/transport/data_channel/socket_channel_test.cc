#include "common/transport/data_channel/socket_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/channel_stream.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/io_loop.h"
#include "common/transport/descriptor.h"
#include "common/transport/sockets/sockets.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// A message, as it goes over the socket.
std::string MessageBytes(const std::string& header) {
  std::string bytes(kFrameBytes, '\0');
  EncodeFrame({.header_bytes = static_cast<uint32_t>(header.size())},
              reinterpret_cast<std::byte*>(bytes.data()));
  return bytes + header;
}

// As the system does it for a process that dies with bytes unread.
void Reset(Descriptor& socket) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  socket.Close();
}

// A connection that takes nothing, for a reason that its socket knows nothing of.
class BrokenForWriting final : public ChannelStream {
 public:
  explicit BrokenForWriting(Descriptor socket)
      : plain_(MakePlainChannelStream(std::move(socket))) {}

  absl::StatusOr<size_t> Write(absl::Span<const iovec>) override {
    return absl::InternalError("no key to write with");
  }
  bool HasBegun() const override { return false; }
  absl::StatusOr<Received> Read(absl::Span<const iovec> spans) override {
    return plain_->Read(spans);
  }
  int descriptor() const override { return plain_->descriptor(); }
  const char* kind() const override { return "broken"; }

 private:
  const std::unique_ptr<ChannelStream> plain_;
};

class SocketChannelTest : public ::testing::Test {
 protected:
  SocketChannelTest() {
    TcpListener listener = *ListenTcpAt("127.0.0.1", 0);
    socket_ = *ConnectTcp("127.0.0.1", listener.port, absl::Now() + absl::Seconds(30));
    pollfd caller = {.fd = listener.socket.get(), .events = POLLIN, .revents = 0};
    poll(&caller, 1, -1);
    Descriptor accepted(
        accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(accepted.valid());
    descriptor_ = accepted.get();
    channel_ = SocketChannel::Create(MakePlainChannelStream(std::move(accepted)), *loop_, pool_);
  }

  void SendBytes(const std::string& bytes) {
    ASSERT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Returns once the loop has looked at its sockets.
  void LetLoopLook() {
    for (int i = 0; i < 2; ++i) loop_->Drain();
  }

  const std::unique_ptr<IoLoop> loop_ = *IoLoop::Create();
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(1 << 20);
  // The other end.
  Descriptor socket_;
  std::shared_ptr<FrameChannel> channel_;
  // The channel's.
  int descriptor_ = -1;
  std::shared_ptr<RecordingHandler> handler_ = std::make_shared<RecordingHandler>();
};

TEST_F(SocketChannelTest, GivesUpAnUnansweredConnectionAfterAMinute) {
  int milliseconds = 0;
  socklen_t length = sizeof(milliseconds);
  ASSERT_EQ(getsockopt(descriptor_, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &length), 0);
  EXPECT_EQ(milliseconds, 60'000);
}

TEST_F(SocketChannelTest, PausedEndsWhenItsPeerDies) {
  channel_->SetReading(false);
  channel_->Start(handler_);
  SendBytes(MessageBytes("never read"));
  Reset(socket_);
  EXPECT_EQ(handler_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(handler_->received(), 0u);
}

TEST_F(SocketChannelTest, PausedEndsWhenItCannotSendToAPeerThatHasGone) {
  channel_->SetReading(false);
  channel_->Start(handler_);
  // An orderly end, as far as it can be seen: the answers find nobody.
  socket_.Close();
  for (int i = 0; i < 100; ++i) channel_->Send("answer", Payload::Of(std::vector<float>(10'000)));
  EXPECT_EQ(handler_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(SocketChannelTest, PausedEndsWhenItsPeerHasDiedBeforeThePause) {
  // Turns reading off at the first message, when the end is known already.
  class Pausing final : public FrameChannel::Handler {
   public:
    Pausing(FrameChannel& channel, std::shared_ptr<RecordingHandler> recording)
        : channel_(channel), recording_(std::move(recording)) {}
    std::byte* PlaceFor(absl::string_view, size_t) override { return nullptr; }
    void OnMessage(absl::string_view header, Payload payload) override {
      channel_.SetReading(false);
      recording_->OnMessage(header, std::move(payload));
    }
    void OnSent(size_t bytes) override { recording_->OnSent(bytes); }
    void OnClosed(const absl::Status& reason) override { recording_->OnClosed(reason); }

   private:
    FrameChannel& channel_;
    const std::shared_ptr<RecordingHandler> recording_;
  };
  SendBytes(MessageBytes("first") + MessageBytes("second"));
  Reset(socket_);
  channel_->Start(std::make_shared<Pausing>(*channel_, handler_));
  EXPECT_EQ(handler_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(handler_->received(), 1u);
}

TEST_F(SocketChannelTest, EndsByAnErrorOfWritingThatReadingDoesNotShow) {
  channel_ = SocketChannel::Create(std::make_unique<BrokenForWriting>(Descriptor(dup(descriptor_))),
                                   *loop_, pool_);
  SendBytes(MessageBytes("before"));
  channel_->Start(handler_);
  channel_->Send("answer", {});
  const absl::Status reason = handler_->AwaitClosed();
  EXPECT_EQ(reason.code(), absl::StatusCode::kInternal) << reason;
  EXPECT_EQ(handler_->received(), 1u);
}

TEST_F(SocketChannelTest, PausedEndsByAnErrorOfWriting) {
  channel_ = SocketChannel::Create(std::make_unique<BrokenForWriting>(Descriptor(dup(descriptor_))),
                                   *loop_, pool_);
  channel_->SetReading(false);
  channel_->Start(handler_);
  channel_->Send("answer", {});
  EXPECT_EQ(handler_->AwaitClosed().code(), absl::StatusCode::kInternal);
}

TEST_F(SocketChannelTest, NothingPacesWhatIsSentOnThisMachine) {
  char name[16] = {};
  socklen_t length = sizeof(name);
  ASSERT_EQ(getsockopt(descriptor_, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
  EXPECT_STREQ(name, "reno");
  int bytes = 0;
  length = sizeof(bytes);
  ASSERT_EQ(getsockopt(descriptor_, SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
  EXPECT_LE(bytes, 1 << 20);
}

TEST_F(SocketChannelTest, PausedKeepsWhatCameBeforeAnOrderlyClose) {
  channel_->SetReading(false);
  channel_->Start(handler_);
  SendBytes(MessageBytes("last words"));
  shutdown(socket_.get(), SHUT_WR);
  LetLoopLook();
  EXPECT_EQ(handler_->received(), 0u);
  channel_->SetReading(true);
  EXPECT_EQ(handler_->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(handler_->received(), 1u);
}

}  // namespace
}  // namespace muster
