#ifndef MUSTER_COMMON_TEXT_ERROR_JSON_H_
#define MUSTER_COMMON_TEXT_ERROR_JSON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Returns the failure of a program that was asked for JSON, on one line and without a line break:
// {"error":{"code":"NOT_FOUND","message":"...","exit_code":2}}. Nothing in it can steer a terminal,
// whatever bytes code and message have.
std::string ErrorJson(absl::string_view code, absl::string_view message, int exit_code);

}  // namespace muster

#endif  // MUSTER_COMMON_TEXT_ERROR_JSON_H_
