#ifndef MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_
#define MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Which columns of a CSV file are what.
struct CsvColumns {
  enum class Header {
    // Columns go by the names in it.
    kFirstLine,
    // The first line is an example already; columns go by their numbers: "1", "2", and so on.
    kNone,
  };

  // Class; csv_labels.h tells what it may be.
  std::string label;
  std::vector<std::string> numeric;
  std::vector<std::string> categorical;
  char separator = ',';
  Header header = Header::kFirstLine;
};

// In place of a number that is missing.
inline constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();

// Where in the records of CSV files the columns of a job are. Immutable, so thread-safe.
class CsvLayout {
 public:
  // Finds the columns in the first record of the first file, which is at the beginning of `text`.
  // `columns` outlives the layout. InvalidArgument: a column is not there (told with the separator
  // that would have it there), there twice, or used twice; no column is to be learned from; or the
  // separator cannot be one.
  static absl::StatusOr<CsvLayout> Create(const std::string& path, const CsvColumns& columns,
                                          const std::vector<std::string>& first_record,
                                          absl::string_view text);

  // Whether another file has the same header. InvalidArgument names file, line and column.
  absl::Status CheckHeader(const std::string& path, int64_t line,
                           const std::vector<std::string>& record) const;

  // Appends a record's numbers and its categories' keys, both in the order asked for; spaces around
  // a value do not count. InvalidArgument, naming file, line and column: there are other than
  // `width` fields, or a number is none. `text` begins with the record.
  absl::Status Append(const std::string& path, int64_t line, const std::vector<std::string>& record,
                      absl::string_view text, std::vector<double>& numbers,
                      std::vector<uint64_t>& keys) const;

  // The label, without spaces around it. REQUIRES: Append took the record.
  absl::string_view Label(const std::vector<std::string>& record) const;

 private:
  explicit CsvLayout(const CsvColumns& columns) : columns_(&columns) {}

  absl::StatusOr<size_t> Find(const std::string& path, const std::string& name,
                              absl::string_view text) const;

  const CsvColumns* columns_;
  // Without spaces around them; numbers where there is no header.
  std::vector<std::string> header_;
  // Positions in a record.
  size_t label_ = 0;
  std::vector<size_t> numeric_;
  std::vector<size_t> categorical_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_LAYOUT_H_
