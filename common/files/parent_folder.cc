#include "common/files/parent_folder.h"

#include <cstddef>

namespace muster {

std::string ParentFolder(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace muster
