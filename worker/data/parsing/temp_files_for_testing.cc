#include "worker/data/parsing/temp_files_for_testing.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::string IdxFile(const std::vector<uint32_t>& dimensions, absl::string_view elements) {
  std::string file = {0, 0, 8, static_cast<char>(dimensions.size())};
  for (const uint32_t dimension : dimensions) {
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<char>(dimension >> shift));
  }
  return absl::StrCat(file, elements);
}

}  // namespace muster
