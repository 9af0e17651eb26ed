#include "common/parquet/parquet_for_testing.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

void PutVarint(uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

// A struct in Thrift's compact protocol.
class ThriftStruct {
 public:
  ThriftStruct& Int(int field, int64_t value) {
    Head(field, 6);
    PutVarint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63), bytes_);
    return *this;
  }
  ThriftStruct& Int32(int field, int64_t value) {
    Head(field, 5);
    PutVarint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63), bytes_);
    return *this;
  }
  ThriftStruct& Text(int field, const std::string& text) {
    Head(field, 8);
    PutVarint(text.size(), bytes_);
    bytes_ += text;
    return *this;
  }
  ThriftStruct& Struct(int field, const ThriftStruct& value) {
    Head(field, 12);
    bytes_ += value.Bytes();
    return *this;
  }
  ThriftStruct& List(int field, const std::vector<ThriftStruct>& elements) {
    Head(field, 9);
    bytes_ += static_cast<char>(0xfc);
    PutVarint(elements.size(), bytes_);
    for (const ThriftStruct& element : elements) bytes_ += element.Bytes();
    return *this;
  }
  std::string Bytes() const { return bytes_ + std::string(1, '\0'); }

 private:
  void Head(int field, int type) {
    bytes_ += static_cast<char>((field - last_) << 4 | type);
    last_ = field;
  }

  std::string bytes_;
  int last_ = 0;
};

// Returns levels, each as a run of one, with their length before them.
std::string LevelsOf(const std::vector<int>& levels) {
  std::string runs;
  for (const int level : levels) runs += {2, static_cast<char>(level)};
  const auto length = static_cast<uint32_t>(runs.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + runs;
}

ThriftStruct ElementOf(const SchemaElement& element, bool is_root) {
  ThriftStruct of;
  if (element.type >= 0) of.Int32(1, element.type);
  if (element.type_length > 0) of.Int32(2, element.type_length);
  if (!is_root) of.Int32(3, static_cast<int>(element.repetition));
  of.Text(4, element.name);
  if (element.children > 0) of.Int32(5, element.children);
  if (element.converted_type >= 0) of.Int32(6, element.converted_type);
  return of;
}

}  // namespace

std::string PlainText(const std::string& text) {
  const auto length = static_cast<uint32_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

std::string ParquetOf(const std::vector<SchemaElement>& schema,
                      const std::vector<ParquetPagesForTesting>& columns, int64_t rows) {
  std::string file = "PAR1";
  std::vector<ThriftStruct> elements, chunks;
  std::vector<int> types;
  for (const SchemaElement& element : schema) {
    elements.push_back(ElementOf(element, elements.empty()));
    if (element.type >= 0) types.push_back(element.type);
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const ParquetPagesForTesting& column = columns[i];
    std::string page;
    if (!column.repetitions.empty()) page += LevelsOf(column.repetitions);
    if (!column.definitions.empty()) page += LevelsOf(column.definitions);
    page += column.values;
    const size_t levels = std::max(column.repetitions.size(), column.definitions.size());
    const int64_t count = column.count.value_or(static_cast<int64_t>(levels));
    const auto size = static_cast<int64_t>(page.size());
    ThriftStruct header;
    header.Int32(1, 0)
        .Int32(2, column.unpacked_bytes.value_or(size))
        .Int32(3, size)
        .Struct(5,
                ThriftStruct().Int32(1, count).Int32(2, column.encoding).Int32(3, 3).Int32(4, 3));
    const auto begin = static_cast<int64_t>(file.size());
    absl::StrAppend(&file, header.Bytes(), page);
    chunks.push_back(ThriftStruct().Int(2, begin).Struct(
        3, ThriftStruct()
               .Int32(1, i < types.size() ? types[i] : 0)
               .Int32(4, column.codec)
               .Int(5, count)
               .Int(7, static_cast<int64_t>(file.size()) - begin)
               .Int(9, begin)));
  }
  const std::string metadata = ThriftStruct()
                                   .Int32(1, 1)
                                   .List(2, elements)
                                   .Int(3, rows)
                                   .List(4, {ThriftStruct().List(1, chunks).Int(3, rows)})
                                   .Bytes();
  const auto length = static_cast<uint32_t>(metadata.size());
  return absl::StrCat(file, metadata,
                      std::string(reinterpret_cast<const char*>(&length), sizeof(length)), "PAR1");
}

std::string ParquetOfTexts(const std::vector<TextColumnForTesting>& columns) {
  std::vector<SchemaElement> schema(1);
  schema[0].name = "root";
  schema[0].children = static_cast<int64_t>(columns.size());
  std::vector<ParquetPagesForTesting> pages;
  for (const TextColumnForTesting& column : columns) {
    SchemaElement& element = schema.emplace_back();
    element.type = static_cast<int>(ParquetType::kBytes);
    element.repetition = SchemaElement::Repetition::kOptional;
    element.name = column.name;
    ParquetPagesForTesting& page = pages.emplace_back();
    for (const std::optional<std::string>& value : column.values) {
      page.definitions.push_back(value.has_value() ? 1 : 0);
      if (value.has_value()) page.values += PlainText(*value);
    }
  }
  return ParquetOf(schema, pages, static_cast<int64_t>(columns.front().values.size()));
}

}  // namespace muster
