#ifndef MUSTER_CLIENT_INIT_JSON_DATA_H_
#define MUSTER_CLIENT_INIT_JSON_DATA_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Refuses data in JSON, which no reader reads: a text model would learn braces and field names.
// `text` is the file's beginning. InvalidArgument: the path ends like JSON's files, or the lines
// are JSON objects; the message says how to make a table or a text of it.
absl::Status CheckIsNoJson(const std::string& path, absl::string_view text);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_JSON_DATA_H_
