#include "common/daemon/report_failure.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/text/error_json.h"
#include "common/text/printable.h"

namespace muster {

int ReportFailure(const absl::Status& status, ReportForm form) {
  if (status.ok()) return 0;
  const int exit_code = absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? 2 : 1;
  const std::string told =
      form == ReportForm::kJson
          ? ErrorJson(absl::StatusCodeToString(status.code()), status.message(), exit_code)
          : absl::StrCat("muster: ", PrintableText(status.message()));
  std::fprintf(stderr, "%s\n", told.c_str());
  return exit_code;
}

}  // namespace muster
