#ifndef MUSTER_COMMON_COMPRESSION_PACKED_FOR_TESTING_H_
#define MUSTER_COMMON_COMPRESSION_PACKED_FOR_TESTING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the bytes packed as a gzip file of one member.
std::string Gzip(absl::string_view bytes);

// Returns the bytes packed as a frame of Zstandard.
std::string Zstd(absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_COMPRESSION_PACKED_FOR_TESTING_H_
