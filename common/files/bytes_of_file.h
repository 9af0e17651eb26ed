#ifndef MUSTER_COMMON_FILES_BYTES_OF_FILE_H_
#define MUSTER_COMMON_FILES_BYTES_OF_FILE_H_

#include <string>

namespace muster {

// Returns all bytes of a file that is small, or one of the kernel's; none where it cannot be
// opened, and those before the error where reading fails, as it does in /proc once the process has
// ended. Unlike the iterators of a stream's buffer, it throws nothing.
std::string BytesOfFile(const std::string& path);

}  // namespace muster

#endif  // MUSTER_COMMON_FILES_BYTES_OF_FILE_H_
