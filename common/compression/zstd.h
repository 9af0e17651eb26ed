#ifndef MUSTER_COMMON_COMPRESSION_ZSTD_H_
#define MUSTER_COMMON_COMPRESSION_ZSTD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/compression/unpack_stream.h"

namespace muster {

// Returns whether the bytes begin like a frame of Zstandard (RFC 8878), or one that is skipped.
bool IsZstd(absl::string_view bytes);

// Unpacks one or several frames. Frames that need more than 128 MiB for their window (`zstd --long`
// with more than 27) are refused as damaged, with that reason. ResourceExhausted: libzstd could not
// allocate its state.
absl::StatusOr<std::unique_ptr<UnpackStream>> UnzstdStream();

}  // namespace muster

#endif  // MUSTER_COMMON_COMPRESSION_ZSTD_H_
