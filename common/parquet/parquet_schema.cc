#include "common/parquet/parquet_schema.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

using Repetition = SchemaElement::Repetition;

constexpr int kMostSchemaDepth = 32;
constexpr int64_t kMostFixedBytes = 1 << 20;
// ConvertedType and LogicalType of the format.
constexpr int kConvertedMap = 1, kConvertedMapKeyValue = 2, kConvertedList = 3,
              kConvertedDecimal = 5, kConvertedDate = 6, kConvertedTimeMillis = 7,
              kConvertedTimestampMicros = 10, kConvertedUint8 = 11, kConvertedUint64 = 14,
              kConvertedBson = 20, kConvertedInterval = 21;
constexpr int kLogicalMap = 2, kLogicalList = 3, kLogicalDecimal = 5, kLogicalDate = 6,
              kLogicalTime = 7, kLogicalTimestamp = 8, kLogicalInteger = 10, kLogicalBson = 13,
              kLogicalUuid = 14, kLogicalFloat16 = 15, kLogicalVariant = 16, kLogicalGeography = 18;

bool IsAnnotatedMap(const SchemaElement& element) {
  return element.converted_type == kConvertedMap ||
         element.converted_type == kConvertedMapKeyValue || element.logical_type == kLogicalMap;
}

bool IsAnnotatedList(const SchemaElement& element) {
  return element.converted_type == kConvertedList || element.logical_type == kLogicalList;
}

// Returns what a column has that is not read; empty: nothing.
std::string WhatIsRefused(const SchemaElement& element) {
  const int converted = element.converted_type;
  const int logical = element.logical_type;
  if (element.type == static_cast<int>(ParquetType::kInt96)) return "timestamps of 96 bits";
  if (converted == kConvertedDecimal || logical == kLogicalDecimal) return "decimal numbers";
  if (converted == kConvertedDate || logical == kLogicalDate) return "dates";
  if ((converted >= kConvertedTimeMillis && converted <= kConvertedTimestampMicros) ||
      logical == kLogicalTime || logical == kLogicalTimestamp) {
    return "times";
  }
  if (converted == kConvertedInterval) return "intervals";
  if (converted == kConvertedBson || logical == kLogicalBson) return "BSON";
  if (logical == kLogicalUuid) return "UUIDs";
  if (logical == kLogicalFloat16) return "numbers of 16 bits";
  if (logical >= kLogicalVariant && logical <= kLogicalGeography) return "variants or shapes";
  return "";
}

// Builds nodes from elements in order.
class Builder {
 public:
  explicit Builder(const std::vector<SchemaElement>& elements) : elements_(elements) {}

  absl::StatusOr<ParquetSchema> Build() {
    MUSTER_ASSIGN_OR_RETURN(const SchemaElement* const root, Next());
    for (int64_t i = 0; i < root->children; ++i) {
      MUSTER_ASSIGN_OR_RETURN(const SchemaElement* const element, Next());
      MUSTER_ASSIGN_OR_RETURN(ParquetNode node, Node(*element, Levels()));
      schema_.fields.push_back(std::move(node));
    }
    if (next_ == elements_.size()) return std::move(schema_);
    return absl::InvalidArgumentError("its schema has elements behind its end");
  }

 private:
  // Says what is around a node.
  struct Levels {
    int definition = 0;
    int repetition = 0;
    int depth = 0;
    std::string parent;

    Levels Repeated() const { return {definition + 1, repetition + 1, depth + 1, parent}; }
  };

  absl::StatusOr<const SchemaElement*> Next() {
    if (next_ == elements_.size()) return absl::InvalidArgumentError("its schema ends early");
    return &elements_[next_++];
  }

  // Builds the node of an element, the ones below which are next.
  absl::StatusOr<ParquetNode> Node(const SchemaElement& element, Levels levels) {
    if (element.repetition == Repetition::kRepeated) {
      // A list without null and without a group around it.
      MUSTER_ASSIGN_OR_RETURN(ParquetNode item, Required(element, levels.Repeated()));
      return List(element, levels, std::move(item));
    }
    if (element.repetition == Repetition::kOptional) ++levels.definition;
    return Required(element, levels);
  }

  // Builds the node of an element as if it were never null and no list by itself.
  absl::StatusOr<ParquetNode> Required(const SchemaElement& element, const Levels& levels) {
    if (levels.depth > kMostSchemaDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("its schema is more than ", kMostSchemaDepth, " levels deep"));
    }
    if (element.children == 0) return Column(element, levels);
    if (!IsAnnotatedList(element) || element.children != 1 || next_ == elements_.size() ||
        elements_[next_].repetition != Repetition::kRepeated) {
      return Struct(element, levels);
    }
    const SchemaElement& repeated = elements_[next_++];
    Levels inner = levels.Repeated();
    inner.parent = absl::StrCat(levels.parent, element.name, ".");
    // The older layout has no group between a list and its element. The format says how to tell.
    const bool is_element = repeated.children != 1 || repeated.name == "array" ||
                            repeated.name == absl::StrCat(element.name, "_tuple") ||
                            next_ == elements_.size() ||
                            elements_[next_].repetition == Repetition::kRepeated;
    absl::StatusOr<ParquetNode> item =
        is_element ? Required(repeated, inner) : Node(elements_[next_++], inner);
    if (!item.ok()) return item;
    return List(element, levels, *std::move(item));
  }

  static ParquetNode List(const SchemaElement& element, const Levels& levels, ParquetNode item) {
    ParquetNode node;
    node.name = element.name;
    node.kind = ParquetNode::Kind::kList;
    node.definition = levels.definition;
    node.element_definition = levels.definition + 1;
    node.repetition = levels.repetition + 1;
    node.first_column = item.first_column;
    node.columns = item.columns;
    node.children.push_back(std::move(item));
    return node;
  }

  absl::StatusOr<ParquetNode> Struct(const SchemaElement& element, const Levels& levels) {
    ParquetNode node;
    node.name = element.name;
    node.kind = ParquetNode::Kind::kStruct;
    node.definition = levels.definition;
    node.first_column = schema_.columns.size();
    Levels inner = levels;
    ++inner.depth;
    inner.parent = absl::StrCat(levels.parent, element.name, ".");
    for (int64_t i = 0; i < element.children; ++i) {
      MUSTER_ASSIGN_OR_RETURN(const SchemaElement* const child, Next());
      MUSTER_ASSIGN_OR_RETURN(ParquetNode field, Node(*child, inner));
      node.children.push_back(std::move(field));
    }
    node.columns = schema_.columns.size() - node.first_column;
    if (IsAnnotatedMap(element)) {
      node.refusal = "maps";
      node.remedy = "write a list of structs instead, or leave it out";
    } else if (IsAnnotatedList(element)) {
      node.refusal = "lists of an unknown layout";
      node.remedy = "write the file anew";
    }
    return node;
  }

  absl::StatusOr<ParquetNode> Column(const SchemaElement& element, const Levels& levels) {
    ParquetColumn column;
    column.name = levels.parent + element.name;
    if (element.type < 0 || element.type > static_cast<int>(ParquetType::kFixedBytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its schema has a column of the unknown type ", element.type));
    }
    column.type = static_cast<ParquetType>(element.type);
    if (column.type == ParquetType::kFixedBytes) {
      if (element.type_length < 1 || element.type_length > kMostFixedBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("its schema has a column of ", element.type_length, " bytes a value"));
      }
      column.fixed_bytes = static_cast<size_t>(element.type_length);
    }
    column.is_signed =
        element.logical_type == kLogicalInteger
            ? element.is_signed
            : element.converted_type < kConvertedUint8 || element.converted_type > kConvertedUint64;
    column.definition = levels.definition;
    column.repetition = levels.repetition;
    ParquetNode node;
    node.name = element.name;
    node.definition = levels.definition;
    node.first_column = schema_.columns.size();
    node.refusal = WhatIsRefused(element);
    node.remedy = "write it as text or as a number, or leave it out";
    schema_.columns.push_back(std::move(column));
    return node;
  }

  const std::vector<SchemaElement>& elements_;
  size_t next_ = 0;
  ParquetSchema schema_;
};

}  // namespace

absl::StatusOr<ParquetSchema> BuildParquetSchema(const std::vector<SchemaElement>& elements) {
  for (const SchemaElement& element : elements) {
    // No job or command line could name it, and JSON could not have it.
    if (!IsUtf8(element.name)) {
      return absl::InvalidArgumentError("its schema has a name that is not UTF-8");
    }
  }
  return Builder(elements).Build();
}

}  // namespace muster
