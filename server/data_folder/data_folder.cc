#include "server/data_folder/data_folder.h"

#include <cstdint>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/storage.h"

namespace muster {
namespace {

// The mark is lines of text: what this is, the format version, and the server's identity.
struct Mark {
  absl::string_view file;
  absl::string_view title;
  // Name of the owner in messages.
  absl::string_view daemon;
};

constexpr Mark kServerMark = {"MUSTER_SERVER", "Muster parameter server data", "server"};
constexpr Mark kCoordinatorMark = {"MUSTER_COORDINATOR", "Muster coordinator data", "coordinator"};
constexpr absl::string_view kFormat = "format ";
constexpr absl::string_view kServer = "server ";
constexpr uint32_t kFormatVersion = 1;
// Earlier releases of the coordinator left no mark, but a database with this name.
constexpr absl::string_view kUnmarkedCoordinatorFile = "jobs/CURRENT";

// Entries that file systems put into an empty folder.
bool IsForeignButHarmless(absl::string_view name) { return name == "lost+found"; }

std::string RandomId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

absl::StatusOr<std::string> Absolute(const std::string& folder) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(folder, error).lexically_normal();
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot resolve ", folder, ": ", error.message()));
  }
  return LocalPath(absolute);
}

absl::StatusOr<std::string> CheckServerLine(const std::string& path, absl::string_view id,
                                            const std::string& server_id) {
  if (!absl::ConsumePrefix(&id, kServer) || id.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " has no server id in its third line; it is damaged: restore it from a "
                     "backup"));
  }
  if (!server_id.empty() && id != server_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " says these are the data of server ", id, ", this is server ",
                     server_id, "; give it its own data directory, or start it with that id"));
  }
  return std::string(id);
}

absl::StatusOr<std::string> CheckMark(const Mark& mark, const std::string& path,
                                      const std::string& text, const std::string& server_id) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines[0] != mark.title) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " begins with '", lines[0].substr(0, 40), "', expected '", mark.title,
        "'; give this ", mark.daemon, " a data directory of its own, or restore that file"));
  }
  absl::string_view format = lines.size() > 1 ? lines[1] : "";
  uint32_t version = 0;
  if (!absl::ConsumePrefix(&format, kFormat) || !absl::SimpleAtoi(format, &version) ||
      version == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " has no format version in its second line; it is damaged: restore it "
                     "from a backup"));
  }
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " says format version ", version,
        ", written by a later release of Muster; this one reads formats up to ", kFormatVersion));
  }
  if (mark.daemon != kServerMark.daemon) return std::string();
  return CheckServerLine(path, lines.size() > 2 ? lines[2] : "", server_id);
}

}  // namespace

absl::StatusOr<std::string> ClaimDataFolder(const std::string& folder, DataOwner owner,
                                            const std::string& server_id, FolderEntries& entries) {
  const Mark& mark = owner == DataOwner::kServer ? kServerMark : kCoordinatorMark;
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", mark.daemon, "'s data directory is not given"));
  }
  for (const char c : server_id) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server id '", server_id, "' has a space or control character; use letters and digits"));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string absolute, Absolute(folder));
  LocalStorage storage(nullptr, entries);
  absl::StatusOr<std::vector<std::string>> names = storage.List(absolute);
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  // A path through a file is "not found" too. Create would fail on it with a poorer message.
  std::error_code error;
  if (!names.ok() && std::filesystem::exists(absolute, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(absolute, " is no directory; give this ", mark.daemon, " a data directory"));
  }
  const std::string path = JoinUri(absolute, mark.file);
  if (names.ok()) {
    const std::string* foreign = nullptr;
    for (const std::string& name : *names) {
      if (name == mark.file) {
        MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadFile(storage, path));
        MUSTER_ASSIGN_OR_RETURN(std::string id, CheckMark(mark, path, text, server_id));
        MUSTER_RETURN_IF_ERROR(SyncFolders(absolute, entries));
        return id;
      }
      if (!IsForeignButHarmless(name)) foreign = &name;
    }
    const bool unmarked =
        owner == DataOwner::kCoordinator &&
        std::filesystem::exists(JoinUri(absolute, kUnmarkedCoordinatorFile), error);
    if (foreign != nullptr && !unmarked) {
      return absl::FailedPreconditionError(
          absl::StrCat(absolute, " holds '", *foreign, "' and no ", mark.file,
                       ": it is not a data directory of a Muster ", mark.daemon,
                       ", and is left as it is; give an empty or missing one"));
    }
  }
  std::string id;
  std::string text = absl::StrCat(mark.title, "\n", kFormat, kFormatVersion, "\n");
  if (owner == DataOwner::kServer) {
    id = server_id.empty() ? RandomId() : server_id;
    absl::StrAppend(&text, kServer, id, "\n");
  }
  MUSTER_RETURN_IF_ERROR(WriteFile(storage, path, text));
  MUSTER_RETURN_IF_ERROR(SyncFolders(absolute, entries));
  return id;
}

absl::StatusOr<std::string> MakeDataSubfolder(const std::string& folder, absl::string_view name,
                                              FolderEntries& entries) {
  MUSTER_ASSIGN_OR_RETURN(const std::string absolute, Absolute(folder));
  const std::string path = JoinUri(absolute, name);
  MUSTER_RETURN_IF_ERROR(MakeFolders(path, entries));
  MUSTER_RETURN_IF_ERROR(SyncFolders(path, entries));
  return path;
}

}  // namespace muster
