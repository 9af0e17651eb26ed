#ifndef MUSTER_COMMON_PARQUET_PARQUET_ERROR_H_
#define MUSTER_COMMON_PARQUET_PARQUET_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/text/data_error.h"

namespace muster {

// Returns "PATH: column 'NAME'", or "PATH" without a column.
inline std::string PlaceInParquet(absl::string_view path, absl::string_view column) {
  return column.empty() ? std::string(path) : absl::StrCat(path, ": column ", Quote(column));
}

// Returns InvalidArgument: the file is not as its format says. `what` says where it is wrong.
inline absl::Status DamagedParquet(absl::string_view path, absl::string_view column,
                                   absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(PlaceInParquet(path, column), " is damaged: ",
                                                 what, "; write or copy the Parquet file again"));
}

// Returns InvalidArgument: the file has what this reader does not read. `remedy` begins with a
// verb.
inline absl::Status RefusedParquet(absl::string_view path, absl::string_view column,
                                   absl::string_view what, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(PlaceInParquet(path, column), " has ", what,
                                                 ", which Muster does not read; ", remedy));
}

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PARQUET_ERROR_H_
