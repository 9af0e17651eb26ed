#include "worker/data/csv/csv_layout.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/text/data_error.h"
#include "common/text/missing_value.h"
#include "worker/data/parsing/number.h"
#include "worker/data/parsing/target.h"

namespace muster {
namespace {

// Returns a category's key. Each field has its own key space, so equal texts of two fields differ.
uint64_t CategoryKey(absl::string_view text, size_t field) {
  return Fingerprint(text, MixBits(field + 1));
}

}  // namespace

absl::Status CsvLayout::Append(const std::string& path, int64_t line,
                               const std::vector<std::string>& record, absl::string_view text,
                               std::vector<double>& numbers, std::vector<uint64_t>& keys) const {
  if (record.size() != header_.names().size()) {
    const std::string hint = record.size() == 1 ? header_.SeparatorHint(text) : std::string();
    return LineError(
        path, line,
        absl::StrCat(
            "has ", record.size(), record.size() == 1 ? " field" : " fields", ", the ",
            columns_->header == CsvColumns::Header::kNone ? "first line" : "header", " has ",
            header_.names().size(),
            hint.empty() ? "; add what is missing or quote fields that hold separators" : hint));
  }
  const std::vector<size_t>& numeric = header_.numeric();
  for (size_t i = 0; i < numeric.size(); ++i) {
    const absl::string_view value = absl::StripAsciiWhitespace(record[numeric[i]]);
    if (IsMissingValue(value)) {
      numbers.push_back(kMissingNumber);
      continue;
    }
    const absl::StatusOr<double> number = ParseNumber(value);
    if (!number.ok()) {
      return LineError(path, line,
                       absl::StrCat("the value in numeric column ", Quote(columns_->numeric[i]),
                                    " (field ", numeric[i] + 1, ") ", number.status().message(),
                                    "; leave a missing value empty, or write NA"));
    }
    numbers.push_back(*number);
  }
  if (columns_->label_kind == LabelKind::kNumber && columns_->reads_labels()) {
    const std::string what = absl::StrCat("the label in column ", Quote(columns_->label),
                                          " (field ", header_.label() + 1, ")");
    MUSTER_ASSIGN_OR_RETURN(const double target, ParseTarget(Label(record), what, path, line));
    numbers.push_back(target);
  }
  const std::vector<size_t>& categorical = header_.categorical();
  for (size_t field = 0; field < categorical.size(); ++field) {
    const absl::string_view value = absl::StripAsciiWhitespace(record[categorical[field]]);
    // However a file writes it, a missing value is one category.
    keys.push_back(CategoryKey(IsMissingValue(value) ? absl::string_view() : value, field));
  }
  return absl::OkStatus();
}

absl::string_view CsvLayout::Label(const std::vector<std::string>& record) const {
  return absl::StripAsciiWhitespace(record[header_.label()]);
}

}  // namespace muster
