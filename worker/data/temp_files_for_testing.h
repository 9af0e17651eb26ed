#ifndef MUSTER_WORKER_DATA_TEMP_FILES_FOR_TESTING_H_
#define MUSTER_WORKER_DATA_TEMP_FILES_FOR_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

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

  // Writes a file, in place of one of that name; its path.
  std::string Write(absl::string_view name, absl::string_view content) const;

 private:
  std::string path_;
};

// The bytes packed as a gzip file of one member.
std::string Gzip(absl::string_view bytes);

// An IDX file of unsigned bytes with these dimensions.
std::string IdxFile(const std::vector<uint32_t>& dimensions, absl::string_view elements);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_TEMP_FILES_FOR_TESTING_H_
