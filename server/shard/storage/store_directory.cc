#include "server/shard/storage/store_directory.h"

#include <cstdint>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

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

// The mark is three lines of text: what this is, the format version, the server's identity.
constexpr absl::string_view kMark = "MUSTER_SERVER";
constexpr absl::string_view kTitle = "Muster parameter server data";
constexpr absl::string_view kFormat = "format ";
constexpr absl::string_view kServer = "server ";
constexpr uint32_t kFormatVersion = 1;

// What file systems put into an empty one by themselves.
bool IsForeignButHarmless(absl::string_view name) { return name == "lost+found"; }

std::string RandomId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

absl::StatusOr<std::string> CheckMark(const std::string& path, const std::string& text,
                                      const std::string& server_id) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines[0] != kTitle) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " begins with '", lines[0].substr(0, 40), "', expected '", kTitle,
                     "'; give this server a data directory of its own, or restore that file"));
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
    return absl::FailedPreconditionError(
        absl::StrCat(path, " says format version ", version, ", this program reads up to ",
                     kFormatVersion, "; run the version of Muster that wrote it, or a later one"));
  }
  absl::string_view id = lines.size() > 2 ? lines[2] : "";
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

}  // namespace

absl::StatusOr<std::string> ClaimDataDirectory(const std::string& directory,
                                               const std::string& server_id) {
  if (directory.empty()) {
    return absl::InvalidArgumentError("the server's data directory is not given");
  }
  for (const char c : server_id) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server id '", server_id, "' has a space or control character; use letters and digits"));
    }
  }
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(directory, error).lexically_normal();
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", directory, ": ", error.message()));
  }
  LocalStorage storage;
  absl::StatusOr<std::vector<std::string>> names = storage.List(absolute);
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  // A path through a file is "not found" too; Create would fail on it, but say less.
  if (!names.ok() && std::filesystem::exists(absolute, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(absolute, " is no directory; give this server a data directory"));
  }
  const std::string mark = JoinUri(absolute, kMark);
  if (names.ok()) {
    const std::string* foreign = nullptr;
    for (const std::string& name : *names) {
      if (name == kMark) {
        MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadFile(storage, mark));
        return CheckMark(mark, text, server_id);
      }
      if (!IsForeignButHarmless(name)) foreign = &name;
    }
    if (foreign != nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          absolute, " holds '", *foreign, "' and no ", kMark,
          ": it is not a data directory of Muster, and is left as it is; give an empty or missing "
          "one"));
    }
  }
  const std::string id = server_id.empty() ? RandomId() : server_id;
  MUSTER_RETURN_IF_ERROR(WriteFile(
      storage, mark, absl::StrCat(kTitle, "\n", kFormat, kFormatVersion, "\n", kServer, id, "\n")));
  return id;
}

}  // namespace muster
