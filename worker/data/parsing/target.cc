#include "worker/data/parsing/target.h"

#include "absl/strings/str_cat.h"
#include "common/text/data_error.h"
#include "common/text/missing_value.h"
#include "worker/data/parsing/number.h"

namespace muster {

absl::StatusOr<double> ParseTarget(absl::string_view text, absl::string_view what,
                                   const std::string& path, int64_t line) {
  if (IsMissingValue(text)) {
    return LineError(path, line, absl::StrCat(what, " is missing; every example needs one"));
  }
  absl::StatusOr<double> number = ParseNumber(text);
  if (number.ok()) return number;
  return LineError(path, line,
                   absl::StrCat(what, " ", number.status().message(),
                                ". The model predicts a number: to predict classes, leave its "
                                "regression out"));
}

}  // namespace muster
