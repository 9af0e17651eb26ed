#include "common/transport/shared_memory/byte_ring.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

absl::Status Impossible(const char* which, uint64_t tail, uint64_t head, size_t capacity) {
  return absl::DataLossError(absl::StrCat("the ", which, " index of a ring is impossible: tail ",
                                          tail, ", head ", head, ", capacity ", capacity,
                                          "; the memory of that process is damaged"));
}

}  // namespace

RingWriter::RingWriter(std::byte* ring, size_t capacity)
    : header_(*reinterpret_cast<RingHeader*>(ring)),
      data_(ring + kRingDataOffset),
      capacity_(capacity) {}

absl::StatusOr<size_t> RingWriter::Write(absl::Span<const std::byte> bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const size_t rest = bytes.size() - written;
    const size_t wanted = std::min(rest, kRingCopyBytes);
    if (capacity_ - (tail_ - seen_head_) < wanted) {
      const uint64_t head = header_.head.load(std::memory_order_acquire);
      if (tail_ - head > capacity_) return Impossible("reader's", tail_, head, capacity_);
      seen_head_ = head;
    }
    const size_t room = capacity_ - (tail_ - seen_head_);
    const size_t position = tail_ & (capacity_ - 1);
    const size_t length = std::min({wanted, room, capacity_ - position});
    if (length == 0) break;
    std::memcpy(data_ + position, bytes.data() + written, length);
    tail_ += length;
    written += length;
    header_.tail.store(tail_, std::memory_order_release);
  }
  return written;
}

uint32_t RingWriter::ReaderToWake() {
  header_.tail.store(tail_, std::memory_order_seq_cst);
  if (header_.reader_waits.load(std::memory_order_seq_cst) == 0) return 0;
  return header_.reader_waits.exchange(0, std::memory_order_seq_cst);
}

RingReader::RingReader(std::byte* ring, size_t capacity)
    : header_(*reinterpret_cast<RingHeader*>(ring)),
      data_(ring + kRingDataOffset),
      capacity_(capacity) {}

absl::StatusOr<absl::Span<const std::byte>> RingReader::Peek(size_t want) {
  if (seen_tail_ - head_ < want) {
    const uint64_t tail = header_.tail.load(std::memory_order_acquire);
    if (tail - head_ > capacity_) return Impossible("writer's", tail, head_, capacity_);
    seen_tail_ = tail;
  }
  const size_t position = head_ & (capacity_ - 1);
  const size_t length =
      std::min<size_t>({want, static_cast<size_t>(seen_tail_ - head_), capacity_ - position});
  return absl::MakeConstSpan(data_ + position, length);
}

void RingReader::Consume(size_t bytes) {
  head_ += bytes;
  header_.head.store(head_, std::memory_order_seq_cst);
}

uint32_t RingReader::WriterToWake(Reason reason) {
  if (header_.writer_waits.load(std::memory_order_seq_cst) == 0) return 0;
  const uint64_t tail = header_.tail.load(std::memory_order_relaxed);
  // An impossible index causes a needless wake-up at worst.
  const uint64_t used = tail - head_;
  const uint64_t limit = reason == Reason::kConsumed ? capacity_ / 2 : capacity_ - 1;
  if (used > limit) return 0;
  return header_.writer_waits.exchange(0, std::memory_order_seq_cst);
}

}  // namespace muster
