#include "common/files/output_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/file_error.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// As many as the system follows.
constexpr int kMostLinks = 40;

}  // namespace

absl::StatusOr<std::string> OutputFile(const std::string& path) {
  fs::path target = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    if (links == kMostLinks) return FileError("write", path, ELOOP);
    const fs::path next = fs::read_symlink(target, error);
    if (error) return FileError("read the link", target.string(), error.value());
    // Relative to the link's folder, unless it is absolute.
    target = target.parent_path() / next;
  }
  const fs::file_status there = fs::status(target, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, fs::is_directory(there) ? " is a folder" : " is no file",
                     ", and a file would take its place; name a file to write"));
  }
  return target.string();
}

}  // namespace muster
