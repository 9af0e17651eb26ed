#include "common/files/temp_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {

TempFolder::TempFolder() : path_(absl::StrCat(testing::TempDir(), "/muster-data-XXXXXX")) {
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "No folder could be made at " << path_;
}

TempFolder::~TempFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TempFolder::Write(absl::string_view name, absl::string_view content) const {
  const std::string path = absl::StrCat(path_, "/", name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) ADD_FAILURE() << "Writing " << path << " failed";
  return path;
}

}  // namespace muster
