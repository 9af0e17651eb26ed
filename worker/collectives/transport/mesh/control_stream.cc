#include "worker/collectives/transport/mesh/control_stream.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/sockets/unix_descriptors.h"
#include "common/transport/system_error.h"

namespace muster {
namespace {

constexpr size_t kMaxMessageBytes = 64 << 10;
constexpr size_t kHeaderBytes = sizeof(uint32_t) + sizeof(ControlKind);

bool MustWait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void ControlStream::Send(ControlMessage message) {
  Outgoing outgoing;
  const auto length = static_cast<uint32_t>(message.body.size());
  outgoing.bytes.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  outgoing.bytes.push_back(static_cast<char>(message.kind));
  outgoing.bytes += message.body;
  outgoing.descriptor = std::move(message.descriptor);
  outgoing_.push_back(std::move(outgoing));
}

absl::Status ControlStream::Push() {
  while (!outgoing_.empty()) {
    Outgoing& message = outgoing_.front();
    MUSTER_ASSIGN_OR_RETURN(const size_t sent, SendSome(message));
    if (sent == 0) return absl::OkStatus();
    message.sent += sent;
    if (message.sent == message.bytes.size()) outgoing_.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ControlStream::SendSome(Outgoing& message) {
  const absl::Span<const char> rest(message.bytes.data() + message.sent,
                                    message.bytes.size() - message.sent);
  if (stream_ != nullptr) {
    return stream_->Write({reinterpret_cast<const std::byte*>(rest.data()), rest.size()},
                          ByteStream::Push::kNow);
  }
  const int descriptor = message.descriptor.get();
  const bool attach = descriptor >= 0;
  const ssize_t sent =
      SendWithDescriptors(unix_socket_.get(), rest,
                          attach ? absl::MakeConstSpan(&descriptor, 1) : absl::Span<const int>());
  if (sent < 0) return MustWait(errno) ? absl::StatusOr<size_t>(0) : SystemError("send");
  // The descriptor went with the first byte.
  message.descriptor.Close();
  return static_cast<size_t>(sent);
}

absl::StatusOr<size_t> ControlStream::ReceiveSome(absl::Span<char> out) {
  if (stream_ != nullptr) {
    return stream_->Read({reinterpret_cast<std::byte*>(out.data()), out.size()});
  }
  const ssize_t got = ReceiveWithDescriptors(unix_socket_.get(), out, descriptors_);
  if (got == 0) return absl::UnavailableError("the other end has closed the connection");
  if (got < 0) return MustWait(errno) ? absl::StatusOr<size_t>(0) : SystemError("recv");
  return static_cast<size_t>(got);
}

absl::Status ControlStream::Receive(std::vector<ControlMessage>& into) {
  char buffer[4096];
  while (true) {
    const absl::StatusOr<size_t> got = ReceiveSome(absl::MakeSpan(buffer));
    if (!got.ok()) return got.status();
    if (*got == 0) return absl::OkStatus();
    incoming_.append(buffer, *got);
    MUSTER_RETURN_IF_ERROR(Parse(into));
  }
}

absl::Status ControlStream::Parse(std::vector<ControlMessage>& into) {
  size_t position = 0;
  while (incoming_.size() - position >= kHeaderBytes) {
    uint32_t length;
    std::memcpy(&length, incoming_.data() + position, sizeof(length));
    if (length > kMaxMessageBytes) {
      return absl::UnavailableError(absl::StrCat("a control message has ", length,
                                                 " bytes, expected at most ", kMaxMessageBytes));
    }
    if (incoming_.size() - position < kHeaderBytes + length) break;
    ControlMessage message;
    message.kind = static_cast<ControlKind>(incoming_[position + sizeof(length)]);
    message.body = incoming_.substr(position + kHeaderBytes, length);
    if (message.kind == ControlKind::kMemory && !descriptors_.empty()) {
      message.descriptor = std::move(descriptors_.front());
      descriptors_.erase(descriptors_.begin());
    }
    into.push_back(std::move(message));
    position += kHeaderBytes + length;
  }
  incoming_.erase(0, position);
  return absl::OkStatus();
}

}  // namespace muster
