#ifndef MUSTER_CLIENT_INIT_CSV_GUESS_H_
#define MUSTER_CLIENT_INIT_CSV_GUESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/init/csv_column.h"

namespace muster {

// Guess at a table's columns, by the records at its beginning.
struct CsvGuess {
  char separator = ',';
  // If false, columns are named by their numbers, from "1".
  bool header = true;
  // Column to predict; empty if no column can be predicted, or label_refused says why not this one.
  std::string label;
  // Clause for people that says why this column was chosen.
  std::string label_reason;
  // Clauses that say why the column that was asked for, or is named like a label, cannot be
  // predicted, and what to do; empty: it can.
  std::string label_refused;
  // Number of outputs that a model needs for the labels as classes; 0: they are no classes.
  uint32_t classes = 0;
  // The labels can be predicted as numbers; label_is_number: rather than as classes.
  bool label_can_be_number = false;
  bool label_is_number = false;
  // Number of different labels.
  size_t different_labels = 0;
  // Number of records of the rarest label.
  size_t fewest_records = 0;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  // Columns that are left out, by what they are.
  std::map<ColumnUse, std::vector<std::string>> left_out;
  // Names that a job cannot use, since they are empty, occur twice or are not UTF-8; each once.
  // Their columns are left out, too.
  std::vector<std::string> not_nameable;
  // Columns of categories with numbers among the texts, each with the line of its first text.
  std::map<std::string, size_t> texts_among_numbers;
  // Columns of categories most of which occur in few records, each with their number.
  std::map<std::string, size_t> rare_categories;
  // Number of records looked at, without the header.
  size_t records = 0;
};

// Guesses a table's columns. Returns nothing if the text is not a table: most records of a table,
// as training reads them (common/csv/csv_parser.h), have the same number of fields, at least 2,
// with one of the usual separators between them. `text` ends with a whole line. `label` is the
// column to predict; empty: the one that is named like a label, or else comes last or first.
std::optional<CsvGuess> GuessCsv(absl::string_view text, const std::string& label = "");

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_CSV_GUESS_H_
