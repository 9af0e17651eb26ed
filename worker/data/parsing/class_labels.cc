#include "worker/data/parsing/class_labels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text/data_error.h"
#include "common/text/length_of.h"
#include "worker/data/parsing/number.h"

namespace muster {

absl::Status ClassLabels::Add(absl::string_view text, int64_t line) {
  if (text.empty()) {
    return LineError(path_, line, "the label is missing; every example needs one");
  }
  const absl::StatusOr<double> number = ParseNumber(text);
  if (!number.ok()) {
    return LineError(path_, line,
                     absl::StrCat("the label, ", LengthOf(text), ", ", number.status().message()));
  }
  if (*number != std::floor(*number) || *number < -1 || *number > kMaxLabel) {
    return LineError(
        path_, line,
        absl::StrCat("the label, ", LengthOf(text), ", is no class; labels are -1 and +1, ",
                     "0 and 1, or whole numbers from 0 to ", kMaxLabel));
  }
  const int32_t label = static_cast<int32_t>(*number);
  if (label == -1 && line_of_minus_one_ == 0) line_of_minus_one_ = line;
  if (label != -1 && label != 1 && line_of_other_ == 0) line_of_other_ = line;
  largest_ = std::max(largest_, label);
  labels_.push_back(label);
  return absl::OkStatus();
}

absl::StatusOr<ClassLabels::Result> ClassLabels::Finish() {
  if (line_of_minus_one_ != 0) {
    if (line_of_other_ != 0) {
      return LineError(path_, line_of_other_,
                       absl::StrCat("a label other than -1 and +1, yet line ", line_of_minus_one_,
                                    " has -1; number the classes from 0"));
    }
    for (int32_t& label : labels_) label = std::max(label, 0);
    return Result{std::exchange(labels_, {}), 2, {"-1", "1"}};
  }
  return Result{std::exchange(labels_, {}), std::max<int64_t>(2, int64_t{largest_} + 1), {}};
}

}  // namespace muster
