#ifndef MUSTER_COMMON_JOB_TEXT_PARSE_YAML_H_
#define MUSTER_COMMON_JOB_TEXT_PARSE_YAML_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/job_text/text_node.h"

namespace muster {

// Returns a YAML document as a tree. The field decides what a plain value means, so `no` is a text
// where a text is expected. Anchors and aliases are followed; tags beyond YAML's own, merge keys
// and several documents are refused. InvalidArgument: says what is wrong, with origin, line and
// column.
absl::StatusOr<TextNode> ParseYaml(const std::string& text, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_TEXT_PARSE_YAML_H_
