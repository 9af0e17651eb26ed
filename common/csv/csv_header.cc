#include "common/csv/csv_header.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/csv/csv_parser.h"
#include "common/text/data_error.h"
#include "common/text/did_you_mean.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr absl::string_view kUsualSeparators = ",;\t|";

// Returns the columns' names from the first record.
std::vector<std::string> HeaderOf(const CsvColumns& columns,
                                  const std::vector<std::string>& record) {
  std::vector<std::string> header = record;
  for (size_t i = 0; i < header.size(); ++i) {
    if (columns.header == CsvColumns::Header::kNone) {
      header[i] = absl::StrCat(i + 1);
    } else {
      absl::StripAsciiWhitespace(&header[i]);
    }
  }
  return header;
}

bool HasAllColumns(const std::vector<std::string>& header, const CsvColumns& columns) {
  const absl::flat_hash_set<absl::string_view> names(header.begin(), header.end());
  const auto is_there = [&names](const std::string& name) {
    return names.contains(absl::string_view(name));
  };
  return (!columns.reads_labels() || is_there(columns.label)) &&
         std::all_of(columns.numeric.begin(), columns.numeric.end(), is_there) &&
         std::all_of(columns.categorical.begin(), columns.categorical.end(), is_there);
}

// Returns the end of a sentence that names a better separator for a record with only one field or
// without the columns asked for; empty if there is none.
std::string BetterSeparator(const CsvColumns& columns, absl::string_view text, size_t fields) {
  const std::string no_path;
  char best = '\0';
  size_t best_fields = fields == 1 ? 1 : std::string::npos;
  for (const char separator : kUsualSeparators) {
    if (separator == columns.separator) continue;
    CsvParser parser(text, no_path, separator);
    std::vector<std::string> record;
    const absl::StatusOr<bool> more = parser.Next(record);
    if (!more.ok() || !*more || record.size() == 1) continue;
    if (HasAllColumns(HeaderOf(columns, record), columns)) {
      best = separator;
      break;
    }
    if (record.size() > best_fields) {
      best = separator;
      best_fields = record.size();
    }
  }
  if (best == '\0') return "";
  const std::string name = best == '\t' ? "\\t" : std::string(1, best);
  return absl::StrCat("; its separator looks like '", name, "', not '",
                      columns.separator == '\t' ? "\\t" : std::string(1, columns.separator),
                      "': set data.csv.separator to \"", name, "\"");
}

// Returns which column of the header the name may mean, for the end of an error; empty if none is
// near. Columns of a header are the one text of a file that an error has: a job names them.
std::string NearestColumn(const std::string& name, const std::vector<std::string>& header) {
  // Looking through a header of millions of columns would take long.
  constexpr size_t kMostColumns = 10'000;
  std::vector<std::string> columns(header.begin(),
                                   header.begin() + std::min(header.size(), kMostColumns));
  return PrintableLine(DidYouMean(name, columns));
}

}  // namespace

absl::StatusOr<CsvHeader> CsvHeader::Create(const std::string& path, const CsvColumns& columns,
                                            const std::vector<std::string>& first_record,
                                            absl::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckColumns(columns));
  CsvHeader header(columns);
  header.names_ = HeaderOf(columns, first_record);
  for (const std::string& name : header.names_) {
    // A job's specification is UTF-8, so it cannot name other columns.
    if (!IsUtf8(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("CSV file '", path,
                       "': its header is not UTF-8, so no job can name its columns; convert "
                       "it: iconv -f LATIN1 -t UTF-8 FILE > TEXT"));
    }
  }
  if (columns.reads_labels()) {
    MUSTER_ASSIGN_OR_RETURN(header.label_, header.Find(path, columns.label, text));
  }
  for (const std::string& name : columns.numeric) {
    MUSTER_ASSIGN_OR_RETURN(header.numeric_.emplace_back(), header.Find(path, name, text));
  }
  for (const std::string& name : columns.categorical) {
    MUSTER_ASSIGN_OR_RETURN(header.categorical_.emplace_back(), header.Find(path, name, text));
  }
  return header;
}

absl::StatusOr<size_t> CsvHeader::Find(const std::string& path, const std::string& name,
                                       absl::string_view text) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    const std::string hint = BetterSeparator(*columns_, text, names_.size());
    if (columns_->header == CsvColumns::Header::kNone) {
      return absl::InvalidArgumentError(
          absl::StrCat("CSV file '", path, "' has no column ", Quote(name),
                       ": data.csv.no_header is set, so columns go by number, 1 to ", names_.size(),
                       hint.empty() ? "; name the column's number, or leave no_header out" : hint));
    }
    const std::string near = NearestColumn(name, names_);
    absl::string_view remedy =
        "; correct the name, or set data.csv.no_header if its first line is an example already";
    if (!near.empty()) remedy = near;
    if (!hint.empty()) remedy = hint;
    return absl::InvalidArgumentError(absl::StrCat("CSV file '", path, "' has no column ",
                                                   Quote(name), " among the ", names_.size(),
                                                   " of its header", remedy));
  }
  if (std::find(found + 1, names_.end(), name) != names_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("CSV file '", path, "' has column ", Quote(name),
                                                   " more than once; rename one"));
  }
  return found - names_.begin();
}

absl::Status CsvHeader::CheckSame(const std::string& path, int64_t line,
                                  const std::vector<std::string>& record) const {
  const std::vector<std::string> header = HeaderOf(*columns_, record);
  constexpr absl::string_view kRemedy = "; all files that data.csv.path names need the same header";
  if (header.size() != names_.size()) {
    return LineError(path, line,
                     absl::StrCat("the header has ", header.size(),
                                  " columns, that of the first "
                                  "file ",
                                  names_.size(), kRemedy));
  }
  const auto differs = std::mismatch(header.begin(), header.end(), names_.begin()).first;
  if (differs == header.end()) return absl::OkStatus();
  return LineError(path, line,
                   absl::StrCat("column ", differs - header.begin() + 1,
                                " of the header has another name than in the first file", kRemedy));
}

std::string CsvHeader::SeparatorHint(absl::string_view text) const {
  return BetterSeparator(*columns_, text, 1);
}

}  // namespace muster
