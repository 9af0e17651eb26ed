#include "worker/collectives/transport/pipes/stream_pipe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace muster {
namespace {

// Size of the buffer, which stays in the second-level cache.
constexpr size_t kBufferBytes = 256 << 10;
// Bytes to peek at once: a short message comes with one call; of a long one, no more than this is
// copied twice.
constexpr size_t kReadAheadBytes = 16 << 10;
// Bytes that cost next to nothing to move to the front of the buffer.
constexpr size_t kMovedBytes = 4 << 10;
// Shorter writes wait for what follows them, until Flush.
constexpr size_t kShortWriteBytes = 1 << 10;

}  // namespace

void StreamPipe::FreeDeleter::operator()(std::byte* bytes) const { std::free(bytes); }

StreamPipe::StreamPipe(std::unique_ptr<ByteStream> stream, GroupHealth& health)
    : stream_(std::move(stream)),
      health_(health),
      buffer_(static_cast<std::byte*>(std::aligned_alloc(4096, kBufferBytes))) {
  // Faults the buffer in now, not in a call.
  std::memset(buffer_.get(), 0, kBufferBytes);
}

StreamPipe::~StreamPipe() = default;

absl::StatusOr<size_t> StreamPipe::Write(absl::Span<const std::byte> bytes) {
  if (!health_.ok()) return health_.status();
  const auto push =
      bytes.size() < kShortWriteBytes ? ByteStream::Push::kLater : ByteStream::Push::kNow;
  size_t written = 0;
  while (broken_.ok() && written < bytes.size()) {
    const absl::StatusOr<size_t> length = stream_->Write(bytes.subspan(written), push);
    if (!length.ok()) broken_ = length.status();
    if (!length.ok() || *length == 0) break;
    written += *length;
  }
  return written;
}

absl::StatusOr<absl::Span<const std::byte>> StreamPipe::Peek(size_t want) {
  if (!health_.ok()) return health_.status();
  if (end_ - begin_ < want && broken_.ok()) Fill(want);
  return absl::MakeConstSpan(buffer_.get() + begin_, std::min(want, end_ - begin_));
}

void StreamPipe::Consume(size_t bytes) {
  begin_ += bytes;
  position_ += bytes;
  if (begin_ == end_) begin_ = end_ = position_ % 64;
}

absl::StatusOr<size_t> StreamPipe::Read(absl::Span<std::byte> out) {
  if (!health_.ok()) return health_.status();
  const size_t buffered = std::min(out.size(), end_ - begin_);
  if (buffered > 0) {
    std::memcpy(out.data(), buffer_.get() + begin_, buffered);
    Consume(buffered);
  }
  size_t done = buffered;
  while (broken_.ok() && done < out.size()) {
    const absl::StatusOr<size_t> length = stream_->Read(out.subspan(done));
    if (!length.ok()) broken_ = length.status();
    if (!length.ok() || *length == 0) break;
    done += *length;
    position_ += *length;
    begin_ = end_ = position_ % 64;
  }
  return done;
}

absl::Status StreamPipe::Flush() {
  if (broken_.ok()) broken_ = stream_->Flush();
  return health_.status();
}

bool StreamPipe::Moved(const PipeInterest& interest) const {
  return interest.readable && broken_.ok() && stream_->HasHiddenBytes();
}

void StreamPipe::BeforeSleep() {
  if (broken_.ok()) broken_ = stream_->Flush();
}

void StreamPipe::Fill(size_t want) {
  const size_t goal = std::min(want, kBufferBytes - 64);
  while (end_ - begin_ < goal) {
    if (begin_ + goal > kBufferBytes && end_ - begin_ <= kMovedBytes) MakeRoom();
    const size_t missing = goal - (end_ - begin_);
    const size_t length = std::min(std::max(missing, kReadAheadBytes), kBufferBytes - end_);
    // The buffer is full: what is there comes first.
    if (length == 0) return;
    const absl::StatusOr<size_t> got = stream_->Read({buffer_.get() + end_, length});
    if (!got.ok()) broken_ = got.status();
    if (!got.ok() || *got == 0) return;
    end_ += *got;
    // Usually that was all there is, and a further call would only find that out. A TLS stream
    // gives what one system call brought: the rest is asked for when the pipe is looked at again.
    if (*got < length) return;
  }
}

void StreamPipe::MakeRoom() {
  const size_t begin = position_ % 64;
  std::memmove(buffer_.get() + begin, buffer_.get() + begin_, end_ - begin_);
  end_ = begin + (end_ - begin_);
  begin_ = begin;
}

}  // namespace muster
