#include "common/transport/shared_memory/registered_memory.h"

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/huge_memory.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// From a page on, bytes begin at a page of their own, so that two uses share none; from a huge page
// on, at a huge one.
constexpr size_t kHugePage = HugeMemory::kPageBytes;
constexpr size_t kPage = SharedRegion::kPageBytes;
constexpr size_t kLine = 64;

size_t AlignmentOf(size_t bytes) {
  return bytes >= kHugePage ? kHugePage : bytes >= kPage ? kPage : kLine;
}

}  // namespace

absl::StatusOr<std::shared_ptr<RegisteredMemory>> RegisteredMemory::Create(size_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(SharedRegion region,
                          SharedRegion::Create(RoundUp(bytes, kPage), SharedRegion::Pages::kOnUse));
  return std::shared_ptr<RegisteredMemory>(new RegisteredMemory(std::move(region)));
}

std::byte* RegisteredMemory::Take(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  const size_t begin = RoundUp(taken_, AlignmentOf(bytes));
  if (begin > region_.bytes() || bytes > region_.bytes() - begin) return nullptr;
  const size_t pages = begin / kPage * kPage;
  const size_t end = RoundUp(begin + bytes, kPage);
  if (end > pages && !region_.Populate(pages, end - pages).ok()) return nullptr;
  region_.UseHugePages(pages, end - pages);
  taken_ = begin + bytes;
  return region_.data() + begin;
}

std::optional<uint64_t> RegisteredMemory::OffsetOf(absl::Span<const std::byte> bytes) const {
  const std::byte* const begin = region_.data();
  const std::byte* const end = begin + region_.bytes();
  const std::less_equal<const std::byte*> no_later;
  if (!no_later(begin, bytes.data()) || !no_later(bytes.data() + bytes.size(), end)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(bytes.data() - begin);
}

absl::StatusOr<std::shared_ptr<PeerMemory>> PeerMemory::Map(Descriptor descriptor, size_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(SharedRegion region, SharedRegion::Map(std::move(descriptor), bytes,
                                                                 SharedRegion::Pages::kOnUse));
  region.CloseDescriptor();
  return std::shared_ptr<PeerMemory>(new PeerMemory(std::move(region)));
}

absl::StatusOr<absl::Span<std::byte>> PeerMemory::At(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0 || offset > region_.bytes() || bytes > region_.bytes() - offset) {
    return absl::InvalidArgumentError(absl::StrCat("a range of ", bytes, " bytes at offset ",
                                                   offset, " of registered memory of ",
                                                   region_.bytes(), " bytes"));
  }
  return absl::MakeSpan(region_.data() + offset, bytes);
}

}  // namespace muster
