#include "common/chat_template/strftime.h"

#include <cstddef>

#include "absl/strings/match.h"

namespace muster {
namespace {

constexpr absl::string_view kDirectives = "aAbBdeHIjmMpSyY%";

}  // namespace

absl::StatusOr<std::string> Strftime(absl::string_view format, absl::Time time,
                                     const absl::TimeZone& zone) {
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    ++i;
    if (i == format.size() || !absl::StrContains(kDirectives, format[i])) {
      return absl::InvalidArgumentError(
          "strftime_now knows %a %A %b %B %d %e %H %I %j %m %M %p %S %y %Y and %%; use these");
    }
  }
  return absl::FormatTime(format, time, zone);
}

}  // namespace muster
