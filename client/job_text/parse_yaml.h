#ifndef MUSTER_CLIENT_JOB_TEXT_PARSE_YAML_H_
#define MUSTER_CLIENT_JOB_TEXT_PARSE_YAML_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/job_text/text_node.h"

namespace muster {

// A YAML document as a tree. What a plain value means is left to the field that it is for, so that
// `no` is a text where a text is wanted. Anchors and aliases are followed; tags beyond YAML's own,
// merge keys and several documents are refused. InvalidArgument: origin, line, column and what is
// wrong there.
absl::StatusOr<TextNode> ParseYaml(const std::string& text, const std::string& origin);

}  // namespace muster

#endif  // MUSTER_CLIENT_JOB_TEXT_PARSE_YAML_H_
