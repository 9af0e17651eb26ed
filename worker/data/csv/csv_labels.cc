#include "worker/data/csv/csv_labels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/text/data_error.h"
#include "common/text/missing_value.h"
#include "common/text/utf8.h"
#include "worker/data/parsing/number.h"

namespace muster {
namespace {

// Returns whether a text that ParseNumber refuses is meant as a number.
bool MeansNumber(absl::string_view text) {
  std::string lower = absl::AsciiStrToLower(text);
  if (lower.front() == '+' || lower.front() == '-') lower.erase(0, 1);
  if (lower == "nan" || lower == "inf" || lower == "infinity") return true;
  // A number beyond the largest float.
  return !lower.empty() && absl::ascii_isdigit(lower.front()) &&
         lower.find_first_not_of("0123456789.e+-") == std::string::npos;
}

}  // namespace

absl::Status CsvLabels::Add(absl::string_view text, const std::string& path, int64_t line) {
  if (IsMissingLabel(text)) {
    return LineError(path, line,
                     "the label is missing; every example needs one, so drop the record");
  }
  const absl::StatusOr<double> number = ParseNumber(text);
  if (number.ok()) {
    if (*number != std::floor(*number) || *number < -1 || *number > kMaxLabel) {
      return LineError(path, line,
                       absl::StrCat("the label is a number, but no class; labels are texts, -1 and "
                                    "+1, or whole numbers from 0 or 1 to ",
                                    kMaxLabel));
    }
    const int32_t code = static_cast<int32_t>(*number);
    if (number_places_.size() <= static_cast<size_t>(code + 1)) number_places_.resize(code + 2);
    Place& place = number_places_[code + 1];
    if (place.path == nullptr) place = {&path, line};
    codes_.push_back(code);
    return absl::OkStatus();
  }
  if (MeansNumber(text)) {
    return LineError(path, line, absl::StrCat("the label ", number.status().message()));
  }
  auto known = texts_.find(text);
  if (known == texts_.end()) {
    if (text.size() > kMostNameBytes || !IsUtf8(text)) {
      return LineError(path, line,
                       absl::StrCat("the label is a text of ", text.size(), " bytes",
                                    IsUtf8(text) ? "" : " that is not UTF-8", "; texts of at most ",
                                    kMostNameBytes, " bytes of UTF-8 can be classes"));
    }
    if (texts_.size() == kMostNamed) {
      return LineError(path, line,
                       absl::StrCat("the labels are more than ", kMostNamed,
                                    " different texts; name the column with the labels, or number "
                                    "the classes from 0"));
    }
    known =
        texts_.emplace(std::string(text), kFirstText - static_cast<int32_t>(texts_.size())).first;
    text_places_.push_back({&path, line});
  }
  codes_.push_back(known->second);
  return absl::OkStatus();
}

const CsvLabels::Place& CsvLabels::PlaceOf(int32_t code) const {
  return code <= kFirstText ? text_places_[kFirstText - code] : number_places_[code + 1];
}

absl::StatusOr<std::vector<std::string>> CsvLabels::Learn() const {
  // True for each code that occurs.
  std::vector<bool> numbers(number_places_.size());
  std::vector<bool> texts(text_places_.size());
  for (const int32_t code : codes_) {
    if (code <= kFirstText) {
      texts[kFirstText - code] = true;
    } else {
      numbers[code + 1] = true;
    }
  }
  const auto first = std::find(numbers.begin(), numbers.end(), true);
  const auto first_text = std::find(texts.begin(), texts.end(), true);
  if (first_text != texts.end()) {
    if (first != numbers.end()) {
      const Place& text = text_places_[first_text - texts.begin()];
      const Place& number = number_places_[first - numbers.begin()];
      return LineError(
          *text.path, text.line,
          absl::StrCat("the label is a text, yet that of line ", number.line, " of ", *number.path,
                       " is a number; write all labels as one or the other"));
    }
    std::vector<std::string> classes;
    for (const auto& [text, code] : texts_) {
      if (texts[kFirstText - code]) classes.push_back(text);
    }
    std::sort(classes.begin(), classes.end());
    return classes;
  }
  const int64_t smallest = first - numbers.begin() - 1;
  const int64_t largest =
      static_cast<int64_t>(numbers.rend() - std::find(numbers.rbegin(), numbers.rend(), true)) - 2;
  if (smallest == -1) {
    // Positions are labels plus one.
    for (size_t i = 1; i < numbers.size(); ++i) {
      if (!numbers[i] || i == 2) continue;
      const Place& place = number_places_[i];
      return LineError(
          *place.path, place.line,
          absl::StrCat("a label other than -1 and +1, yet line ", number_places_[0].line, " of ",
                       *number_places_[0].path, " has -1; number the classes from 0"));
    }
    return std::vector<std::string>{"-1", "1"};
  }
  std::vector<std::string> classes;
  if (smallest == 1 && largest > 1 && largest <= static_cast<int64_t>(kMostNamed)) {
    for (int64_t label = 1; label <= largest; ++label) classes.push_back(absl::StrCat(label));
  }
  return classes;
}

absl::StatusOr<CsvLabels::Result> CsvLabels::Finish(const std::vector<std::string>& classes) {
  // Class by code; -1 if there is none.
  std::vector<int32_t> of_number(number_places_.size(), -1);
  std::vector<int32_t> of_text(text_places_.size(), -1);
  absl::flat_hash_map<absl::string_view, int32_t> once;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (!once.emplace(classes[i], i).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "in the classes that the weights were trained with, number ", once[classes[i]],
          " and number ", i, " are the same; take another checkpoint"));
    }
    int32_t number = 0;
    if (const auto text = texts_.find(classes[i]); text != texts_.end()) {
      of_text[kFirstText - text->second] = static_cast<int32_t>(i);
    } else if (absl::SimpleAtoi(classes[i], &number) && number >= -1 &&
               static_cast<size_t>(number + 1) < of_number.size()) {
      of_number[number + 1] = static_cast<int32_t>(i);
    }
  }
  int32_t largest = static_cast<int32_t>(classes.size()) - 1;
  if (classes.empty()) {
    for (size_t i = 1; i < of_number.size(); ++i) of_number[i] = static_cast<int32_t>(i) - 1;
    largest = static_cast<int32_t>(of_number.size()) - 2;
  }
  Result result;
  result.labels = std::move(codes_);
  codes_.clear();
  for (int32_t& label : result.labels) {
    const int32_t code = label;
    label = code <= kFirstText ? of_text[kFirstText - code] : of_number[code + 1];
    if (label >= 0) continue;
    const Place& place = PlaceOf(code);
    return LineError(
        *place.path, place.line,
        absl::StrCat("the label, ", code <= kFirstText ? "a text" : "a number", ", is none of the ",
                     classes.empty() ? std::string("numbers from 0")
                                     : absl::StrCat(classes.size(), " classes"),
                     " that the weights were trained with; correct it, or train on examples of all "
                     "classes"));
  }
  result.classes = std::max<int64_t>(2, int64_t{largest} + 1);
  return result;
}

}  // namespace muster
