#ifndef MUSTER_COMMON_JOB_TEXT_PARSE_JSON_TEXT_H_
#define MUSTER_COMMON_JOB_TEXT_PARSE_JSON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/job_text/text_node.h"

namespace muster {

// Returns a JSON object as a tree. Nulls are left out, as in protobuf's JSON. InvalidArgument: says
// what is wrong, with origin, line and column.
absl::StatusOr<TextNode> ParseJsonText(const std::string& text, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_PARSE_JSON_TEXT_H_
