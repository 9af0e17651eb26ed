#include "client/cluster/unnamed_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<std::unique_ptr<UnnamedFile>> UnnamedFile::Create(const std::string& what) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  std::string path = (folder / "muster-XXXXXX").string();
  const int descriptor = mkstemp(path.data());
  if (descriptor < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a file for ", what, " at ", path));
  }
  unlink(path.c_str());
  return absl::WrapUnique(new UnnamedFile(what, folder.string(), descriptor));
}

UnnamedFile::~UnnamedFile() { close(descriptor_); }

absl::Status UnnamedFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", what_, " to ", folder_));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnnamedFile::Read() const {
  std::string bytes;
  char part[4096];
  while (true) {
    const ssize_t got = pread(descriptor_, part, sizeof(part), static_cast<off_t>(bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", what_, " in ", folder_));
    }
    if (got == 0) return bytes;
    bytes.append(part, static_cast<size_t>(got));
  }
}

std::string UnnamedFile::path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

}  // namespace muster
