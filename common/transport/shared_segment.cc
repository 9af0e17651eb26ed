#include "common/transport/shared_segment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/byte_ring.h"

namespace muster {
namespace {

// Arenas begin at multiples of a huge page.
constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t LedgerBytes(size_t arena_bytes) {
  return RoundUp(sizeof(ArenaLedger) + arena_bytes / kGranuleBytes * sizeof(uint32_t), 4096);
}

// Rings and ledgers of both directions, then both arenas.
size_t FrontBytes(size_t arena_bytes) {
  return RoundUp(2 * (RingBytes(kSegmentRingBytes) + LedgerBytes(arena_bytes)), kHugePage);
}

size_t SegmentBytes(size_t arena_bytes) {
  return FrontBytes(arena_bytes) + 2 * RoundUp(arena_bytes, kHugePage);
}

absl::Status CheckSize(size_t arena_bytes) {
  if (arena_bytes % kGranuleBytes == 0 && arena_bytes >= kMinArenaBytes &&
      arena_bytes <= kMaxArenaBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("shared memory of ", arena_bytes, " bytes a direction; expected a multiple of ",
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
         static_cast<size_t>(direction) * RoundUp(arena_bytes_, kHugePage);
}

ArenaSender::ArenaSender(std::shared_ptr<SharedSegment> segment, SharedSegment::Direction direction)
    : segment_(std::move(segment)),
      ledger_(segment_->ledger(direction)),
      arena_(segment_->arena(direction)),
      used_(segment_->arena_bytes() / kGranuleBytes) {}

bool ArenaSender::Reclaim() {
  const auto returned = [this](const Fragment& fragment) {
    if (ledger_.held[fragment.granule].load(std::memory_order_seq_cst) != 0) return false;
    std::fill_n(used_.begin() + fragment.granule, fragment.granules, false);
    return true;
  };
  const auto kept = std::remove_if(fragments_.begin(), fragments_.end(), returned);
  const bool any = kept != fragments_.end();
  fragments_.erase(kept, fragments_.end());
  return any;
}

bool ArenaSender::Allocate(size_t wanted, uint64_t* offset, absl::Span<std::byte>* fragment) {
  const size_t most = std::min({wanted, kMaxFragmentBytes, used_.size() * kGranuleBytes});
  const size_t granules = (most + kGranuleBytes - 1) / kGranuleBytes;
  Reclaim();
  // The lowest place that is free: what was used last is still in the processors' caches. Where
  // none is long enough, since others are kept for long, the longest.
  size_t best_run = 0, best_end = 0;
  for (size_t granule = 0, run = 0; granule < used_.size() && best_run < granules; ++granule) {
    run = used_[granule] ? 0 : run + 1;
    if (run > best_run) {
      best_run = run;
      best_end = granule + 1;
    }
  }
  if (best_run == 0) return false;
  const size_t first = best_end - best_run;
  std::fill_n(used_.begin() + first, best_run, true);
  fragments_.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(best_run)});
  ledger_.held[first].store(1, std::memory_order_relaxed);
  *offset = first * kGranuleBytes;
  *fragment = absl::MakeSpan(arena_ + *offset, std::min(most, best_run * kGranuleBytes));
  return true;
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
  if (ledger_.sender_waits.load(std::memory_order_seq_cst) == 0) return false;
  return ledger_.sender_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace muster
