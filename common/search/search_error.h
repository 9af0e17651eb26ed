#ifndef MUSTER_COMMON_SEARCH_SEARCH_ERROR_H_
#define MUSTER_COMMON_SEARCH_SEARCH_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {

// Returns InvalidArgument: "FIELD is VALUE; REMEDY".
inline absl::Status InvalidSearch(absl::string_view field, const absl::AlphaNum& value,
                                  absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; ", remedy));
}

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_SEARCH_ERROR_H_
