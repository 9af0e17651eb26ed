#include "common/files/bytes_of_file.h"

#include <cstdio>

namespace muster {

std::string BytesOfFile(const std::string& path) {
  std::string bytes;
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return bytes;
  char buffer[1 << 14];
  while (const size_t read = std::fread(buffer, 1, sizeof(buffer), file))
    bytes.append(buffer, read);
  std::fclose(file);
  return bytes;
}

}  // namespace muster
