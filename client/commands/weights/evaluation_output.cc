#include "client/commands/weights/evaluation_output.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/terminal/format.h"
#include "common/eval/confusion.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr size_t kLineColumns = 80;
// Most classes in the table, and in the matrix.
constexpr size_t kMostListed = 20;
constexpr size_t kMostDrawn = 10;
// Most columns of a label in the table, and before a row of the matrix.
constexpr size_t kLabelColumns = 30;
constexpr size_t kRowLabelColumns = 16;
constexpr size_t kLeastRowLabelColumns = 4;

// One class's part of a confusion matrix.
struct ClassCounts {
  std::string label;
  // Examples of this class; those predicted as it; those that are both.
  uint64_t examples = 0;
  uint64_t predicted = 0;
  uint64_t hits = 0;
  // Their numbers by predicted class.
  std::vector<uint64_t> row;

  // These are absent where they would be 0 / 0.
  std::optional<double> precision() const { return Share(hits, predicted); }
  std::optional<double> recall() const { return Share(hits, examples); }
  // The harmonic mean of the two; 0 if neither has hits.
  std::optional<double> f1() const { return Share(2 * hits, examples + predicted); }

 private:
  static std::optional<double> Share(uint64_t part, uint64_t whole) {
    if (whole == 0) return std::nullopt;
    return static_cast<double>(part) / static_cast<double>(whole);
  }
};

// Empty if the message is not that of a matrix.
std::vector<ClassCounts> CountsOf(const v1::Confusion& confusion) {
  const size_t n = confusion.labels_size();
  if (static_cast<size_t>(confusion.counts_size()) != n * n) return {};
  std::vector<ClassCounts> classes(n);
  for (size_t c = 0; c < n; ++c) {
    classes[c].label = confusion.labels(static_cast<int>(c));
    classes[c].row.assign(confusion.counts().begin() + c * n,
                          confusion.counts().begin() + (c + 1) * n);
    classes[c].hits = classes[c].row[c];
    for (size_t predicted = 0; predicted < n; ++predicted) {
      classes[c].examples += classes[c].row[predicted];
      classes[predicted].predicted += classes[c].row[predicted];
    }
  }
  return classes;
}

std::string NoConfusionText(const v1::Confusion& confusion) {
  return absl::StrCat("the model has ", FormatCount(confusion.classes()), " classes, more than ",
                      kMostConfusionClasses);
}

std::string FigureText(std::optional<double> figure) {
  return figure.has_value() ? FormatLoss(*figure) : "-";
}

std::string ClassTable(const std::vector<ClassCounts>& classes) {
  std::vector<std::vector<std::string>> rows = {{"class", "examples", "precision", "recall", "f1"}};
  for (size_t c = 0; c < std::min(classes.size(), kMostListed); ++c) {
    rows.push_back({CutText(PrintableLine(classes[c].label), kLabelColumns),
                    FormatCount(classes[c].examples), FigureText(classes[c].precision()),
                    FigureText(classes[c].recall()), FigureText(classes[c].f1())});
  }
  std::string text = FormatTable(rows);
  if (classes.size() > kMostListed) {
    absl::StrAppend(&text, "… and ", classes.size() - kMostListed,
                    " more; --output json has all of them\n");
  }
  return text;
}

std::string ConfusionTable(const std::vector<ClassCounts>& classes) {
  size_t count_columns = 1;
  for (const ClassCounts& each : classes) {
    for (const uint64_t count : each.row) {
      count_columns = std::max(count_columns, FormatCount(count).size());
    }
  }
  // Labels have what the counts leave, first those of the rows.
  const size_t least = classes.size() * (count_columns + 2);
  const size_t left = kLineColumns - std::min(kLineColumns, least);
  const size_t row_label = std::clamp(left, kLeastRowLabelColumns, kRowLabelColumns);
  const size_t column_label =
      std::max(count_columns, (kLineColumns - row_label) / classes.size() - 2);
  std::vector<std::vector<std::string>> rows(1);
  rows[0].push_back("");
  for (const ClassCounts& each : classes) {
    const std::string label = PrintableLine(each.label);
    rows[0].push_back(CutText(label, column_label));
    rows.push_back({CutText(label, row_label)});
    for (const uint64_t count : each.row) rows.back().push_back(FormatCount(count));
  }
  return absl::StrCat("a row for each true class, a column for each predicted one:\n",
                      FormatTable(rows));
}

nlohmann::ordered_json NumberOrNull(std::optional<double> figure) {
  return figure.has_value() ? nlohmann::ordered_json(*figure) : nlohmann::ordered_json();
}

}  // namespace

std::string EvaluationText(const v1::EvaluationResult& result,
                           const std::vector<NamedValue>& values, std::optional<uint64_t> clock) {
  std::string text = PrintableLine(result.metric());
  if (result.no_value().empty()) {
    absl::StrAppend(&text, " ", FormatLoss(result.value()));
  } else {
    absl::StrAppend(&text, " has no value (", PrintableLine(result.no_value()), ")");
  }
  if (result.has_auc() && result.metric() != "auc" && result.metric() != "binned_auc") {
    absl::StrAppend(&text, ", auc ", FormatLoss(result.auc()));
  }
  if (result.metric() != "loss") absl::StrAppend(&text, ", loss ", FormatLoss(result.loss()));
  for (const auto& [name, value] : values) {
    if (name != result.metric()) absl::StrAppend(&text, ", ", name, " ", FormatLoss(value));
  }
  absl::StrAppend(&text, ", over ", FormatCount(result.examples()), " examples");
  if (clock.has_value()) absl::StrAppend(&text, ", at clock ", *clock);
  absl::StrAppend(&text, "\n");
  if (!result.has_confusion()) return text;
  const std::vector<ClassCounts> classes = CountsOf(result.confusion());
  if (classes.empty()) {
    return absl::StrCat(text, "no confusion matrix: ", NoConfusionText(result.confusion()), "\n");
  }
  absl::StrAppend(&text, "\n", ClassTable(classes));
  if (classes.size() <= kMostDrawn) absl::StrAppend(&text, "\n", ConfusionTable(classes));
  return text;
}

nlohmann::ordered_json EvaluationFields(const v1::EvaluationResult& result,
                                        const std::vector<NamedValue>& values) {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  for (const auto& [name, value] : values) fields[name] = value;
  if (!result.no_value().empty()) fields["value"] = nullptr;
  if (!result.has_confusion()) return fields;
  const v1::Confusion& confusion = result.confusion();
  if (confusion.classes() == 2) {
    fields["auc"] = result.has_auc() ? NumberOrNull(result.auc()) : nlohmann::ordered_json();
  }
  fields["classes"] = nullptr;
  fields["confusion"] = nullptr;
  const std::vector<ClassCounts> classes = CountsOf(confusion);
  if (classes.empty()) {
    fields["no_confusion"] = NoConfusionText(confusion);
    return fields;
  }
  for (const ClassCounts& each : classes) {
    fields["classes"].push_back({{"label", each.label},
                                 {"examples", each.examples},
                                 {"precision", NumberOrNull(each.precision())},
                                 {"recall", NumberOrNull(each.recall())},
                                 {"f1", NumberOrNull(each.f1())}});
    fields["confusion"].push_back(each.row);
  }
  return fields;
}

}  // namespace muster
