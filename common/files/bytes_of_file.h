#ifndef MUSTER_COMMON_FILES_BYTES_OF_FILE_H_
#define MUSTER_COMMON_FILES_BYTES_OF_FILE_H_

#include <string>

namespace muster {

// Returns all bytes of a file, for tests; none where it cannot be read.
std::string BytesOfFile(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_BYTES_OF_FILE_H_
