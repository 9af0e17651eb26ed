#include "worker/data/csv_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/data_error.h"

namespace muster {

CsvParser::CsvParser(absl::string_view text, std::string path)
    : rest_(text), path_(std::move(path)) {
  absl::ConsumePrefix(&rest_, "\xef\xbb\xbf");
}

absl::StatusOr<bool> CsvParser::Next(std::vector<std::string>& fields) {
  while (TakeLineEnd()) {
  }
  if (rest_.empty()) return false;
  record_line_ = line_;
  for (size_t field = 0;; ++field) {
    if (fields.size() <= field) fields.emplace_back();
    MUSTER_RETURN_IF_ERROR(TakeField(fields[field]));
    if (absl::ConsumePrefix(&rest_, ",")) continue;
    fields.resize(field + 1);
    TakeLineEnd();
    return true;
  }
}

bool CsvParser::TakeLineEnd() {
  if (!absl::ConsumePrefix(&rest_, "\n") && !absl::ConsumePrefix(&rest_, "\r\n")) return false;
  ++line_;
  return true;
}

absl::Status CsvParser::TakeField(std::string& field) {
  if (absl::ConsumePrefix(&rest_, "\"")) return TakeQuotedField(field);
  const absl::string_view text = rest_.substr(0, rest_.find_first_of(",\"\n"));
  rest_.remove_prefix(text.size());
  if (!rest_.empty() && rest_.front() == '"') {
    return LineError(path_, line_,
                     absl::StrCat("a quote stands inside the field that begins ", Quote(text),
                                  "; put the whole field in quotes and double those inside"));
  }
  // A carriage return belongs to the line end, and only there.
  const bool at_line_end = !rest_.empty() && rest_.front() == '\n';
  const absl::string_view value = at_line_end ? absl::StripSuffix(text, "\r") : text;
  field.assign(value.data(), value.size());
  return absl::OkStatus();
}

absl::Status CsvParser::TakeQuotedField(std::string& field) {
  const int64_t first_line = line_;
  field.clear();
  while (true) {
    const size_t quote = rest_.find('"');
    if (quote == absl::string_view::npos) {
      return LineError(path_, first_line,
                       "a quote is opened here and never closed; close it, or double it if it is "
                       "part of the text");
    }
    const absl::string_view text = rest_.substr(0, quote);
    line_ += std::count(text.begin(), text.end(), '\n');
    absl::StrAppend(&field, text);
    rest_.remove_prefix(quote + 1);
    if (!absl::ConsumePrefix(&rest_, "\"")) break;
    field.push_back('"');
  }
  if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n' &&
      !absl::StartsWith(rest_, "\r\n")) {
    return LineError(
        path_, line_,
        absl::StrCat("text follows the closing quote of ", Quote(field),
                     "; end the field there, or double the quote if it is part of it"));
  }
  return absl::OkStatus();
}

}  // namespace muster
