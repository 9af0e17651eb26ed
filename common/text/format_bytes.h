#ifndef MUSTER_COMMON_TEXT_FORMAT_BYTES_H_
#define MUSTER_COMMON_TEXT_FORMAT_BYTES_H_

#include <string>

namespace muster {

// Returns a number of bytes for people: "812 bytes", "3.4 KiB", "1.2 MiB", "5.0 GiB".
std::string FormatBytes(double bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_FORMAT_BYTES_H_
