#include "common/fuzz/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/fuzz/fuzz_check.h"

namespace muster {

MemoryFile::MemoryFile()
    : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)),
      path_(absl::StrCat("/proc/self/fd/", descriptor_)) {
  FUZZ_CHECK(descriptor_ >= 0);
}

MemoryFile::~MemoryFile() { close(descriptor_); }

void MemoryFile::Write(absl::string_view content) const {
  FUZZ_CHECK(ftruncate(descriptor_, 0) == 0);
  FUZZ_CHECK(pwrite(descriptor_, content.data(), content.size(), 0) ==
             static_cast<ssize_t>(content.size()));
}

}  // namespace muster
