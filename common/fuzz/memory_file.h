#ifndef MUSTER_COMMON_FUZZ_MEMORY_FILE_H_
#define MUSTER_COMMON_FUZZ_MEMORY_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// A regular file in memory, for code that takes a path: fuzzers write a file many times a second.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();

  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Valid in this process, as long as this object.
  const std::string& path() const { return path_; }

  // Replaces the content.
  void Write(absl::string_view content) const;

 private:
  const int descriptor_;
  const std::string path_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_FUZZ_MEMORY_FILE_H_
