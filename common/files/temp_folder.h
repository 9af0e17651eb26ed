#ifndef MUSTER_COMMON_FILES_TEMP_FOLDER_H_
#define MUSTER_COMMON_FILES_TEMP_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// A folder of a test's own, removed with all in it at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();

  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

  // Writes a file, replacing one of that name; returns its path.
  std::string Write(absl::string_view name, absl::string_view content) const;

 private:
  std::string path_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_TEMP_FOLDER_H_
