#ifndef MUSTER_SERVER_PAGE_REQUEST_TARGET_H_
#define MUSTER_SERVER_PAGE_REQUEST_TARGET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

using QueryFields = std::vector<std::pair<std::string, std::string>>;

// A request line's target, decoded.
struct RequestTarget {
  // The parts between slashes: none for `/`, and the last is empty if the path ends in a slash.
  std::vector<std::string> path;
  // The query's fields, in order.
  QueryFields query;
};

// Parses a target of the form /PATH?QUERY, the only one that is taken; a plus sign in the query is
// a space. InvalidArgument: it has another form, a bad escape, a control character, text that is
// not UTF-8, or more fields than any call has.
absl::StatusOr<RequestTarget> ParseTarget(absl::string_view target);

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_REQUEST_TARGET_H_
