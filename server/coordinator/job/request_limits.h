#ifndef MUSTER_SERVER_COORDINATOR_JOB_REQUEST_LIMITS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_REQUEST_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Descriptor;
class Message;
}  // namespace google::protobuf

namespace muster {

// Limits on what a caller may send. The tables in request_limits.cc name the requests and fields
// whose limits differ from the defaults, so a new field is bounded without being named.

// Most bytes of a data preparation, which each order of a task repeats.
inline constexpr uint32_t kMostPreparationBytes = 640 << 10;

// Returns the most bytes that a request of this type may have on the wire.
size_t MaxRequestBytes(const google::protobuf::Descriptor& request);

// Checks every string, byte array and list of a request, at any depth. InvalidArgument names the
// first field that is too large, its size and the limit.
absl::Status CheckLimits(const google::protobuf::Message& request);

// Returns `text`, cut to `most` bytes if it is longer: between characters of UTF-8, and with an
// ellipsis at the end. REQUIRES: most >= 3.
std::string Shortened(absl::string_view text, size_t most);

// Cuts the strings of `message` itself, not of nested messages, to what CheckLimits allows. For
// records that a release without limits stored.
void ShortenStrings(google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_REQUEST_LIMITS_H_
