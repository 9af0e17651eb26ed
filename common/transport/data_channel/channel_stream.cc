#include "common/transport/data_channel/channel_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

bool MustWait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

class PlainChannelStream final : public ChannelStream {
 public:
  explicit PlainChannelStream(Descriptor socket) : socket_(std::move(socket)) {}

  absl::StatusOr<size_t> Write(absl::Span<const iovec> spans) override {
    msghdr message = {};
    message.msg_iov = const_cast<iovec*>(spans.data());
    message.msg_iovlen = spans.size();
    while (true) {
      const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) return static_cast<size_t>(sent);
      if (MustWait(errno)) return 0;
      if (errno != EINTR) return SystemError("send");
    }
  }

  bool HasBegun() const override { return false; }

  absl::StatusOr<Received> Read(absl::Span<const iovec> spans) override {
    size_t room = 0;
    for (const iovec& span : spans) room += span.iov_len;
    while (true) {
      const ssize_t got = readv(socket_.get(), spans.data(), static_cast<int>(spans.size()));
      if (got == 0) return absl::UnavailableError("the other end has closed the connection");
      if (got > 0) {
        const auto bytes = static_cast<size_t>(got);
        return Received{.bytes = bytes, .drained = bytes < room};
      }
      if (MustWait(errno)) return Received{};
      if (errno != EINTR) return SystemError("recv");
    }
  }

  int descriptor() const override { return socket_.get(); }
  const char* kind() const override { return "tcp"; }

 private:
  const Descriptor socket_;
};

}  // namespace

std::unique_ptr<ChannelStream> MakePlainChannelStream(Descriptor socket) {
  return std::make_unique<PlainChannelStream>(std::move(socket));
}

}  // namespace muster
