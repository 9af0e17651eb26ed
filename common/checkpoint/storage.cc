#include "common/checkpoint/storage.h"

#include <random>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kKnownSchemes =
    "known are file:///absolute/path and the plain absolute path";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "%41" stands for "A" in a URI.
absl::StatusOr<std::string> PercentDecode(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "file://", text, " has '%' without two hexadecimal digits; write '%' itself as %25"));
    }
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> LocalPath(absl::string_view uri) {
  std::string path(uri);
  if (absl::string_view rest = uri; absl::ConsumePrefix(&rest, "file://")) {
    if (!absl::StartsWith(rest, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("storage '", uri, "' names a host; ", kKnownSchemes));
    }
    MUSTER_ASSIGN_OR_RETURN(path, PercentDecode(rest));
  } else if (const size_t colon = uri.find("://");
             colon != absl::string_view::npos && !absl::StartsWith(uri, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("storage '", uri, "' has the scheme '",
                                                   uri.substr(0, colon), "'; ", kKnownSchemes));
  }
  if (!absl::StartsWith(path, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("storage '", uri, "' is no absolute path; ", kKnownSchemes));
  }
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("storage '", uri, "' has a NUL byte"));
  }
  std::string normal;
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat("storage '", uri, "' has '..' in it; name the folder itself"));
    }
    absl::StrAppend(&normal, "/", part);
  }
  return normal.empty() ? "/" : normal;
}

std::string JoinUri(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(absl::StripSuffix(folder, "/"), "/", absl::StripPrefix(name, "/"));
}

absl::Status WriteFile(CheckpointStorage& storage, absl::string_view uri, absl::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StorageWriter> file, storage.Create(uri));
  MUSTER_RETURN_IF_ERROR(
      file->Append({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}));
  return file->Commit();
}

absl::StatusOr<std::string> ReadFile(const CheckpointStorage& storage, absl::string_view uri) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StorageReader> file, storage.Open(uri));
  std::string bytes(file->size(), '\0');
  MUSTER_RETURN_IF_ERROR(file->Read(0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  return bytes;
}

absl::Status ProbeStorage(CheckpointStorage& storage, absl::string_view folder_uri) {
  // What is wrong with the folder's own name is said of that name.
  MUSTER_RETURN_IF_ERROR(storage.Exists(folder_uri).status());
  // Machines that share the folder may have equal process ids; each container's first is 1.
  std::random_device random;
  const uint64_t name = uint64_t{random()} << 32 | random();
  const std::string uri =
      JoinUri(folder_uri, absl::StrCat("probe-", absl::Hex(name, absl::kZeroPad16)));
  const std::string written = absl::StrCat("probe of ", uri);
  MUSTER_RETURN_IF_ERROR(WriteFile(storage, uri, written));
  MUSTER_ASSIGN_OR_RETURN(const std::string read, ReadFile(storage, uri));
  if (read != written) {
    return absl::DataLossError(absl::StrCat("the storage ", folder_uri, " gave back '", read,
                                            "' for a file with '", written,
                                            "'; check the file system"));
  }
  return storage.DeleteRecursively(uri);
}

}  // namespace muster
