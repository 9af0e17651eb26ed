#include "common/csv/parquet_table.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/parquet/parquet_error.h"
#include "common/parquet/parquet_rows.h"
#include "common/text/data_error.h"
#include "common/text/did_you_mean.h"
#include "common/text/printable.h"

namespace muster {
namespace {

absl::StatusOr<size_t> FindColumn(const ParquetFile& file, const std::string& name) {
  const std::vector<std::string> names = NamesOfColumns(file);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const std::string near = PrintableLine(DidYouMean(name, names));
    return absl::InvalidArgumentError(
        absl::StrCat("Parquet file '", file.path(), "' has no column ", Quote(name), " among its ",
                     names.size(), near.empty() ? "; correct the name" : near));
  }
  if (std::find(found + 1, names.end(), name) != names.end()) {
    return absl::InvalidArgumentError(absl::StrCat("Parquet file '", file.path(), "' has column ",
                                                   Quote(name), " more than once; rename one"));
  }
  const size_t place = found - names.begin();
  const ParquetNode& node = file.schema().fields[place];
  MUSTER_RETURN_IF_ERROR(CheckReadsParquet(file, node));
  if (node.kind == ParquetNode::Kind::kColumn) return place;
  return RefusedParquet(file.path(), name, "lists or structs",
                        "a table has one value in each row: write a column of each");
}

}  // namespace

std::vector<std::string> NamesOfColumns(const ParquetFile& file) {
  std::vector<std::string> names;
  for (const ParquetNode& node : file.schema().fields) names.push_back(node.name);
  return names;
}

absl::StatusOr<std::vector<size_t>> FindInParquet(const ParquetFile& file,
                                                  const CsvColumns& columns) {
  if (columns.header == CsvColumns::Header::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.no_header is set, but '", file.path(), "' is a Parquet file, whose ",
                     "columns have names; leave no_header out, and name columns by these"));
  }
  std::vector<size_t> fields;
  if (columns.reads_labels()) {
    MUSTER_ASSIGN_OR_RETURN(fields.emplace_back(), FindColumn(file, columns.label));
  }
  for (const auto* names : {&columns.numeric, &columns.categorical}) {
    for (const std::string& name : *names) {
      MUSTER_ASSIGN_OR_RETURN(fields.emplace_back(), FindColumn(file, name));
    }
  }
  std::sort(fields.begin(), fields.end());
  return fields;
}

void AppendCsvField(absl::string_view field, char separator, std::string& line) {
  const char special[] = {separator, '"', '\n', '\r', ' ', '\t'};
  if (field.find_first_of(absl::string_view(special, sizeof(special))) == absl::string_view::npos) {
    line.append(field.data(), field.size());
    return;
  }
  absl::StrAppend(&line, "\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
}

absl::StatusOr<std::string> HeadAsCsv(const ParquetFile& file, size_t most_bytes) {
  std::vector<size_t> fields;
  std::string text;
  for (size_t i = 0; i < file.schema().fields.size(); ++i) {
    const ParquetNode& node = file.schema().fields[i];
    if (node.kind != ParquetNode::Kind::kColumn || !CheckReadsParquet(file, node).ok()) continue;
    if (!fields.empty()) text += ',';
    AppendCsvField(node.name, ',', text);
    fields.push_back(i);
  }
  text += '\n';
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<ParquetRows> rows, ParquetRows::Open(file, fields));
  std::string field;
  while (text.size() < most_bytes) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, rows->Next());
    if (!more) break;
    for (size_t i = 0; i < fields.size(); ++i) {
      MUSTER_RETURN_IF_ERROR(rows->TakeText(i, field));
      if (i > 0) text += ',';
      AppendCsvField(field, ',', text);
    }
    text += '\n';
  }
  return text;
}

}  // namespace muster
