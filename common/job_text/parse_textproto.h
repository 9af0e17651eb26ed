#ifndef MUSTER_COMMON_JOB_TEXT_PARSE_TEXTPROTO_H_
#define MUSTER_COMMON_JOB_TEXT_PARSE_TEXTPROTO_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/job_text/text_node.h"

namespace muster {

// Returns a message in protobuf text format as a tree: all of the format except extensions and Any.
// In addition a number may have a unit, as in `cache_bytes: 4GiB`. InvalidArgument: says what is
// wrong, with origin, line and column.
absl::StatusOr<TextNode> ParseTextproto(const std::string& text, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_PARSE_TEXTPROTO_H_
