#include "worker/predict/prediction_columns.h"

#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace muster {
namespace {

constexpr char kPredicted[] = "predicted";
constexpr char kProbability[] = "probability";

// Returns the fewest digits that are read as the same bits.
template <typename Number>
std::string Shortest(Number number) {
  char text[64];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end.ptr);
}

std::string NameOf(int64_t index, const std::vector<std::string>& names) {
  if (names.empty()) return absl::StrCat(index);
  return index < static_cast<int64_t>(names.size()) ? names[index] : absl::StrCat("#", index);
}

}  // namespace

PredictionColumns::PredictionColumns(const TargetScale& target, char separator)
    : target_(target), separator_(separator), names_({kPredicted}) {}

PredictionColumns::PredictionColumns(int64_t classes, const std::vector<std::string>& names,
                                     char separator)
    : separator_(separator), names_({kPredicted}) {
  for (int64_t i = 0; i < classes; ++i) classes_.push_back(NameOf(i, names));
  if (classes > kMostProbabilities) {
    names_.push_back(kProbability);
    return;
  }
  for (const std::string& name : classes_) {
    names_.push_back(absl::StrCat(kProbability, "_", name));
  }
}

void PredictionColumns::AppendNames(std::string& line) const {
  for (const std::string& name : names_) AppendField(name, line);
}

void PredictionColumns::AppendPredictions(const MicroBatch& results, int64_t example,
                                          std::string& line) const {
  if (classes_.empty()) {
    return AppendField(Shortest(results.scores[example] * target_.deviation + target_.mean), line);
  }
  const int32_t predicted = results.predicted[example];
  const int64_t classes = static_cast<int64_t>(classes_.size());
  const float* const probabilities = results.probabilities.data() + example * classes;
  AppendField(classes_[predicted], line);
  if (classes > kMostProbabilities) return AppendField(Shortest(probabilities[predicted]), line);
  for (int64_t i = 0; i < classes; ++i) AppendField(Shortest(probabilities[i]), line);
}

void PredictionColumns::AppendField(absl::string_view field, std::string& line) const {
  line.push_back(separator_);
  const bool has_blanks_around =
      !field.empty() && (absl::ascii_isspace(field.front()) || absl::ascii_isspace(field.back()));
  const char special[] = {separator_, '"', '\n', '\r', '\0'};
  if (has_blanks_around || field.find_first_of(special) != absl::string_view::npos) {
    absl::StrAppend(&line, "\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
  } else {
    absl::StrAppend(&line, field);
  }
}

}  // namespace muster
