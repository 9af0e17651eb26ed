#ifndef MUSTER_COMMON_TEXT_MESSAGE_UTF8_H_
#define MUSTER_COMMON_TEXT_MESSAGE_UTF8_H_

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Checks that every string of a message that is filled from a command line or a file is UTF-8, so
// that its receiver can parse it. InvalidArgument names the first field that is not, as in
// "data.text.path", and shows its value.
absl::Status CheckUtf8(const google::protobuf::Message& message);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_MESSAGE_UTF8_H_
