#include "common/parquet/parquet_rows.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parquet/parquet_error.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using RowJson = nlohmann::ordered_json;
using Kind = ParquetValue::Kind;

constexpr size_t kBytesOfValue = 32;

absl::Status CheckNode(const ParquetFile& file, const ParquetNode& node, const std::string& name) {
  if (!node.refusal.empty()) return RefusedParquet(file.path(), name, node.refusal, node.remedy);
  if (node.columns == 0) {
    return RefusedParquet(file.path(), name, "structs without fields", "leave it out");
  }
  for (const ParquetNode& child : node.children) {
    const bool is_list = node.kind == ParquetNode::Kind::kList;
    MUSTER_RETURN_IF_ERROR(
        CheckNode(file, child, is_list ? name : absl::StrCat(name, ".", child.name)));
  }
  return absl::OkStatus();
}

template <typename T>
void PrintShortest(T number, std::string& text) {
  std::array<char, 64> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.assign(digits.data(), end);
}

RowJson JsonOf(const ParquetValue& value) {
  switch (value.kind) {
    case Kind::kBoolean:
      return value.integer != 0;
    case Kind::kSigned:
      return value.integer;
    case Kind::kUnsigned:
      return static_cast<uint64_t>(value.integer);
    case Kind::kFloat:
    case Kind::kDouble:
      return value.number;
    case Kind::kBytes:
      break;
  }
  return std::string(value.bytes);
}

void PrintValue(const ParquetValue& value, std::string& text) {
  switch (value.kind) {
    case Kind::kBoolean:
      text = value.integer != 0 ? "true" : "false";
      break;
    case Kind::kSigned:
      PrintShortest(value.integer, text);
      break;
    case Kind::kUnsigned:
      PrintShortest(static_cast<uint64_t>(value.integer), text);
      break;
    case Kind::kFloat:
      PrintShortest(static_cast<float>(value.number), text);
      break;
    case Kind::kDouble:
      PrintShortest(value.number, text);
      break;
    case Kind::kBytes:
      text.assign(value.bytes.data(), value.bytes.size());
      break;
  }
}

}  // namespace

absl::Status CheckReadsParquet(const ParquetFile& file, const ParquetNode& node) {
  return CheckNode(file, node, node.name);
}

absl::StatusOr<std::unique_ptr<ParquetRows>> ParquetRows::Open(const ParquetFile& file,
                                                               std::vector<size_t> fields) {
  for (const size_t field : fields) {
    MUSTER_RETURN_IF_ERROR(CheckReadsParquet(file, file.schema().fields[field]));
  }
  return absl::WrapUnique(new ParquetRows(file, std::move(fields)));
}

ParquetRows::ParquetRows(const ParquetFile& file, std::vector<size_t> fields)
    : file_(file), fields_(std::move(fields)), columns_(file.schema().columns.size()) {
  for (const size_t field : fields_) {
    const ParquetNode& node = file.schema().fields[field];
    for (size_t i = 0; i < node.columns; ++i) {
      const size_t column = node.first_column + i;
      columns_[column] = std::make_unique<ColumnReader>(file, column);
    }
  }
}

absl::StatusOr<bool> ParquetRows::NextGroup() {
  while (left_in_group_ == 0) {
    if (next_group_ > 0) {
      for (const auto& column : columns_) {
        if (column == nullptr) continue;
        MUSTER_ASSIGN_OR_RETURN(const bool more, column->Look());
        if (more) return column->Damaged("it has values behind the last row of a row group");
      }
    }
    if (next_group_ == file_.row_groups().size()) return false;
    const ParquetRowGroup& group = file_.row_groups()[next_group_++];
    left_in_group_ = group.rows;
    for (const auto& column : columns_) {
      if (column != nullptr) MUSTER_RETURN_IF_ERROR(column->Begin(group));
    }
  }
  return true;
}

absl::Status ParquetRows::Skip(uint64_t rows) {
  const std::vector<ParquetRowGroup>& groups = file_.row_groups();
  while (rows > 0) {
    // Groups that are left out as a whole are not read.
    if (left_in_group_ == 0 && next_group_ < groups.size() &&
        rows >= static_cast<uint64_t>(groups[next_group_].rows)) {
      rows -= static_cast<uint64_t>(groups[next_group_].rows);
      row_ += groups[next_group_++].rows;
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(const bool more, NextGroup());
    if (!more) break;
    MUSTER_RETURN_IF_ERROR(SkipRow());
    --rows;
  }
  return absl::OkStatus();
}

absl::Status ParquetRows::SkipRow() {
  ++row_;
  --left_in_group_;
  ParquetValue value;
  for (const auto& column : columns_) {
    if (column == nullptr) continue;
    MUSTER_RETURN_IF_ERROR(Expect(*column, 0, 0));
    bool more = true;
    while (more) {
      MUSTER_RETURN_IF_ERROR(column->Take(value));
      MUSTER_ASSIGN_OR_RETURN(const bool there, column->Look());
      more = there && column->repetition() > 0;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ParquetRows::Next() {
  MUSTER_ASSIGN_OR_RETURN(const bool more, NextGroup());
  if (!more) return false;
  ++row_;
  --left_in_group_;
  row_bytes_ = 0;
  return true;
}

absl::Status ParquetRows::RowError(const ColumnReader& column, const char* what) const {
  return LineError(file_.path(), row_, absl::StrCat("column ", Quote(column.name()), " ", what));
}

absl::Status ParquetRows::Expect(ColumnReader& column, int repetition, int least_definition) const {
  MUSTER_ASSIGN_OR_RETURN(const bool there, column.Look());
  if (!there) return column.Damaged("it has fewer values than the row group has rows");
  if (column.repetition() == repetition && column.definition() >= least_definition) {
    return absl::OkStatus();
  }
  return column.Damaged(
      absl::StrCat("its levels contradict those of the columns beside it in row ", row_));
}

absl::Status ParquetRows::Take(ColumnReader& column, ParquetValue& value) {
  value = ParquetValue();
  MUSTER_RETURN_IF_ERROR(column.Take(value));
  row_bytes_ += kBytesOfValue + value.bytes.size();
  if (row_bytes_ <= kMostParquetRowBytes) return absl::OkStatus();
  return RowError(column, "makes the row larger than 32 MiB; cut it into several");
}

absl::Status ParquetRows::TakeJson(size_t field, RowJson& value) {
  return TakeNode(file_.schema().fields[fields_[field]], 0, 0, value);
}

absl::Status ParquetRows::TakeText(size_t field, std::string& text) {
  ColumnReader& column = *columns_[file_.schema().fields[fields_[field]].first_column];
  MUSTER_RETURN_IF_ERROR(Expect(column, 0, 0));
  ParquetValue value;
  const bool has_value = column.has_value();
  MUSTER_RETURN_IF_ERROR(Take(column, value));
  text.clear();
  if (has_value) PrintValue(value, text);
  return absl::OkStatus();
}

absl::Status ParquetRows::TakeNothing(const ParquetNode& node, int repetition) {
  const int definition = columns_[node.first_column]->definition();
  ParquetValue value;
  for (size_t i = 0; i < node.columns; ++i) {
    ColumnReader& column = *columns_[node.first_column + i];
    MUSTER_RETURN_IF_ERROR(Expect(column, repetition, definition));
    if (column.definition() != definition) {
      return column.Damaged(
          absl::StrCat("its levels contradict those of the columns beside it in row ", row_));
    }
    MUSTER_RETURN_IF_ERROR(Take(column, value));
  }
  return absl::OkStatus();
}

absl::Status ParquetRows::TakeNode(const ParquetNode& node, int repetition, int least_definition,
                                   RowJson& json) {
  ColumnReader& column = *columns_[node.first_column];
  MUSTER_RETURN_IF_ERROR(Expect(column, repetition, least_definition));
  json = nullptr;
  if (column.definition() < node.definition) return TakeNothing(node, repetition);
  switch (node.kind) {
    case ParquetNode::Kind::kColumn: {
      ParquetValue value;
      MUSTER_RETURN_IF_ERROR(Take(column, value));
      if (value.kind == Kind::kBytes && !IsUtf8(value.bytes)) {
        return RowError(column, "is not UTF-8; convert it before the file is written");
      }
      json = JsonOf(value);
      return absl::OkStatus();
    }
    case ParquetNode::Kind::kStruct:
      json = RowJson::object();
      for (const ParquetNode& child : node.children) {
        RowJson value;
        MUSTER_RETURN_IF_ERROR(TakeNode(child, repetition, node.definition, value));
        if (!value.is_null()) json[child.name] = std::move(value);
      }
      return absl::OkStatus();
    case ParquetNode::Kind::kList:
      return TakeList(node, repetition, json);
  }
  return absl::OkStatus();
}

absl::Status ParquetRows::TakeList(const ParquetNode& node, int repetition, RowJson& json) {
  json = RowJson::array();
  ColumnReader& column = *columns_[node.first_column];
  if (column.definition() < node.element_definition) return TakeNothing(node, repetition);
  bool more = true;
  while (more) {
    RowJson element;
    MUSTER_RETURN_IF_ERROR(
        TakeNode(node.children[0], repetition, node.element_definition, element));
    json.push_back(std::move(element));
    MUSTER_ASSIGN_OR_RETURN(const bool there, column.Look());
    repetition = node.repetition;
    more = there && column.repetition() == repetition;
  }
  return absl::OkStatus();
}

}  // namespace muster
