#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/fuzz/fuzz_check.h"
#include "common/fuzz/memory_file.h"
#include "common/parquet/parquet_rows.h"

namespace muster {
namespace {

// A few bytes may stand for any number of rows.
constexpr size_t kMostRows = 2000;

void CheckError(const absl::Status& status, const std::string& path) {
  if (status.ok()) return;
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  FUZZ_CHECK(absl::StartsWith(status.message(), path));
  FUZZ_CHECK(status.message().size() < 1000);
}

// Reads rows from one on, as lines of JSON. Returns whether there was no error.
bool ReadRows(const ParquetFile& file, const std::vector<size_t>& fields, uint64_t skipped,
              std::vector<std::string>& lines) {
  const auto rows = ParquetRows::Open(file, fields);
  FUZZ_CHECK(rows.ok());
  absl::Status status = (*rows)->Skip(skipped);
  while (status.ok() && lines.size() < kMostRows) {
    const auto more = (*rows)->Next();
    status = more.status();
    if (!status.ok() || !*more) break;
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (size_t i = 0; i < fields.size() && status.ok(); ++i) {
      status = (*rows)->TakeJson(i, row.emplace_back());
    }
    // Fails where a name or a text is not UTF-8.
    if (status.ok()) lines.push_back(row.dump());
  }
  CheckError(status, file.path());
  return status.ok();
}

void ReadTexts(const ParquetFile& file, const std::vector<size_t>& fields) {
  const auto rows = ParquetRows::Open(file, fields);
  FUZZ_CHECK(rows.ok());
  for (size_t row = 0; row < kMostRows; ++row) {
    const auto more = (*rows)->Next();
    CheckError(more.status(), file.path());
    if (!more.ok() || !*more) return;
    for (size_t i = 0; i < fields.size(); ++i) {
      std::string text;
      const absl::Status status = (*rows)->TakeText(i, text);
      CheckError(status, file.path());
      if (!status.ok()) return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile* const memory = new MemoryFile();
  memory->Write(absl::string_view(reinterpret_cast<const char*>(data), size));
  const auto file = ParquetFile::Open(memory->path());
  CheckError(file.status(), memory->path());
  if (!file.ok()) return 0;
  std::vector<size_t> fields, columns;
  for (size_t i = 0; i < (*file)->schema().fields.size(); ++i) {
    const ParquetNode& node = (*file)->schema().fields[i];
    const absl::Status status = CheckReadsParquet(**file, node);
    CheckError(status, memory->path());
    if (!status.ok()) continue;
    fields.push_back(i);
    if (node.kind == ParquetNode::Kind::kColumn) columns.push_back(i);
  }
  std::vector<std::string> all, rest;
  const bool whole = ReadRows(**file, fields, 0, all);
  // Row groups that are left out as a whole may have hidden an error.
  if (ReadRows(**file, fields, 3, rest) && whole && all.size() < kMostRows) {
    FUZZ_CHECK(rest.size() == (all.size() < 3 ? 0 : all.size() - 3));
    for (size_t i = 0; i < rest.size(); ++i) FUZZ_CHECK(rest[i] == all[i + 3]);
  }
  ReadTexts(**file, columns);
  return 0;
}

}  // namespace muster
