#include "common/transport/shared_memory/shared_segment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/sanitizers/happens_before.h"
#include "common/transport/shared_memory/byte_ring.h"

namespace muster {
namespace {

// Arenas begin at multiples of a huge page.
constexpr size_t kArenaAlignment = size_t{2} << 20;

size_t LedgerBytes(size_t arena_bytes) {
  return RoundUp(sizeof(ArenaLedger) + arena_bytes / kGranuleBytes * sizeof(uint32_t), 4096);
}

// Rings and ledgers of both directions, the gate, then both arenas.
size_t GateOffset(size_t arena_bytes) {
  return 2 * (RingBytes(kSegmentRingBytes) + LedgerBytes(arena_bytes));
}

size_t FrontBytes(size_t arena_bytes) {
  return RoundUp(GateOffset(arena_bytes) + sizeof(WriteGate), kArenaAlignment);
}

size_t SegmentBytes(size_t arena_bytes) {
  return FrontBytes(arena_bytes) + 2 * RoundUp(arena_bytes, kArenaAlignment);
}

absl::Status CheckSize(size_t arena_bytes) {
  if (arena_bytes % kGranuleBytes == 0 && arena_bytes >= kMinArenaBytes &&
      arena_bytes <= kMaxArenaBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "shared memory of ", arena_bytes, " bytes per direction; expected a multiple of ",
      kGranuleBytes, " from ", kMinArenaBytes, " to ", kMaxArenaBytes));
}

}  // namespace

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedSegment::Create(size_t arena_bytes) {
  MUSTER_RETURN_IF_ERROR(CheckSize(arena_bytes));
  MUSTER_ASSIGN_OR_RETURN(SharedRegion region, SharedRegion::Create(SegmentBytes(arena_bytes),
                                                                    SharedRegion::Pages::kOnUse));
  return std::shared_ptr<SharedSegment>(new SharedSegment(std::move(region), arena_bytes));
}

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedSegment::Map(Descriptor descriptor,
                                                                  size_t arena_bytes) {
  MUSTER_RETURN_IF_ERROR(CheckSize(arena_bytes));
  MUSTER_ASSIGN_OR_RETURN(SharedRegion region,
                          SharedRegion::Map(std::move(descriptor), SegmentBytes(arena_bytes),
                                            SharedRegion::Pages::kOnUse));
  region.CloseDescriptor();
  return std::shared_ptr<SharedSegment>(new SharedSegment(std::move(region), arena_bytes));
}

std::byte* SharedSegment::ring(Direction direction) const {
  return region_.data() + static_cast<size_t>(direction) * RingBytes(kSegmentRingBytes);
}

ArenaLedger& SharedSegment::ledger(Direction direction) const {
  std::byte* const first = region_.data() + 2 * RingBytes(kSegmentRingBytes);
  return *reinterpret_cast<ArenaLedger*>(first + static_cast<size_t>(direction) *
                                                     LedgerBytes(arena_bytes_));
}

std::byte* SharedSegment::arena(Direction direction) const {
  return region_.data() + FrontBytes(arena_bytes_) +
         static_cast<size_t>(direction) * RoundUp(arena_bytes_, kArenaAlignment);
}

WriteGate& SharedSegment::write_gate() const {
  return *reinterpret_cast<WriteGate*>(region_.data() + GateOffset(arena_bytes_));
}

bool ArenaLedger::SenderToWake() {
  if (sender_waits.load(std::memory_order_seq_cst) == 0) return false;
  return sender_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

ArenaSender::ArenaSender(std::shared_ptr<SharedSegment> segment, SharedSegment::Direction direction)
    : segment_(std::move(segment)),
      ledger_(segment_->ledger(direction)),
      arena_(segment_->arena(direction)),
      granules_(segment_->arena_bytes() / kGranuleBytes),
      used_(granules_) {}

bool ArenaSender::Reclaim() {
  const auto returned = [this](const Fragment& fragment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ledger_.held[fragment.granule].load(std::memory_order_seq_cst) != 0) return false;
    SetUsed(fragment, false);
    // The receiver gave the fragment back after its write; in tests both ends may be in one
    // process.
    NoteAfter(arena_ + fragment.granule * kGranuleBytes);
    return true;
  };
  const auto kept = std::remove_if(fragments_.begin(), fragments_.end(), returned);
  const bool any = kept != fragments_.end();
  fragments_.erase(kept, fragments_.end());
  return any;
}

void ArenaSender::SetUsed(const Fragment& fragment, bool used) {
  std::fill_n(used_.begin() + fragment.granule, fragment.granules, used);
}

void ArenaSender::Lend(const Fragment& fragment) {
  fragments_.push_back(fragment);
  ledger_.held[fragment.granule].store(1, std::memory_order_relaxed);
}

ArenaSender::Fragment ArenaSender::FindFree(size_t granules) const {
  // The lowest free place: what was used last is still in the processors' caches. If none is long
  // enough, since others are kept for long, the longest.
  size_t best_run = 0, best_end = 0;
  for (size_t granule = 0, run = 0; granule < used_.size() && best_run < granules; ++granule) {
    run = used_[granule] ? 0 : run + 1;
    if (run > best_run) {
      best_run = run;
      best_end = granule + 1;
    }
  }
  return {static_cast<uint32_t>(best_end - best_run), static_cast<uint32_t>(best_run)};
}

bool ArenaSender::Allocate(size_t wanted, uint64_t* offset, absl::Span<std::byte>* fragment) {
  const size_t most = std::min({wanted, kMaxFragmentBytes, granules_ * kGranuleBytes});
  absl::MutexLock lock(&mutex_);
  Reclaim();
  const Fragment found = FindFree((most + kGranuleBytes - 1) / kGranuleBytes);
  if (found.granules == 0) return false;
  SetUsed(found, true);
  Lend(found);
  *offset = found.granule * kGranuleBytes;
  *fragment = absl::MakeSpan(arena_ + *offset, std::min(most, found.granules * kGranuleBytes));
  return true;
}

ArenaSender::Allocation ArenaSender::Take(size_t bytes) {
  const size_t granules = (bytes + kGranuleBytes - 1) / kGranuleBytes;
  absl::MutexLock lock(&mutex_);
  if (granules == 0 ||
      (taken_granules_ + granules) * kGranuleBytes > MaxTakenBytes(granules_ * kGranuleBytes)) {
    return {};
  }
  Reclaim();
  const Fragment found = FindFree(granules);
  if (found.granules < granules) return {};
  const Allocation room = {arena_ + found.granule * kGranuleBytes, next_serial_++};
  taken_.emplace(room.place, Taken{found, room.serial});
  SetUsed(found, true);
  taken_granules_ += granules;
  return room;
}

bool ArenaSender::IsTaken(const std::byte* payload) const {
  absl::MutexLock lock(&mutex_);
  return taken_.contains(payload);
}

uint64_t ArenaSender::SendTaken(const std::byte* payload) {
  absl::MutexLock lock(&mutex_);
  const auto found = taken_.find(payload);
  const Fragment fragment = found->second.fragment;
  taken_.erase(found);
  taken_granules_ -= fragment.granules;
  Lend(fragment);
  return fragment.granule * kGranuleBytes;
}

bool ArenaSender::GiveUp(const Allocation& room) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = taken_.find(room.place);
    if (found == taken_.end() || found->second.serial != room.serial) return false;
    taken_granules_ -= found->second.fragment.granules;
    SetUsed(found->second.fragment, false);
    taken_.erase(found);
  }
  return ledger_.SenderToWake();
}

ArenaReceiver::ArenaReceiver(const std::shared_ptr<SharedSegment>& segment,
                             SharedSegment::Direction direction)
    : ledger_(segment->ledger(direction)),
      arena_(segment->arena(direction)),
      arena_bytes_(segment->arena_bytes()) {}

absl::StatusOr<absl::Span<const std::byte>> ArenaReceiver::Find(uint64_t offset,
                                                                uint64_t bytes) const {
  if (offset % kGranuleBytes != 0 || offset >= arena_bytes_ || bytes == 0 ||
      bytes > arena_bytes_ - offset) {
    return absl::DataLossError(absl::StrCat("malformed frame on the data channel: a fragment of ",
                                            bytes, " bytes at offset ", offset, " of an arena of ",
                                            arena_bytes_, " bytes"));
  }
  return absl::MakeConstSpan(arena_ + offset, bytes);
}

bool ArenaReceiver::Release(uint64_t offset) {
  ledger_.held[offset / kGranuleBytes].store(0, std::memory_order_seq_cst);
  return ledger_.SenderToWake();
}

}  // namespace muster
