#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_BYTE_RING_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_BYTE_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

// A ring of bytes in memory that two processes share: one writes, one reads.
//
// `tail` counts the bytes ever written and `head` those ever consumed; byte i of the stream lies at
// i mod capacity. The capacity is a power of two, at least 64, so an element that is aligned in the
// stream is aligned in memory and never wraps. Each side keeps its own index in private memory and
// only publishes it. A side copies the other's index and then checks it (0 <= tail - head <=
// capacity), so no access leaves the ring whatever the other process writes there.
//
// Sleeping: a side that found nothing to do sets its `waits` flag, looks once more, and sleeps. The
// other side publishes its index, then looks at the flag. Both pairs are sequentially consistent,
// so one of the two sees the other and no wake-up is lost. While nobody sleeps, nobody makes a
// system call.
namespace muster {

struct RingHeader {
  alignas(64) std::atomic<uint64_t> tail;
  alignas(64) std::atomic<uint64_t> head;
  // The side's way to sleep, a code that the two sides agree on; 0: the side is awake.
  alignas(64) std::atomic<uint32_t> reader_waits;
  alignas(64) std::atomic<uint32_t> writer_waits;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Bytes of shared memory for a ring of that capacity.
constexpr size_t kRingDataOffset = 4096;
constexpr size_t RingBytes(size_t capacity) { return kRingDataOffset + capacity; }

// Bytes copied between two publications of an index, so that both sides copy at the same time.
constexpr size_t kRingCopyBytes = 32 << 10;

// REQUIRES, for both sides: `ring` is aligned to 64 and RingBytes(capacity) long, zero at first;
// capacity is a power of two, 64 at least.
class RingWriter {
 public:
  RingWriter(std::byte* ring, size_t capacity);

  // Copies a prefix of `bytes` into the ring and returns its length. DataLoss: the reader's index
  // is impossible.
  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes);

  // Publishes all that was written and returns how the reader sleeps, for the caller to wake it. 0:
  // the reader is awake, or another call has returned this.
  uint32_t ReaderToWake();

  // Returns whether the reader has moved since Write last looked.
  bool Moved() const { return header_.head.load(std::memory_order_seq_cst) != seen_head_; }
  void SetWaits(uint32_t how) { header_.writer_waits.store(how, std::memory_order_seq_cst); }

 private:
  RingHeader& header_;
  std::byte* const data_;
  const size_t capacity_;
  uint64_t tail_ = 0;
  uint64_t seen_head_ = 0;
};

class RingReader {
 public:
  RingReader(std::byte* ring, size_t capacity);

  // Returns arrived bytes, contiguous, at most `want`. DataLoss: the writer's index is impossible.
  absl::StatusOr<absl::Span<const std::byte>> Peek(size_t want);
  // REQUIRES: bytes <= the length of the last Peek.
  void Consume(size_t bytes);

  // Returns how the writer sleeps, for the caller to wake it, if there is room worth a wake-up:
  // half of the ring or, when the reader itself is about to sleep, any. 0: leave the writer.
  enum class Reason { kConsumed, kAboutToSleep };
  uint32_t WriterToWake(Reason reason);

  // Returns whether the writer has moved since Peek last looked.
  bool Moved() const { return header_.tail.load(std::memory_order_seq_cst) != seen_tail_; }
  void SetWaits(uint32_t how) { header_.reader_waits.store(how, std::memory_order_seq_cst); }

 private:
  RingHeader& header_;
  const std::byte* const data_;
  const size_t capacity_;
  uint64_t head_ = 0;
  uint64_t seen_tail_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_BYTE_RING_H_
