#include "client/init/csv_column.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/text/missing_value.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

// Labels with more values are rather numbers to predict, and texts no classes.
constexpr size_t kMostClasses = 1000;
// Whole numbers with more different values are rather numbers to predict.
constexpr size_t kMostNumberedClasses = 30;
// Fewer records say nothing about whether a column's values are all different.
constexpr size_t kRecordsToTell = 20;
// Bytes; training refuses longer labels.
constexpr size_t kLongestTextLabel = 64;
// Words of a sentence rather than of a name.
constexpr size_t kWordsOfSentence = 4;

// Returns true if training takes a text that is not a number for a class. It refuses texts that
// seem to mean a number, such as "inf" and "20-29".
bool IsTextLabel(const std::string& text) {
  if (text.size() > kLongestTextLabel || !IsUtf8(text)) return false;
  std::string lower = absl::AsciiStrToLower(text);
  if (lower[0] == '+' || lower[0] == '-') lower.erase(0, 1);
  if (lower == "nan" || lower == "inf" || lower == "infinity") return false;
  return lower.empty() || !absl::ascii_isdigit(lower[0]) ||
         lower.find_first_not_of("0123456789.e+-") != std::string::npos;
}

// Returns the text with "9" for each run of digits.
std::string Shape(absl::string_view text) {
  std::string shape;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) {
      shape += c;
    } else if (shape.empty() || shape.back() != '9') {
      shape += '9';
    }
  }
  return shape;
}

// Returns true for dates in digits ("2024-01-31", "31.1.2024", "1/31/24") and for times of day
// ("9:30", "09:30:00.5 PM"), alone or together, with a time zone or without.
bool IsTime(const std::string& text) {
  if (text.size() > 40 || !absl::ascii_isdigit(text[0])) return false;
  const std::string shape = Shape(text);
  const auto is_date = [](absl::string_view part) {
    return part == "9-9-9" || part == "9/9/9" || part == "9.9.9" || part == "9.9.9.";
  };
  const auto is_clock = [](absl::string_view part) {
    return absl::StartsWith(part, "9:9") &&
           part.find_first_not_of("9:.,+-ZAPMapmUTC ") == absl::string_view::npos;
  };
  const size_t gap = shape.find_first_of("T ");
  if (is_date(shape) || is_clock(shape)) return true;
  if (gap == std::string::npos || !is_date(absl::string_view(shape).substr(0, gap))) return false;
  return is_clock(absl::string_view(shape).substr(gap + 1));
}

// Returns true for numbers with a currency, a per cent sign, a decimal comma or separators of
// thousands.
bool IsOtherNumber(const std::string& text) {
  const std::string bare =
      absl::StrReplaceAll(text, {{"$", ""}, {"€", ""}, {"£", ""}, {"%", ""}, {" ", ""}});
  if (bare.empty() || bare.find_first_of("0123456789") == std::string::npos) return false;
  const size_t sign = bare[0] == '-' || bare[0] == '+' ? 1 : 0;
  if (bare.find_first_not_of("0123456789.,'", sign) != std::string::npos) return false;
  return bare != text || absl::StrContains(bare, ',') || absl::StrContains(bare, '\'');
}

// Returns true if nearly all of the values meet a condition.
bool NearlyAll(size_t count, size_t of) { return of > 0 && count * 10 >= of * 9; }

bool NamesRecords(const std::string& column) {
  const std::string name = absl::AsciiStrToLower(column);
  return name == "id" || name == "index" || name == "row" || absl::EndsWith(name, "_id") ||
         absl::EndsWith(column, "Id") || absl::EndsWith(column, "ID") ||
         absl::StartsWith(name, "unnamed:");
}

}  // namespace

std::optional<double> ReadNumber(const std::string& text) {
  double number = 0;
  if (text.find_first_of("xX") != std::string::npos || !absl::SimpleAtod(text, &number)) {
    return std::nullopt;
  }
  // Written so that NaN is none.
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) return std::nullopt;
  return number;
}

void CsvColumn::Add(const std::string& value, size_t line) {
  ++records_;
  if (IsMissingLabel(value)) {
    if (missing_labels_++ == 0) first_missing_label_ = line;
    return;
  }
  if (IsMissingValue(value)) {
    ++maybe_missing_[value];
    return;
  }
  ++values_[value];
  const std::optional<double> number = ReadNumber(value);
  if (!number.has_value()) {
    if (texts_++ == 0) first_text_ = line;
    texts_are_labels_ = texts_are_labels_ && IsTextLabel(value);
    if (IsTime(value)) ++times_;
    if (IsOtherNumber(value)) ++other_numbers_;
    words_ += 1 + static_cast<size_t>(std::count(value.begin(), value.end(), ' '));
    return;
  }
  least_ = numbers_ > 0 ? std::min(least_, *number) : *number;
  most_ = numbers_ > 0 ? std::max(most_, *number) : *number;
  ++numbers_;
  whole_ = whole_ && *number == std::floor(*number);
  only_signs_ = only_signs_ && std::abs(*number) == 1;
}

ColumnUse CsvColumn::Use() const {
  if (values_.empty()) return ColumnUse::kSameEverywhere;
  const bool complete = values() == records_;
  if (values_.size() == 1 && (texts_ == 0 || complete)) return ColumnUse::kSameEverywhere;
  if (texts_ == 0) {
    const bool numbered = whole() && values_.size() == records_ && NamesRecords(name);
    return numbered ? ColumnUse::kTellsRecordsApart : ColumnUse::kNumeric;
  }
  if (NearlyAll(times_, values())) return ColumnUse::kTimes;
  if (other_numbers_ > 0 && NearlyAll(other_numbers_ + numbers_, values())) {
    return ColumnUse::kOtherNumbers;
  }
  const bool enough = values() >= kRecordsToTell;
  if (enough && words_ >= texts_ * kWordsOfSentence && values_.size() * 2 > values()) {
    return ColumnUse::kFreeText;
  }
  if (enough && values_.size() > values() * 9 / 10) return ColumnUse::kTellsRecordsApart;
  return ColumnUse::kCategorical;
}

bool CsvColumn::CanBeClasses() const {
  const size_t different = values_.size() + maybe_missing_.size();
  if (different < 2 || different > kMostClasses) return false;
  if (numbers_ == 0) {
    const bool all_differ = values() >= kRecordsToTell && different > values() * 9 / 10;
    return texts_are_labels_ && !all_differ;
  }
  return texts_ == 0 && maybe_missing_.empty() && whole() && least_ < most_ &&
         (least_ >= 0 || only_signs_) && most_ <= kMostClasses;
}

bool CsvColumn::CanBeNumbers() const {
  return texts_ == 0 && maybe_missing_.empty() && numbers_ > 0 && least_ < most_;
}

bool CsvColumn::LooksLikeClasses() const {
  if (!CanBeClasses()) return false;
  if (numbers_ == 0 || only_signs_) return true;
  // Years and hundreds are no classes: a model would have an output for each number below.
  return values_.size() <= kMostNumberedClasses &&
         most_ <= static_cast<double>(2 * values_.size() + 10);
}

std::string CsvColumn::WhyNoTarget() const {
  if (numbers_ > 0 && texts_ > 0) {
    return absl::StrCat("line ", first_text_, " has a text in it, and others have numbers");
  }
  if (numbers_ > 0 && !maybe_missing_.empty()) {
    return absl::StrCat("some records have no number in it (\"", maybe_missing_.begin()->first,
                        "\")");
  }
  if (values_.size() + maybe_missing_.size() < 2 || (numbers_ > 0 && least_ == most_)) {
    return "all records have the same value in it";
  }
  if (!texts_are_labels_) {
    return absl::StrCat("labels are whole numbers from 0, -1 and +1, or texts of at most ",
                        kLongestTextLabel, " bytes of UTF-8 that do not begin like a number");
  }
  return absl::StrCat("it has ", values_.size(), " different texts in ", values(), " records");
}

uint32_t CsvColumn::Classes() const {
  if (numbers_ == 0) return static_cast<uint32_t>(values_.size() + maybe_missing_.size());
  if (least_ < 0) return 2;
  // Training renumbers labels that begin at 1, and no others.
  const auto largest = static_cast<uint32_t>(most_);
  return std::max(2u, least_ == 1 ? largest : largest + 1);
}

size_t CsvColumn::FewestRecords() const {
  size_t fewest = std::numeric_limits<size_t>::max();
  for (const auto* texts : {&values_, &maybe_missing_}) {
    for (const auto& [value, records] : *texts) fewest = std::min(fewest, records);
  }
  return fewest;
}

}  // namespace muster
