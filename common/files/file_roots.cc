#include "common/files/file_roots.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/files/file_error.h"

namespace muster {
namespace {

// Returns the parts of an absolute path. InvalidArgument: it is none, or has "..", which no rule
// here follows.
absl::StatusOr<std::vector<std::string>> Parts(const std::string& path) {
  if (!absl::StartsWith(path, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is no absolute path; begin it with a slash"));
  }
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("a path has a NUL byte");
  }
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' has '..' in it; name the file itself"));
    }
    if (part != ".") parts.emplace_back(part);
  }
  return parts;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) absl::StrAppend(&path, "/", part);
  return path;
}

// Calls openat2 with RESOLVE_BENEATH. Returns a descriptor, or an error number below 0.
int OpenAt2(int root, const std::string& rest, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  while (true) {
    const long opened = syscall(SYS_openat2, root, rest.c_str(), &how, sizeof(how));
    if (opened >= 0) return static_cast<int>(opened);
    // A rename beside the path interfered: it may be followed again.
    if (errno != EAGAIN && errno != EINTR) return -errno;
  }
}

// Opens one part of a path; ELOOP: it is a link, which is not followed. Returns as OpenAt2.
int OpenPart(int folder, const std::string& part, int flags) {
  const int opened = openat(folder, part.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0) return -errno;
  // O_PATH opens the link itself.
  struct stat status;
  int error = fstat(opened, &status) != 0 ? errno : S_ISLNK(status.st_mode) ? ELOOP : 0;
  if (error == 0) return opened;
  close(opened);
  return -error;
}

// Does the same as OpenAt2 without following links.
int Walk(int root, const std::string& rest, int flags) {
  const std::vector<std::string> parts = absl::StrSplit(rest, '/', absl::SkipEmpty());
  int at = root;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int next = OpenPart(at, parts[i], i + 1 == parts.size() ? flags : O_PATH);
    if (at != root) close(at);
    if (next < 0) return next;
    at = next;
  }
  return at;
}

// Never destroyed: threads may read files while the process ends.
std::atomic<const std::shared_ptr<const FileRoots>*> data_roots{nullptr};

}  // namespace

FileRoots::FileRoots(std::vector<std::string> folders, Following following)
    : folders_(std::move(folders)), following_(following) {}

FileRoots::~FileRoots() {
  for (const Root& root : roots_) close(root.descriptor);
}

absl::StatusOr<std::shared_ptr<const FileRoots>> FileRoots::Create(
    const std::vector<std::string>& folders, Following following) {
  if (folders.empty()) return absl::InvalidArgumentError("no folder is named; name one at least");
  // Finds out whether the system has openat2, and lets this process call it.
  if (following == Following::kBeneath) {
    const int probe = OpenAt2(AT_FDCWD, ".", O_PATH);
    if (probe >= 0) {
      close(probe);
    } else {
      following = Following::kWalk;
    }
  }
  std::shared_ptr<FileRoots> roots(new FileRoots(folders, following));
  for (const std::string& folder : folders) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> parts, Parts(folder));
    const int descriptor = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return FileError("open", folder, errno);
    roots->roots_.push_back({.path = Join(parts), .descriptor = descriptor});
  }
  return std::shared_ptr<const FileRoots>(std::move(roots));
}

absl::Status FileRoots::Outside(const std::string& path) const {
  return absl::PermissionDeniedError(absl::StrCat(
      path, " lies outside of the folders that jobs may name files in (",
      absl::StrJoin(folders_, ", "),
      "), or leads out of them by a link; put it there, or start the daemon with a --data-root of "
      "its folder"));
}

absl::StatusOr<FileRoots::Place> FileRoots::Find(const std::string& path) const {
  const absl::StatusOr<std::vector<std::string>> parts = Parts(path);
  if (!parts.ok()) return absl::PermissionDeniedError(parts.status().message());
  const std::string normal = Join(*parts);
  for (const Root& root : roots_) {
    if (normal == root.path) return Place{root.descriptor, "."};
    if (absl::StartsWith(normal, root.path) && normal[root.path.size()] == '/') {
      return Place{root.descriptor, normal.substr(root.path.size() + 1)};
    }
  }
  return Outside(path);
}

int FileRoots::OpenBeneath(const Place& place, int flags) const {
  return following_ == Following::kBeneath ? OpenAt2(place.root, place.rest, flags)
                                           : Walk(place.root, place.rest, flags);
}

absl::StatusOr<int> FileRoots::Open(const std::string& path, int flags) const {
  MUSTER_ASSIGN_OR_RETURN(const Place place, Find(path));
  const int opened = OpenBeneath(place, flags);
  if (opened >= 0) return opened;
  // EXDEV: the path leads out of the root. ELOOP: a link that is not followed.
  if (opened == -EXDEV || opened == -ELOOP) return Outside(path);
  return FileError("open", path, -opened);
}

absl::Status FileRoots::Check(const std::string& path) const {
  MUSTER_ASSIGN_OR_RETURN(Place place, Find(path));
  while (true) {
    const int opened = OpenBeneath(place, O_PATH);
    if (opened >= 0) {
      close(opened);
      return absl::OkStatus();
    }
    if (opened == -EXDEV || opened == -ELOOP) return Outside(path);
    if (opened != -ENOENT && opened != -ENOTDIR) return FileError("inspect", path, -opened);
    if (place.rest == ".") return FileError("inspect", path, -opened);
    const size_t slash = place.rest.rfind('/');
    place.rest = slash == std::string::npos ? "." : place.rest.substr(0, slash);
  }
}

void ConfineData(std::shared_ptr<const FileRoots> roots) {
  data_roots.store(new std::shared_ptr<const FileRoots>(std::move(roots)),
                   std::memory_order_release);
}

std::shared_ptr<const FileRoots> DataRoots() {
  const auto* roots = data_roots.load(std::memory_order_acquire);
  return roots == nullptr ? nullptr : *roots;
}

absl::Status CheckWithinDataRoots(const std::string& path) {
  const std::shared_ptr<const FileRoots> roots = DataRoots();
  return roots == nullptr ? absl::OkStatus() : roots->Check(path);
}

}  // namespace muster
