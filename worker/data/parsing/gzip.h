#ifndef MUSTER_WORKER_DATA_PARSING_GZIP_H_
#define MUSTER_WORKER_DATA_PARSING_GZIP_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Whether the bytes begin as a gzip file does (RFC 1952).
bool IsGzip(absl::string_view bytes);

// The first `limit` bytes of what a gzip file, of one member or several, stands for; all of it if
// it is shorter. Memory grows with what is unpacked, never with what a header claims.
// DataLoss: the stream is damaged (the message tells where) or ends early and before the limit.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t limit);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_GZIP_H_
