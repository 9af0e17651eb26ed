#ifndef MUSTER_COMMON_DAEMON_UTF8_FLAG_H_
#define MUSTER_COMMON_DAEMON_UTF8_FLAG_H_

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

// Names and paths that daemons tell one another stand in strings of messages, which are UTF-8: a
// message with another is not parsed by whoever receives it. InvalidArgument says so of `value`.
absl::Status CheckIsUtf8(absl::string_view value);

// Refuses such a value of a flag, as `option->check(Utf8Flag())`.
CLI::Validator Utf8Flag();

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_UTF8_FLAG_H_
