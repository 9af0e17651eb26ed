#ifndef MUSTER_COMMON_TRANSPORT_ANSWER_H_
#define MUSTER_COMMON_TRANSPORT_ANSWER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Encodes a message of a handshake that goes on or is refused: a status and, if it is OK, content.
std::string EncodeAnswer(const absl::Status& status, absl::string_view content = "");

// Returns the content or the status that was sent; Unavailable: the bytes make no sense.
absl::StatusOr<std::string> DecodeAnswer(absl::string_view bytes);

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_ANSWER_H_
