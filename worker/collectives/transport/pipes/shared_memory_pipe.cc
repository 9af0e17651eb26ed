#include "worker/collectives/transport/pipes/shared_memory_pipe.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// A reader that sleeps is woken in the middle of a long message, so that both copy at once.
constexpr size_t kWakeBytes = 2 * kRingCopyBytes;

std::byte* Ring(const SharedPair& pair, bool first) {
  return pair.rings.data() + (first ? 0 : RingBytes(kRingCapacity));
}

}  // namespace

SharedMemoryPipe::SharedMemoryPipe(std::string peer, SharedPair pair, GroupHealth& health)
    : peer_(std::move(peer)),
      pair_(std::move(pair)),
      health_(health),
      writer_(Ring(pair_, pair_.lower), kRingCapacity),
      reader_(Ring(pair_, !pair_.lower), kRingCapacity) {}

absl::StatusOr<size_t> SharedMemoryPipe::Write(absl::Span<const std::byte> bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    if (!health_.ok()) return health_.status();
    const auto fragment = bytes.subspan(written, kWakeBytes);
    const absl::StatusOr<size_t> length = writer_.Write(fragment);
    if (!length.ok()) return Fail(length.status());
    written += *length;
    unflushed_ += *length;
    if (unflushed_ >= kWakeBytes) WakeReader();
    if (*length < fragment.size()) {
      // With a full ring there is nothing to wait for before waking.
      if (unflushed_ > 0) WakeReader();
      break;
    }
  }
  return written;
}

absl::StatusOr<absl::Span<const std::byte>> SharedMemoryPipe::Peek(size_t want) {
  if (!health_.ok()) return health_.status();
  absl::StatusOr<absl::Span<const std::byte>> bytes = reader_.Peek(want);
  if (!bytes.ok()) return Fail(bytes.status());
  return bytes;
}

void SharedMemoryPipe::Consume(size_t bytes) {
  reader_.Consume(bytes);
  WakeWriter(RingReader::Reason::kConsumed);
}

absl::StatusOr<size_t> SharedMemoryPipe::Read(absl::Span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    MUSTER_ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes,
                            Peek(std::min(out.size() - done, kRingCopyBytes)));
    if (bytes.empty()) break;
    std::memcpy(out.data() + done, bytes.data(), bytes.size());
    Consume(bytes.size());
    done += bytes.size();
  }
  return done;
}

absl::Status SharedMemoryPipe::Flush() {
  if (unflushed_ > 0) WakeReader();
  return health_.status();
}

bool SharedMemoryPipe::Moved(const PipeInterest& interest) const {
  return (interest.readable && reader_.Moved()) || (interest.writable && writer_.Moved());
}

void SharedMemoryPipe::Arm(const PipeInterest& interest, Sleep how) {
  if (interest.readable) reader_.SetWaits(static_cast<uint32_t>(how));
  if (interest.writable) writer_.SetWaits(static_cast<uint32_t>(how));
}

void SharedMemoryPipe::Disarm() {
  reader_.SetWaits(0);
  writer_.SetWaits(0);
}

void SharedMemoryPipe::BeforeSleep() {
  if (unflushed_ > 0) WakeReader();
  WakeWriter(RingReader::Reason::kAboutToSleep);
}

absl::Status SharedMemoryPipe::Fail(const absl::Status& reason) {
  health_.Fail(absl::Status(reason.code(), absl::StrCat(peer_, ": ", reason.message())));
  return health_.status();
}

void SharedMemoryPipe::WakeReader() {
  unflushed_ = 0;
  if (const uint32_t how = writer_.ReaderToWake(); how != 0) pair_.bell.Ring(how);
}

void SharedMemoryPipe::WakeWriter(RingReader::Reason reason) {
  if (const uint32_t how = reader_.WriterToWake(reason); how != 0) pair_.bell.Ring(how);
}

}  // namespace muster
