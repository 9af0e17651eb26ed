#include "server/coordinator/job/confusion_checks.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/eval/confusion.h"

namespace muster {
namespace {

absl::Status CheckConfusionSize(absl::string_view what, int found, int64_t expected) {
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its confusion matrix has ", found, " ", what, " instead of ", expected));
}

// The sum stops before it could overflow.
absl::Status CheckCountsAreOf(const v1::ReportEvaluationRequest& share) {
  const v1::Confusion& confusion = share.confusion();
  uint64_t examples = 0, correct = 0;
  for (int i = 0; i < confusion.counts_size(); ++i) {
    const uint64_t count = confusion.counts(i);
    if (count > share.examples() - examples) {
      return absl::InvalidArgumentError(absl::StrCat("its confusion matrix counts more than the ",
                                                     share.examples(), " examples"));
    }
    examples += count;
    if (i % (confusion.classes() + 1) == 0) correct += count;
  }
  if (examples == share.examples() && correct == share.correct()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "its confusion matrix counts ", examples, " examples, ", correct,
      " of them as correct; the slot reports ", share.examples(), " and ", share.correct()));
}

std::string ClassesText(const v1::ReportEvaluationRequest& share) {
  if (!share.has_confusion()) return "has no confusion matrix";
  return absl::StrCat("has a confusion matrix of ", share.confusion().classes(), " classes");
}

}  // namespace

absl::Status CheckConfusion(const v1::ReportEvaluationRequest& share) {
  if (!share.has_confusion()) return absl::OkStatus();
  const v1::Confusion& confusion = share.confusion();
  const int64_t classes = confusion.classes();
  if (classes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("its confusion matrix is of ", classes, " classes; there are at least 2"));
  }
  const int64_t counted = classes > kMostConfusionClasses ? 0 : classes;
  MUSTER_RETURN_IF_ERROR(CheckConfusionSize("labels", confusion.labels_size(), counted));
  MUSTER_RETURN_IF_ERROR(CheckConfusionSize("counts", confusion.counts_size(), counted * counted));
  for (const std::string& label : confusion.labels()) {
    if (label.size() <= kMostConfusionLabelBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("a label of its confusion matrix has ",
                                                   label.size(), " bytes; at most ",
                                                   kMostConfusionLabelBytes, " are taken"));
  }
  return counted == 0 ? absl::OkStatus() : CheckCountsAreOf(share);
}

absl::Status CheckSameClasses(const v1::ReportEvaluationRequest& a,
                              const v1::ReportEvaluationRequest& b) {
  const bool alike =
      a.has_confusion() == b.has_confusion() && a.confusion().classes() == b.confusion().classes();
  if (alike && std::equal(a.confusion().labels().begin(), a.confusion().labels().end(),
                          b.confusion().labels().begin(), b.confusion().labels().end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "slot ", a.task().slot(), " ", ClassesText(a), ", slot ", b.task().slot(), " ",
      ClassesText(b), alike ? " with other labels" : "", "; run the same release on all workers"));
}

void AddConfusion(const v1::Confusion& share, v1::Confusion& sum) {
  if (sum.classes() == 0) {
    sum = share;
    return;
  }
  for (int i = 0; i < sum.counts_size(); ++i) sum.set_counts(i, sum.counts(i) + share.counts(i));
}

}  // namespace muster
