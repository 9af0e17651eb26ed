#ifndef MUSTER_CLIENT_INIT_CSV_GUESS_H_
#define MUSTER_CLIENT_INIT_CSV_GUESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// Guess at a table's columns, by the records at its beginning.
struct CsvGuess {
  char separator = ',';
  // If false, columns are named by their numbers, from "1".
  bool header = true;
  // Column to predict; empty if no column looks like classes.
  std::string label;
  // Clause for people that says why this column was chosen.
  std::string label_reason;
  // Number of outputs that a model needs for the labels.
  uint32_t classes = 0;
  // Number of records of the rarest class among those looked at.
  size_t fewest_records = 0;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  // Columns that nothing can be learned from: they number or name the records, or have no name.
  std::vector<std::string> left_out;
  // Names that a job cannot use, since they occur twice or are not UTF-8; each once. Their columns
  // are left out, too.
  std::vector<std::string> not_nameable;
  // Number of records looked at, without the header.
  size_t records = 0;
};

// Guesses a table's columns. Returns nothing if the text is not a table: most lines of a table have
// the same number of fields, at least 2, with one of the usual separators between them. `text` ends
// with a whole line.
std::optional<CsvGuess> GuessCsv(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_CSV_GUESS_H_
