#include "worker/data/shared_data_for_testing.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A test runs beside links to its run files; the link of this header leads to the source tree.
fs::path SourceRoot() {
  const fs::path link = fs::path(Environment("TEST_SRCDIR")) / Environment("TEST_WORKSPACE") /
                        "worker/data/shared_data_for_testing.h";
  std::error_code error;
  const fs::path header = fs::canonical(link, error);
  return error ? fs::current_path(error) : header.parent_path().parent_path().parent_path();
}

}  // namespace

absl::StatusOr<std::string> SharedDataFile(absl::string_view name) {
  const std::string folder = Environment("MUSTER_SHARED_DATA");
  const fs::path file =
      (folder.empty() ? SourceRoot() / "../shared/data" : fs::path(folder)) / std::string(name);
  std::error_code error;
  if (fs::is_regular_file(file, error)) return file.lexically_normal().string();
  return absl::NotFoundError(absl::StrCat(
      "shared data file ", name, " is absent: looked for ", file.lexically_normal().string(),
      "; MUSTER_SHARED_DATA may name the folder that holds it"));
}

}  // namespace muster
