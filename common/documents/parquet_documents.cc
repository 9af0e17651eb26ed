#include "common/documents/parquet_documents.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/parquet/parquet_file.h"
#include "common/parquet/parquet_rows.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

// Columns that an error tells.
constexpr size_t kColumnsTold = 20;

std::string ColumnsOf(const ParquetFile& file) {
  std::vector<std::string> names;
  for (const ParquetNode& field : file.schema().fields) {
    if (names.size() == kColumnsTold) {
      names.push_back("…");
      break;
    }
    names.push_back(Quote(field.name));
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

// Returns the columns that documents are made of, by their places in the schema.
absl::StatusOr<std::vector<size_t>> FieldsToRead(const ParquetFile& file,
                                                 const std::string& field) {
  using Kind = ParquetNode::Kind;
  std::vector<size_t> fields;
  bool has_chats = false;
  const auto add = [&](absl::string_view name, std::optional<Kind> kind) {
    const std::optional<size_t> found = file.Find(name);
    if (!found.has_value()) return;
    const Kind of_field = file.schema().fields[*found].kind;
    if (kind.has_value() && of_field != *kind) return;
    has_chats = has_chats || of_field == Kind::kList;
    fields.push_back(*found);
  };
  if (!field.empty()) {
    add(field, std::nullopt);
    if (fields.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(file.path(), " has no column ", Quote(field),
                                                     "; its columns: ", ColumnsOf(file)));
    }
  } else {
    for (const char* name : {"messages", "conversations"}) add(name, Kind::kList);
    for (const char* name : {"prompt", "completion", "text"}) add(name, Kind::kColumn);
    if (fields.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), " has none of the columns that documents are known by; expected texts ",
          "named text, or prompt and completion, or lists named messages or conversations; ",
          "name another column with --field NAME; its columns: ", ColumnsOf(file)));
    }
  }
  if (has_chats) {
    for (const char* name : {"tools", "documents", "chat_template_kwargs"}) {
      if (name != field) add(name, std::nullopt);
    }
  }
  return fields;
}

}  // namespace

bool HasDocuments(const ParquetFile& file, const std::string& field) {
  return FieldsToRead(file, field).ok();
}

absl::Status ForEachParquetRow(const std::string& path, const JsonDocumentOptions& options,
                               TakeDocument take) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const ParquetFile> file, ParquetFile::Open(path));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<size_t> fields, FieldsToRead(*file, options.field));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<ParquetRows> rows,
                          ParquetRows::Open(*file, fields));
  JsonDocuments documents(options, JsonDocuments::Unit::kRow);
  std::vector<TextPart> parts;
  uint64_t told = 0;
  // Rows are taken to lie evenly in the file.
  const auto tell = [&](double share) {
    const auto read = static_cast<uint64_t>(share * static_cast<double>(file->size()));
    if (!options.progress || read <= told) return;
    options.progress(read - told);
    told = read;
  };
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const bool there, rows->Next());
    if (!there) break;
    nlohmann::ordered_json row = nlohmann::ordered_json::object();
    for (size_t i = 0; i < fields.size(); ++i) {
      nlohmann::ordered_json value;
      MUSTER_RETURN_IF_ERROR(rows->TakeJson(i, value));
      if (!value.is_null()) row[file->schema().fields[fields[i]].name] = std::move(value);
    }
    if (const absl::Status status = documents.Read(std::move(row), parts); !status.ok()) {
      return absl::Status(
          status.code(), absl::StrCat(path, ":", rows->row(), ": ", std::string(status.message())));
    }
    if (static_cast<uint64_t>(rows->row()) <= options.skip) {
      // The first row was read for the layout alone.
      MUSTER_RETURN_IF_ERROR(rows->Skip(options.skip - 1));
      continue;
    }
    tell(static_cast<double>(rows->row()) / static_cast<double>(file->rows()));
    if (parts.empty()) continue;
    Document document;
    document.path = path;
    document.line = rows->row();
    document.parts = parts;
    document.start = documents.start();
    MUSTER_RETURN_IF_ERROR(take(document));
  }
  tell(1);
  return absl::OkStatus();
}

}  // namespace muster
