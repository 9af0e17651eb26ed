#include "common/parquet/parquet_footer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parquet/thrift_reader.h"

namespace muster {
namespace {

// More columns and groups than any schema has.
constexpr size_t kMostSchemaElements = 100'000;

SchemaElement ReadElement(ThriftReader& reader) {
  SchemaElement element;
  reader.Struct([&](int field) {
    switch (field) {
      case 1:
        element.type = static_cast<int>(reader.Int());
        break;
      case 2:
        element.type_length = reader.Int();
        break;
      case 3: {
        const int64_t repetition = reader.Int();
        if (repetition < 0 || repetition > 2) reader.Fail();
        element.repetition = static_cast<SchemaElement::Repetition>(repetition);
        break;
      }
      case 4:
        element.name = std::string(reader.Binary());
        break;
      case 5:
        element.children = reader.Int();
        if (element.children < 0) reader.Fail();
        break;
      case 6:
        element.converted_type = static_cast<int>(reader.Int());
        break;
      case 10:
        // The logical type is the number of the one field that is set.
        reader.Struct([&](int type) {
          element.logical_type = type;
          reader.Struct([&](int property) {
            // These are of whole numbers.
            if (type == 10 && property == 2) element.is_signed = reader.Bool();
          });
        });
        break;
      default:
        break;
    }
  });
  return element;
}

// Reads what is needed of a column's metadata.
void ReadColumn(ThriftReader& reader, ParquetChunk& chunk, bool& is_there) {
  std::optional<int64_t> data, dictionary;
  int64_t bytes = -1;
  reader.Struct([&](int field) {
    switch (field) {
      case 1:
        chunk.type = static_cast<int>(reader.Int());
        break;
      case 4:
        chunk.codec = static_cast<int>(reader.Int());
        break;
      case 5:
        chunk.values = reader.Int();
        break;
      case 7:
        bytes = reader.Int();
        break;
      case 9:
        data = reader.Int();
        break;
      case 11:
        dictionary = reader.Int();
        break;
      default:
        break;
    }
  });
  // Some writers set it to 0 where there is no dictionary.
  const int64_t begin =
      dictionary.value_or(0) > 0 ? std::min(*dictionary, data.value_or(0)) : data.value_or(-1);
  if (begin < 0 || bytes < 0 || chunk.values < 0) reader.Fail();
  chunk.begin = static_cast<uint64_t>(begin);
  chunk.bytes = static_cast<uint64_t>(bytes);
  is_there = true;
}

ParquetChunk ReadChunk(ThriftReader& reader) {
  ParquetChunk chunk;
  bool has_metadata = false;
  reader.Struct([&](int field) {
    if (field == 1) {
      if (!reader.Binary().empty()) chunk.place = ParquetChunk::Place::kOtherFile;
    } else if (field == 3) {
      ReadColumn(reader, chunk, has_metadata);
    } else if (field == 8 || field == 9) {
      chunk.place = ParquetChunk::Place::kEncrypted;
    }
  });
  if (!has_metadata && chunk.place == ParquetChunk::Place::kHere) reader.Fail();
  return chunk;
}

ParquetRowGroup ReadRowGroup(ThriftReader& reader) {
  ParquetRowGroup group;
  bool has_rows = false;
  reader.Struct([&](int field) {
    if (field == 1) {
      reader.List([&] { group.chunks.push_back(ReadChunk(reader)); });
    } else if (field == 3) {
      group.rows = reader.Int();
      has_rows = true;
    }
  });
  if (group.rows < 0 || !has_rows) reader.Fail();
  return group;
}

absl::Status CheckRowGroup(const ParquetRowGroup& group, size_t number, const ParquetSchema& schema,
                           uint64_t data_bytes) {
  const auto error = [number](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("its row group ", number, " ", what));
  };
  if (group.chunks.size() != schema.columns.size()) {
    return error(absl::StrCat("has ", group.chunks.size(), " columns, but the schema ",
                              schema.columns.size()));
  }
  for (size_t i = 0; i < group.chunks.size(); ++i) {
    const ParquetChunk& chunk = group.chunks[i];
    if (chunk.place != ParquetChunk::Place::kHere) continue;
    if (chunk.begin > data_bytes || chunk.bytes > data_bytes - chunk.begin) {
      return error(absl::StrCat("has a column of ", chunk.bytes, " bytes at byte ", chunk.begin,
                                ", which is not within the file"));
    }
    if (chunk.type != static_cast<int>(schema.columns[i].type)) {
      return error("has a column of another type than the schema");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParquetFooter> ReadParquetFooter(absl::string_view metadata, uint64_t data_bytes) {
  ParquetFooter footer;
  std::vector<SchemaElement> elements;
  int64_t rows = -1;
  ThriftReader reader(metadata);
  reader.Struct([&](int field) {
    switch (field) {
      case 2:
        reader.List([&] {
          elements.push_back(ReadElement(reader));
          if (elements.size() > kMostSchemaElements) reader.Fail();
        });
        break;
      case 3:
        rows = reader.Int();
        break;
      case 4:
        reader.List([&] { footer.row_groups.push_back(ReadRowGroup(reader)); });
        break;
      default:
        break;
    }
  });
  if (reader.failed() || rows < 0) {
    return absl::InvalidArgumentError("its metadata cannot be read");
  }
  MUSTER_ASSIGN_OR_RETURN(footer.schema, BuildParquetSchema(elements));
  for (size_t i = 0; i < footer.row_groups.size(); ++i) {
    const ParquetRowGroup& group = footer.row_groups[i];
    MUSTER_RETURN_IF_ERROR(CheckRowGroup(group, i + 1, footer.schema, data_bytes));
    if (group.rows > rows - footer.rows) {
      return absl::InvalidArgumentError("its row groups have more rows than the file");
    }
    footer.rows += group.rows;
  }
  if (footer.rows == rows) return footer;
  return absl::InvalidArgumentError(
      absl::StrCat("its row groups have ", footer.rows, " rows, but the file ", rows));
}

}  // namespace muster
