#ifndef MUSTER_WORKER_DATA_PARSING_GZIP_H_
#define MUSTER_WORKER_DATA_PARSING_GZIP_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns whether the bytes begin like a gzip file (RFC 1952).
bool IsGzip(absl::string_view bytes);

// Unpacks a gzip file of one or several members; returns at most the first `limit` bytes. Memory
// grows with what is unpacked, never with what a header claims. DataLoss: before the limit, the
// stream is damaged (says where) or ends early.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, size_t limit);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_GZIP_H_
