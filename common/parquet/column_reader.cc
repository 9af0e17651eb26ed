#include "common/parquet/column_reader.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parquet/parquet_error.h"

namespace muster {
namespace {

// Returns the bits of levels up to `most`.
int BitsOfLevel(int most) {
  int bits = 0;
  while (most >> bits > 0) ++bits;
  return bits;
}

bool NextLevel(RunDecoder& levels, int most, int& level) {
  if (most == 0) return true;
  uint32_t value = 0;
  if (!levels.Next(value) || value > static_cast<uint32_t>(most)) return false;
  level = static_cast<int>(value);
  return true;
}

}  // namespace

ColumnReader::ColumnReader(const ParquetFile& file, size_t column)
    : file_(file),
      number_(column),
      column_(file.schema().columns[column]),
      values_(file.schema().columns[column]) {}

absl::Status ColumnReader::Damaged(absl::string_view what) const {
  return DamagedParquet(file_.path(), column_.name, what);
}

absl::Status ColumnReader::Begin(const ParquetRowGroup& group) {
  const ParquetChunk& chunk = group.chunks[number_];
  const auto refuse = [this](absl::string_view what, absl::string_view remedy) {
    return RefusedParquet(file_.path(), column_.name, what, remedy);
  };
  if (chunk.place == ParquetChunk::Place::kEncrypted) {
    return refuse("encrypted pages", "write the file without encryption");
  }
  if (chunk.place == ParquetChunk::Place::kOtherFile) {
    return refuse("its pages in another file", "write whole files");
  }
  if (!ReadsParquetCodec(chunk.codec)) {
    const absl::string_view name = NameOfParquetCodec(chunk.codec);
    return refuse(
        absl::StrCat("pages compressed by ",
                     name.empty() ? absl::StrCat("the unknown codec ", chunk.codec) : name),
        "write the file anew with zstd, snappy, gzip or no compression");
  }
  pages_ = std::make_unique<PageReader>(file_, number_, chunk);
  values_.Begin();
  left_ = static_cast<uint64_t>(chunk.values);
  left_in_page_ = 0;
  looked_ = false;
  repetition_ = definition_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<bool> ColumnReader::NextPage() {
  ParquetPage page;
  while (left_in_page_ == 0) {
    const absl::StatusOr<bool> more = pages_->Next(page);
    if (!more.ok()) {
      if (absl::IsUnimplemented(more.status())) {
        return RefusedParquet(file_.path(), column_.name, more.status().message(),
                              "write the file anew by a newer program, with smaller row groups");
      }
      // Errors of the file say its name already.
      if (!absl::IsInvalidArgument(more.status())) return more.status();
      return Damaged(more.status().message());
    }
    if (!*more) return false;
    if (page.kind == ParquetPage::Kind::kDictionary) {
      const absl::Status status = values_.TakeDictionary(page);
      if (!status.ok()) return Damaged(status.message());
      continue;
    }
    if (page.count > left_) return Damaged("its pages have more values than the column");
    left_in_page_ = page.count;
  }
  repetitions_ = RunDecoder(page.repetition_levels, BitsOfLevel(column_.repetition));
  definitions_ = RunDecoder(page.definition_levels, BitsOfLevel(column_.definition));
  const absl::Status status = values_.TakePage(page);
  if (absl::IsUnimplemented(status)) {
    return RefusedParquet(file_.path(), column_.name, status.message(),
                          "write the file anew with plain or dictionary encoding");
  }
  if (!status.ok()) return Damaged(status.message());
  return true;
}

absl::StatusOr<bool> ColumnReader::Look() {
  if (looked_) return true;
  if (left_ == 0) return false;
  if (left_in_page_ == 0) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, NextPage());
    if (!more) return Damaged(absl::StrCat("its pages end ", left_, " values early"));
  }
  if (!NextLevel(repetitions_, column_.repetition, repetition_) ||
      !NextLevel(definitions_, column_.definition, definition_)) {
    return Damaged("the levels of a page cannot be read");
  }
  looked_ = true;
  return true;
}

absl::Status ColumnReader::Take(ParquetValue& value) {
  looked_ = false;
  --left_;
  --left_in_page_;
  if (!has_value() || values_.Next(value)) return absl::OkStatus();
  return Damaged("the values of a page cannot be read");
}

}  // namespace muster
