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

// How much a caller may send. The tables in request_limits.cc name the requests and fields that may
// be larger, or must be smaller, than the rest: a field that is new is bounded without being named.

// Of a data preparation, which each order of a task repeats.
inline constexpr uint32_t kMostPreparationBytes = 640 << 10;

// Bytes that a request of this type may have on the wire.
size_t MaxRequestBytes(const google::protobuf::Descriptor& request);

// Checks every string, byte array and list of a request, at any depth. InvalidArgument: names the
// first field that is too large, its size and the limit.
absl::Status CheckLimits(const google::protobuf::Message& request);

// `text`, or its beginning and a mark that something is missing where it has more than `most`
// bytes; cut between characters of UTF-8. REQUIRES: most >= 3.
std::string Shortened(absl::string_view text, size_t most);

// Cuts the strings of `message` itself, not of the messages in it, to what CheckLimits allows: for
// records that a release without limits has stored.
void ShortenStrings(google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_REQUEST_LIMITS_H_
