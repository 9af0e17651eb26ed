#ifndef MUSTER_COMMON_CHAT_TEMPLATE_STRFTIME_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_STRFTIME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Returns the time as Python's strftime writes it in English. Fails for what it has no common
// meaning of: other than %a %A %b %B %d %e %H %I %j %m %M %p %S %y %Y and %%.
absl::StatusOr<std::string> Strftime(absl::string_view format, absl::Time time,
                                     const absl::TimeZone& zone);

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_STRFTIME_H_
