#ifndef MUSTER_COMMON_PARQUET_PARQUET_SCHEMA_H_
#define MUSTER_COMMON_PARQUET_PARQUET_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// The numbers of these enums are the format's.
enum class ParquetType {
  kBoolean = 0,
  kInt32 = 1,
  kInt64 = 2,
  kInt96 = 3,
  kFloat = 4,
  kDouble = 5,
  kBytes = 6,
  kFixedBytes = 7,
};

// An element of a footer's schema: a column, or a group of those that follow.
struct SchemaElement {
  enum class Repetition { kRequired = 0, kOptional = 1, kRepeated = 2 };
  // -1: not given.
  int type = -1;
  int64_t type_length = 0;
  Repetition repetition = Repetition::kRequired;
  std::string name;
  int64_t children = 0;
  // Say what values mean, in the older and the newer way; -1: not given.
  int converted_type = -1;
  int logical_type = -1;
  bool is_signed = true;
};

// A column, or a struct or list of columns. Which values are there is told by levels (Dremel;
// Melnik et al., 2010): the definition level of an entry counts how many of the optional and
// repeated nodes on the way to the column are there, the repetition level which list goes on.
struct ParquetNode {
  enum class Kind { kColumn, kStruct, kList };
  std::string name;
  Kind kind = Kind::kColumn;
  // Entries of a lower definition level have no value here: it is null.
  int definition = 0;
  // A list has this: entries of a lower definition level stand for the empty list; entries with
  // this repetition level have one more element.
  int element_definition = 0;
  int repetition = 0;
  // A list has its element here, a struct its fields.
  std::vector<ParquetNode> children;
  // Its columns are [first_column, first_column + columns) of the file.
  size_t first_column = 0;
  size_t columns = 1;
  // Says what it has that is not read, such as "timestamps", and what to do; empty: it is read.
  std::string refusal;
  std::string remedy;
};

// A column as its pages have it.
struct ParquetColumn {
  // The name with the structs and lists that it is in: "messages.role".
  std::string name;
  ParquetType type = ParquetType::kBoolean;
  bool is_signed = true;
  size_t fixed_bytes = 0;
  // The highest levels of its entries.
  int definition = 0;
  int repetition = 0;
};

struct ParquetSchema {
  std::vector<ParquetNode> fields;
  std::vector<ParquetColumn> columns;
};

// Builds the tree of a footer's schema. Lists have three levels or the older two. What cannot be
// read is in the tree with its refusal, so that other columns can be. InvalidArgument: the elements
// are no tree, are nested too deeply, or a name is not UTF-8. The error says where, without the
// file.
absl::StatusOr<ParquetSchema> BuildParquetSchema(const std::vector<SchemaElement>& elements);

}  // namespace muster

#endif  // MUSTER_COMMON_PARQUET_PARQUET_SCHEMA_H_
