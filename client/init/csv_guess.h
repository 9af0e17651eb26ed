#ifndef MUSTER_CLIENT_INIT_CSV_GUESS_H_
#define MUSTER_CLIENT_INIT_CSV_GUESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// What a table's columns seem to be, by the records at its beginning.
struct CsvGuess {
  char separator = ',';
  // Without one, columns go by their numbers, from "1".
  bool header = true;
  // Empty: no column looks like classes.
  std::string label;
  // Why that column, a clause for people.
  std::string label_reason;
  // Outputs that a model needs for the labels.
  uint32_t classes = 0;
  // Records, of those looked at, of the class that has the fewest.
  size_t fewest_records = 0;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  // Columns of which nothing is learned: they number or name the records, or have no name.
  std::vector<std::string> left_out;
  // Names that a job cannot give, as they come twice or are no UTF-8: their columns are left out,
  // too. Each once.
  std::vector<std::string> not_nameable;
  // Records looked at, without the header.
  size_t records = 0;
};

// Nothing where a text is no table: most of its lines have the same number of fields, at least 2,
// with one of the usual separators between them. `text` ends with a whole line.
std::optional<CsvGuess> GuessCsv(absl::string_view text);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_CSV_GUESS_H_
