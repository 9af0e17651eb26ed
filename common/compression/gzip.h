#ifndef MUSTER_COMMON_COMPRESSION_GZIP_H_
#define MUSTER_COMMON_COMPRESSION_GZIP_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/compression/unpack_stream.h"

namespace muster {

// Returns whether the bytes begin like a gzip file (RFC 1952).
bool IsGzip(absl::string_view bytes);

// Unpacks gzip files of one or several members. What follows the last member and does not begin
// like another one is left out. ResourceExhausted: zlib could not allocate its state.
absl::StatusOr<std::unique_ptr<UnpackStream>> GunzipStream();

// Unpacks a gzip file of one or several members; returns at most the first `limit` bytes. Memory
// grows with what is unpacked, never with what a header claims. DataLoss: before the limit, the
// stream is damaged (says where) or ends early.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t limit);

}  // namespace muster

#endif  // MUSTER_COMMON_COMPRESSION_GZIP_H_
