#ifndef MUSTER_COMMON_TRANSPORT_SYSTEM_ERROR_H_
#define MUSTER_COMMON_TRANSPORT_SYSTEM_ERROR_H_

#include <cerrno>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns Unavailable, such as "`what`: Connection refused", for a call that has just set errno.
inline absl::Status SystemError(absl::string_view what, int error = errno) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::generic_category().message(error)));
}

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_SYSTEM_ERROR_H_
