#include "common/files/bytes_of_file.h"

#include <fstream>
#include <iterator>

namespace muster {

std::string BytesOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace muster
