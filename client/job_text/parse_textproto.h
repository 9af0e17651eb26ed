#ifndef MUSTER_CLIENT_JOB_TEXT_PARSE_TEXTPROTO_H_
#define MUSTER_CLIENT_JOB_TEXT_PARSE_TEXTPROTO_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/job_text/text_node.h"

namespace muster {

// A message in protobuf's text format as a tree: all of the format but extensions and Any. Beyond
// it a number may have a unit, as in `cache_bytes: 4GiB`. InvalidArgument: origin, line, column and
// what is wrong there.
absl::StatusOr<TextNode> ParseTextproto(const std::string& text, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TEXT_PARSE_TEXTPROTO_H_
