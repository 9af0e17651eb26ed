#ifndef MUSTER_COMMON_DAEMON_UTF8_FLAG_H_
#define MUSTER_COMMON_DAEMON_UTF8_FLAG_H_

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Checks a name or path that daemons tell one another in strings of messages. These are UTF-8: a
// receiver cannot parse a message with any other. InvalidArgument says so of `value`.
absl::Status CheckIsUtf8(absl::string_view value);

// Returns a validator that refuses such a value of a flag: `option->check(Utf8Flag())`.
CLI::Validator Utf8Flag();

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_UTF8_FLAG_H_
