#ifndef MUSTER_CLIENT_INIT_COMMENT_H_
#define MUSTER_CLIENT_INIT_COMMENT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/job_text/print_yaml.h"

namespace muster {

// Adds a text above a field, below what is there already, in lines of at most 80 characters with
// the field's indentation.
void AddComment(const std::string& path, absl::string_view text, YamlComments& comments);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_COMMENT_H_
