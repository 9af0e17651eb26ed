#include "common/transport/data_channel/socket_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/gathered_payload.h"
#include "common/base/status_macros.h"
#include "common/transport/sockets/socket_stream.h"

namespace muster {
namespace {

// Shorter messages are sent by the thread that brings them: a wake-up costs as much as copying
// this.
constexpr size_t kSendHereBytes = 32 << 10;
constexpr size_t kStagingBytes = 16 << 10;
// After so many bytes the loop's other connections have their turn.
constexpr size_t kSocketTurnBytes = 4 << 20;
constexpr int kMaxSpans = 64;

// Has the kernel end the connection when what was sent stays unanswered for a minute. By default it
// tries for a quarter of an hour, and whoever waits for this connection waits as long.
//
// A peer that reads nothing for a minute is taken for gone as well. That is safe: a client reads
// all the time, and a server stops only until pushes are applied or replies are received, neither
// of which waits for others. A client that loses a channel all the same opens another and sends
// again what was not answered. On an idle connection the kernel uses this time, too, in place of
// the number of probes that SetTcpOptions sets.
void EndWhenUnansweredForLong(int socket) {
  const int milliseconds = 60'000;
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
}

}  // namespace

std::shared_ptr<SocketChannel> SocketChannel::Create(std::unique_ptr<ChannelStream> stream,
                                                     IoLoop& loop,
                                                     std::shared_ptr<BufferPool> pool) {
  SetTcpOptions(stream->descriptor());
  EndWhenUnansweredForLong(stream->descriptor());
  SetLocalTcpOptions(stream->descriptor());
  return std::shared_ptr<SocketChannel>(
      new SocketChannel(std::move(stream), loop, std::move(pool)));
}

SocketChannel::SocketChannel(std::unique_ptr<ChannelStream> stream, IoLoop& loop,
                             std::shared_ptr<BufferPool> pool)
    : stream_(std::move(stream)), loop_(loop), pool_(std::move(pool)), staging_(kStagingBytes) {}

void SocketChannel::Start(std::shared_ptr<Handler> handler) {
  handler_ = std::move(handler);
  loop_.Post([self = shared_from_this()] {
    self->self_ = self;
    const absl::Status status =
        self->loop_.Watch(self->stream_->descriptor(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, self.get());
    if (!status.ok()) {
      self->End(status);
      return;
    }
    // Bytes may have come before.
    self->readable_ = true;
    self->ReadMore();
  });
}

void SocketChannel::Send(std::string header, Payload payload) {
  Outgoing outgoing;
  outgoing.head.resize(kFrameBytes);
  EncodeFrame({.kind = FrameKind::kMessage,
               .place = PayloadPlace::kFollows,
               .header_bytes = static_cast<uint32_t>(header.size()),
               .payload_bytes = static_cast<uint32_t>(payload.size())},
              reinterpret_cast<std::byte*>(outgoing.head.data()));
  outgoing.head += header;
  outgoing.payload = InShortSpans(payload) ? GatherPayload(payload, *pool_) : std::move(payload);
  const bool here = outgoing.size() <= kSendHereBytes;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    queue_.push_back(std::move(outgoing));
    if (writing_ || full_) return;
    writing_ = true;
    if (!here) {
      LeaveToLoopLocked();
      return;
    }
  }
  WriteQueue(Writer::kCaller);
}

void SocketChannel::LeaveToLoopLocked() {
  // Posted under the lock, since the loop may be gone once the channel has ended.
  loop_.Post([self = shared_from_this()] { self->WriteQueue(Writer::kLoop); });
}

std::vector<SocketChannel::Outgoing> SocketChannel::TakeSentLocked(size_t sent) {
  std::vector<Outgoing> done;
  sent_of_first_ += sent;
  while (!queue_.empty() && sent_of_first_ >= queue_.front().size()) {
    sent_of_first_ -= queue_.front().size();
    done.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return done;
}

void SocketChannel::WriteQueue(Writer writer) {
  // Destroyed without the lock.
  std::deque<Outgoing> dropped;
  size_t turn = 0;
  while (true) {
    std::array<iovec, kMaxSpans> spans;
    int count = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) dropped.swap(queue_);
      if (ended_ || queue_.empty()) {
        writing_ = false;
        return;
      }
      const bool too_long = queue_.front().size() > kSendHereBytes;
      if (writer == Writer::kCaller ? too_long : turn >= kSocketTurnBytes) {
        LeaveToLoopLocked();
        return;
      }
      has_room_ = false;
      // The memory that the spans point to stays, since nobody else takes from the queue.
      size_t skip = sent_of_first_;
      const auto add = [&](const void* data, size_t bytes) {
        const size_t skipped = std::min(skip, bytes);
        skip -= skipped;
        if (skipped == bytes || count == kMaxSpans) return;
        spans[count++] = {
            const_cast<char*>(static_cast<const char*>(data)) + skipped,
            bytes - skipped,
        };
      };
      for (const Outgoing& outgoing : queue_) {
        if (count == kMaxSpans) break;
        if (writer == Writer::kCaller && outgoing.size() > kSendHereBytes) break;
        add(outgoing.head.data(), outgoing.head.size());
        for (const Payload::Span span : outgoing.payload.spans()) {
          add(span.data(), span.size());
        }
      }
    }
    const absl::StatusOr<size_t> sent =
        stream_->Write(absl::MakeConstSpan(spans.data(), static_cast<size_t>(count)));
    if (!sent.ok() || *sent == 0) {
      {
        absl::MutexLock lock(&mutex_);
        if (sent.ok() && has_room_) continue;
        writing_ = false;
        full_ = true;
        // Reads what arrived before the error. The reader itself may never meet the error: the
        // socket does not know those of TLS. Posted under the lock, since the loop may be gone once
        // the channel has ended.
        if (!sent.ok() && !ended_) {
          loop_.Post(
              [self = shared_from_this(), reason = sent.status()] { self->ReadRest(reason); });
        }
      }
      return;
    }
    turn += *sent;
    std::vector<Outgoing> done;
    std::shared_ptr<Handler> handler;
    {
      absl::MutexLock lock(&mutex_);
      if (!ended_) handler = handler_;
      done = TakeSentLocked(*sent);
    }
    for (Outgoing& outgoing : done) {
      const size_t bytes = outgoing.size() - kFrameBytes;
      outgoing.payload = {};
      if (handler != nullptr) handler->OnSent(bytes);
    }
  }
}

void SocketChannel::SetReading(bool on) {
  reading_.store(on, std::memory_order_relaxed);
  // Also when off: the connection may have hung up.
  loop_.Post([self = shared_from_this()] { self->ReadMore(); });
}

void SocketChannel::Close(absl::Status reason) {
  loop_.Post([self = shared_from_this(), reason = std::move(reason)] {
    if (self->self_ != nullptr) self->End(reason);
  });
}

void SocketChannel::OnEvents(uint32_t events) {
  // Keeps this source alive: it may be taken back within the call.
  const std::shared_ptr<SocketChannel> self = self_;
  if ((events & EPOLLOUT) != 0) {
    bool write = false;
    {
      absl::MutexLock lock(&mutex_);
      has_room_ = true;
      full_ = false;
      if (!writing_ && !queue_.empty()) write = writing_ = true;
    }
    if (write) WriteQueue(Writer::kLoop);
  }
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    readable_ = true;
    ending_ = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
      ReadRest(absl::UnavailableError("the connection broke"));
    } else {
      ReadMore();
    }
  }
}

void SocketChannel::ReadRest(const absl::Status& reason) {
  readable_ = true;
  broken_.Update(reason);
  ReadMore();
}

void SocketChannel::ReadMore() {
  const std::shared_ptr<SocketChannel> self = self_;
  size_t turn = 0;
  while (self_ != nullptr && reading_) {
    if (absl::Status status = ParseReceived(); !status.ok()) {
      End(std::move(status));
      return;
    }
    if (self_ == nullptr || !reading_) break;
    if (!readable_) {
      if (!broken_.ok()) End(broken_);
      return;
    }
    if (turn >= kSocketTurnBytes) {
      loop_.Post([self] { self->ReadMore(); });
      return;
    }
    size_t received = 0;
    if (absl::Status status = Receive(&received); !status.ok()) {
      End(std::move(status));
      return;
    }
    turn += received;
  }
  // With reading off, nobody would meet the error. If reading is on again by now, a posted call
  // goes on.
  if (self_ != nullptr && !broken_.ok() && !reading_) End(broken_);
}

absl::Status SocketChannel::Receive(size_t* received) {
  if (begin_ > 0) {
    std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::array<iovec, 2> spans;
  int count = 0;
  size_t payload_rest = 0;
  if (in_payload_) {
    payload_rest = frame_.payload_bytes - filled_;
    spans[count++] = {place_ + filled_, payload_rest};
  }
  spans[count++] = {staging_.data() + end_, staging_.size() - end_};
  MUSTER_ASSIGN_OR_RETURN(
      const ChannelStream::Received got,
      stream_->Read(absl::MakeConstSpan(spans.data(), static_cast<size_t>(count))));
  *received = got.bytes;
  // All is read. An event reports more, except for the end, which has been reported.
  if (got.bytes == 0 || (got.drained && !ending_)) readable_ = false;
  const size_t of_payload = std::min(payload_rest, *received);
  filled_ += of_payload;
  end_ += *received - of_payload;
  return absl::OkStatus();
}

absl::Status SocketChannel::ParseReceived() {
  while (true) {
    if (in_payload_) {
      // Taken only once the handler lets the payload be read: many messages may wait for that.
      if (place_ == nullptr) {
        buffer_ = pool_->Take((frame_.payload_bytes + sizeof(float) - 1) / sizeof(float));
        place_ = reinterpret_cast<std::byte*>(buffer_.get());
      }
      const size_t length = std::min<size_t>(frame_.payload_bytes - filled_, end_ - begin_);
      if (length > 0) {
        std::memcpy(place_ + filled_, staging_.data() + begin_, length);
        begin_ += length;
        filled_ += length;
      }
      if (filled_ < frame_.payload_bytes) return absl::OkStatus();
      Deliver();
    } else {
      if (end_ - begin_ < kFrameBytes) return absl::OkStatus();
      MUSTER_ASSIGN_OR_RETURN(frame_, DecodeFrame(staging_.data() + begin_));
      if (frame_.place != PayloadPlace::kFollows) {
        return absl::InvalidArgumentError(
            "malformed frame on the data channel: its payload is in shared memory, which this "
            "connection does not have");
      }
      const size_t needed = kFrameBytes + frame_.header_bytes;
      if (end_ - begin_ < needed) {
        if (needed > staging_.size()) staging_.resize(needed);
        return absl::OkStatus();
      }
      const auto* header = reinterpret_cast<const char*>(staging_.data() + begin_ + kFrameBytes);
      header_.assign(header, frame_.header_bytes);
      begin_ += needed;
      if (frame_.kind == FrameKind::kGoodbye) return DecodeGoodbye(header_);
      if (frame_.payload_bytes == 0) {
        Deliver();
      } else {
        BeginPayload();
      }
    }
    if (self_ == nullptr || !reading_) return absl::OkStatus();
  }
}

void SocketChannel::BeginPayload() {
  place_ = handler_->PlaceFor(header_, frame_.payload_bytes);
  filled_ = 0;
  in_payload_ = true;
}

void SocketChannel::Deliver() {
  Payload payload;
  if (in_payload_) {
    payload = Payload({absl::MakeConstSpan(place_, frame_.payload_bytes)}, std::move(buffer_));
    buffer_ = nullptr;
    in_payload_ = false;
  }
  // The handler may close the channel in this call, which takes effect later.
  handler_->OnMessage(header_, std::move(payload));
}

void SocketChannel::End(absl::Status reason) {
  const std::shared_ptr<SocketChannel> self = std::move(self_);
  self_ = nullptr;
  loop_.Unwatch(stream_->descriptor(), this);
  bool say_goodbye = false;
  std::deque<Outgoing> dropped;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    // A goodbye cannot interrupt a message.
    say_goodbye = !writing_ && sent_of_first_ == 0 && !stream_->HasBegun();
    // A writing thread still uses its message, and clears the queue itself.
    if (!writing_) dropped.swap(queue_);
  }
  if (say_goodbye) {
    const std::string text = EncodeGoodbye(reason);
    std::string bytes(kFrameBytes, '\0');
    EncodeFrame({.kind = FrameKind::kGoodbye, .header_bytes = static_cast<uint32_t>(text.size())},
                reinterpret_cast<std::byte*>(bytes.data()));
    bytes += text;
    const iovec span = {bytes.data(), bytes.size()};
    stream_->Write({&span, 1}).IgnoreError();
  }
  shutdown(stream_->descriptor(), SHUT_RDWR);
  const std::shared_ptr<Handler> handler = std::move(handler_);
  handler->OnClosed(reason);
}

}  // namespace muster
