#ifndef MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_REGION_H_
#define MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_REGION_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/descriptor.h"

namespace muster {

// Memory that processes share by handing over a descriptor (a memfd: nothing in a file system to
// leak, no limit of /dev/shm). It is sealed against any change of its size, so that no process can
// make another's access fail with SIGBUS.
class SharedRegion {
 public:
  // The time at which pages are allocated: all at once, so that no access has to wait and a lack of
  // memory is an error now; or each on first use, so that unused pages cost nothing.
  enum class Pages { kNow, kOnUse };

  // The name of a region's memfd in /proc/PID/maps, which the creating process's id follows.
  static constexpr char kName[] = "muster-";
  // Bytes of a page that is not huge.
  static constexpr size_t kPageBytes = 4096;

  // Creates zeroed memory. ResourceExhausted: there is not that much. REQUIRES: bytes > 0.
  static absl::StatusOr<SharedRegion> Create(size_t bytes, Pages pages = Pages::kNow);

  // Maps another process's region of `bytes` bytes. FailedPrecondition: the descriptor is no sealed
  // memfd of that size.
  static absl::StatusOr<SharedRegion> Map(Descriptor descriptor, size_t bytes,
                                          Pages pages = Pages::kNow);

  SharedRegion() = default;
  ~SharedRegion();
  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;

  // Allocates all pages of a part now. ResourceExhausted: there is not that much memory. REQUIRES:
  // the part lies within the region, and begins and ends at pages.
  absl::Status Populate(size_t begin, size_t bytes) const;

  // Puts a part's pages onto huge ones (HugeMemory::kPageBytes), as far as the part covers whole
  // ones. Transparent Huge Pages do that for a process's own memory, but for shared memory only
  // where the system's owner has asked for it. Advice only: where the kernel cannot (Linux before
  // 6.1, no such page to be had), nothing changes. Takes 3 to 5 ms for each MiB, once (measured in
  // a virtual machine). REQUIRES: the part lies within the region, and has been populated.
  void UseHugePages(size_t begin, size_t bytes) const;

  // Aligned to a page; in regions of at least a huge page, to a huge page.
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // The descriptor to hand over; -1 after CloseDescriptor, which leaves the memory mapped.
  int descriptor() const { return descriptor_.get(); }
  void CloseDescriptor() { descriptor_.Close(); }

 private:
  SharedRegion(Descriptor descriptor, std::byte* data, size_t bytes)
      : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}
  static absl::StatusOr<SharedRegion> MapShared(Descriptor descriptor, size_t bytes, Pages pages);

  Descriptor descriptor_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SHARED_MEMORY_SHARED_REGION_H_
