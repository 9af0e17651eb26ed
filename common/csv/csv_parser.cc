#include "common/csv/csv_parser.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/text/data_error.h"

namespace muster {

CsvParser::CsvParser(absl::string_view text, const std::string& path, char separator)
    : text_(text), path_(path), separator_(separator), rest_(text) {}

absl::StatusOr<bool> CsvParser::Next(std::vector<std::string>& fields) {
  while (TakeLineEnd()) {
  }
  if (rest_.empty()) return false;
  record_line_ = line_;
  record_offset_ = text_.size() - rest_.size();
  for (size_t field = 0;; ++field) {
    if (fields.size() <= field) fields.emplace_back();
    MUSTER_RETURN_IF_ERROR(TakeField(field + 1, fields[field]));
    if (!rest_.empty() && rest_.front() == separator_) {
      rest_.remove_prefix(1);
      continue;
    }
    fields.resize(field + 1);
    const size_t end = text_.size() - rest_.size();
    record_text_ = text_.substr(record_offset_, end - record_offset_);
    // TakeField has taken the carriage return after a field without quotes.
    if (!rest_.empty() && rest_.front() == '\n') absl::ConsumeSuffix(&record_text_, "\r");
    TakeLineEnd();
    return true;
  }
}

bool CsvParser::TakeLineEnd() {
  if (!absl::ConsumePrefix(&rest_, "\n") && !absl::ConsumePrefix(&rest_, "\r\n")) return false;
  ++line_;
  return true;
}

size_t CsvParser::BlanksAtFront() const {
  size_t blanks = 0;
  while (blanks < rest_.size() && rest_[blanks] != separator_ &&
         (rest_[blanks] == ' ' || rest_[blanks] == '\t')) {
    ++blanks;
  }
  return blanks;
}

absl::Status CsvParser::TakeField(size_t number, std::string& field) {
  // Spaces around a value and around its quotes do not count.
  if (const size_t blanks = BlanksAtFront(); blanks < rest_.size() && rest_[blanks] == '"') {
    rest_.remove_prefix(blanks + 1);
    return TakeQuotedField(number, field);
  }
  const auto ends = [this](char c) { return c == separator_ || c == '"' || c == '\n'; };
  const size_t length = std::find_if(rest_.begin(), rest_.end(), ends) - rest_.begin();
  const absl::string_view text = rest_.substr(0, length);
  rest_.remove_prefix(length);
  if (!rest_.empty() && rest_.front() == '"') {
    return LineError(path_, line_,
                     absl::StrCat("a quote stands inside field ", number, ", after ", length,
                                  length == 1 ? " character" : " characters",
                                  "; put the whole field in quotes and double those inside"));
  }
  // A carriage return is only part of a line end.
  const bool at_line_end = !rest_.empty() && rest_.front() == '\n';
  const absl::string_view value = at_line_end ? absl::StripSuffix(text, "\r") : text;
  field.assign(value.data(), value.size());
  return absl::OkStatus();
}

absl::Status CsvParser::TakeQuotedField(size_t number, std::string& field) {
  const int64_t first_line = line_;
  field.clear();
  while (true) {
    const size_t quote = rest_.find('"');
    if (quote == absl::string_view::npos) {
      return LineError(path_, first_line,
                       absl::StrCat("a quote is opened in field ", number,
                                    " and never closed; close it, or double it if it is part of "
                                    "the text"));
    }
    const absl::string_view text = rest_.substr(0, quote);
    line_ += std::count(text.begin(), text.end(), '\n');
    absl::StrAppend(&field, text);
    rest_.remove_prefix(quote + 1);
    if (!absl::ConsumePrefix(&rest_, "\"")) break;
    field.push_back('"');
  }
  const absl::string_view after = rest_.substr(BlanksAtFront());
  if (after.empty() || after.front() == separator_ || after.front() == '\n' ||
      absl::StartsWith(after, "\r\n")) {
    rest_ = after;
  } else {
    return LineError(path_, line_,
                     absl::StrCat("text follows the closing quote of field ", number,
                                  "; end the field there, or double the quote if it is part of "
                                  "it"));
  }
  return absl::OkStatus();
}

}  // namespace muster
