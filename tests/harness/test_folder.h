#ifndef MUSTER_TESTS_HARNESS_TEST_FOLDER_H_
#define MUSTER_TESTS_HARNESS_TEST_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

// A new folder for one test, removed with everything in it at the end.
class TestFolder {
 public:
  TestFolder() {
    const char* root = getenv("TEST_TMPDIR");
    std::string name = absl::StrCat(root == nullptr ? "/tmp" : root, "/muster-XXXXXX");
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_HARNESS_TEST_FOLDER_H_
