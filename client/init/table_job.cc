#include "client/init/table_job.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "client/init/comment.h"
#include "client/init/csv_column.h"

namespace muster {
namespace {

// Columns that a comment names.
constexpr size_t kMostNamed = 8;
// More classes of whole numbers may be numbers to predict.
constexpr size_t kFewClasses = 10;

// Some columns by name, and how many more there are.
std::string Listed(const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  for (const std::string& name : columns) {
    if (names.size() == kMostNamed) break;
    names.push_back(name.empty() ? "one without a name" : name);
  }
  std::string list = absl::StrJoin(names, ", ");
  if (columns.size() > names.size()) {
    absl::StrAppend(&list, " and ", columns.size() - names.size(), " more");
  }
  return list;
}

absl::string_view WhyLeftOut(ColumnUse use) {
  switch (use) {
    case ColumnUse::kSameEverywhere:
      return "as all records have the same value, or none";
    case ColumnUse::kTellsRecordsApart:
      return "as nearly each record has a value of its own, such as an id or a name";
    case ColumnUse::kTimes:
      return "as dates or times (a column of numbers, such as the weekday or the days since a "
             "date, can be learned from)";
    case ColumnUse::kFreeText:
      return "as free text, which these models do not read";
    case ColumnUse::kOtherNumbers:
      return "as numbers that training does not read; write digits and a decimal point, without "
             "units and separators";
    case ColumnUse::kNumeric:
    case ColumnUse::kCategorical:
      break;
  }
  return "";
}

// Says of each kind of columns that are left out why they are.
std::vector<std::string> WhatIsLeftOut(const CsvGuess& table) {
  std::vector<std::string> texts;
  for (const auto& [use, names] : table.left_out) {
    texts.push_back(absl::StrCat("Left out, ", WhyLeftOut(use), ": ", Listed(names)));
  }
  if (!table.not_nameable.empty()) {
    texts.push_back(
        absl::StrCat("Left out, as their names are empty, occur twice or are not UTF-8: ",
                     Listed(table.not_nameable)));
  }
  return texts;
}

// What the label is taken for, and how to change that.
std::string DescribeLabel(const FoundData& data, const std::string& model) {
  const CsvGuess& table = data.table;
  std::string text = absl::StrCat("The column to predict, guessed ", table.label_reason, "; ");
  if (table.label_reason == "as --predict says")
    text = "The column to predict, as --predict says; ";
  const std::string files =
      data.files > 1 ? absl::StrCat(" in the first of ", data.files, " files") : "";
  if (PredictsNumber(table, model)) {
    absl::StrAppend(&text, "a number with ", table.different_labels, " different values", files,
                    ".");
    if (table.classes > 0) {
      absl::StrAppend(&text, " If they are classes: `muster init --model logistic_regression`.");
    } else if (table.different_labels <= kFewClasses) {
      absl::StrAppend(&text, " If they are classes: number them from 0.");
    }
    return text;
  }
  absl::StrAppend(&text, table.classes, " classes", files, ".");
  if (table.label_can_be_number && table.different_labels > kFewClasses) {
    absl::StrAppend(&text, " If they are rather numbers: `muster init --model linear_regression`.");
  }
  return text;
}

}  // namespace

absl::Status CheckTable(const FoundData& data) {
  const CsvGuess& table = data.table;
  if (!table.label_refused.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path, " is a table: ", table.label_refused));
  }
  if (table.label.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.path,
        " is a table, but none of its columns can be predicted: that takes numbers, or classes "
        "(whole numbers from 0, -1 and +1, or texts), at least two different ones, and none "
        "missing; it has ",
        Listed(table.numeric), table.numeric.empty() || table.categorical.empty() ? "" : ", ",
        Listed(table.categorical), ". --predict COLUMN names one, and says what is wrong with it"));
  }
  if (table.numeric.empty() && table.categorical.empty()) {
    std::string text =
        absl::StrCat(data.path, " is a table with no column to learn \"", table.label, "\" from");
    for (const std::string& left_out : WhatIsLeftOut(table)) absl::StrAppend(&text, "; ", left_out);
    return absl::InvalidArgumentError(text);
  }
  return absl::OkStatus();
}

std::vector<std::string> ModelsForTable(const CsvGuess& table) {
  const bool categories = !table.categorical.empty();
  std::vector<std::string> models;
  // DeepFM tells two classes apart or predicts a number, and wants categories; a perceptron wants
  // numbers.
  if (categories && (table.label_is_number || table.classes == 2)) models.push_back("deep_fm");
  if (!categories) models.push_back("mlp");
  if (table.label_is_number) models.push_back("linear_regression");
  if (table.classes > 0) models.push_back("logistic_regression");
  if (categories && !table.numeric.empty()) models.push_back("mlp");
  if (table.label_can_be_number && !table.label_is_number) models.push_back("linear_regression");
  return models;
}

bool PredictsNumber(const CsvGuess& table, const std::string& model) {
  return model == "linear_regression" || (table.label_is_number && model != "logistic_regression");
}

void AddTable(const FoundData& data, const std::string& model, StarterJob& job) {
  const CsvGuess& table = data.table;
  v1::CsvData& csv = *job.spec.mutable_data()->mutable_csv();
  csv.set_path(data.path);
  csv.set_label(table.label);
  csv.mutable_numeric()->Assign(table.numeric.begin(), table.numeric.end());
  if (model != "mlp") {
    csv.mutable_categorical()->Assign(table.categorical.begin(), table.categorical.end());
  }
  csv.set_no_header(!table.header);
  if (table.separator != ',') csv.set_separator(std::string(1, table.separator));
  const auto note = [&job](const std::string& field, const std::string& text) {
    AddComment("data.csv." + field, text, job.comments);
    job.notes.push_back(text);
  };
  note("label", DescribeLabel(data, model));
  const std::string columns = csv.numeric().empty() ? "categorical" : "numeric";
  for (const std::string& left_out : WhatIsLeftOut(table)) note(columns, left_out);
  if (model == "mlp" && !table.categorical.empty()) {
    note(columns, absl::StrCat("Left out, as mlp reads only numbers: ", Listed(table.categorical)));
  }
  if (csv.categorical().empty()) return;
  for (const auto& [name, line] : table.texts_among_numbers) {
    note("categorical",
         absl::StrCat("Taken for categories, as line ", line,
                      " has a text among its numbers (write NA for a missing number): ", name));
  }
  for (const auto& [name, different] : table.rare_categories) {
    note("categorical", absl::StrCat("Most of its ", different,
                                     " categories occur so seldom that they teach little: ", name));
  }
}

}  // namespace muster
