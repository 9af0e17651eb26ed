#include "common/parquet/parquet_rows.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/parquet/parquet_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Repetition = SchemaElement::Repetition;

constexpr int kText = static_cast<int>(ParquetType::kBytes);
constexpr int kNumber = static_cast<int>(ParquetType::kInt32);

// Returns the rows of a file as lines of JSON, from one on; or the error.
std::vector<std::string> RowsOf(const std::string& path, std::vector<std::string> names = {},
                                uint64_t skipped = 0) {
  const auto file = ParquetFile::Open(path);
  if (!file.ok()) return {std::string(file.status().message())};
  const std::vector<ParquetNode>& schema = (*file)->schema().fields;
  std::vector<size_t> fields;
  for (size_t i = 0; i < schema.size() && names.empty(); ++i) fields.push_back(i);
  for (const std::string& name : names) fields.push_back((*file)->Find(name).value());
  const auto rows = ParquetRows::Open(**file, fields);
  if (!rows.ok()) return {std::string(rows.status().message())};
  absl::Status status = (*rows)->Skip(skipped);
  std::vector<std::string> lines;
  while (status.ok()) {
    const auto more = (*rows)->Next();
    status = more.status();
    if (!status.ok() || !*more) break;
    EXPECT_EQ((*rows)->row(), static_cast<int64_t>(skipped + lines.size() + 1));
    Json row = Json::object();
    for (size_t i = 0; i < fields.size() && status.ok(); ++i) {
      Json value;
      status = (*rows)->TakeJson(i, value);
      if (!value.is_null()) row[schema[fields[i]].name] = value;
    }
    if (status.ok()) lines.push_back(row.dump());
  }
  if (!status.ok()) lines.emplace_back(status.message());
  return lines;
}

// Takes fields that are null out of objects, as the reader does.
Json WithoutNull(const Json& value) {
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& element : value) list.push_back(WithoutNull(element));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [name, field] : value.items()) {
    if (!field.is_null()) object[name] = WithoutNull(field);
  }
  return object;
}

class OtherWritersTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string PathOf(const std::string& name) {
    return absl::StrCat("common/parquet/parquet_rows_corpus/", name, ".parquet");
  }
};

TEST_P(OtherWritersTest, RowsAreThoseOfTheirJson) {
  std::vector<std::string> names;
  std::vector<std::string> expected;
  const auto file = ParquetFile::Open(PathOf(GetParam()));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const absl::string_view line :
       absl::StrSplit(BytesOfFile("common/parquet/testdata/rows.jsonl"), '\n', absl::SkipEmpty())) {
    const Json row = Json::parse(line);
    Json there = Json::object();
    for (const auto& [name, value] : row.items()) {
      if ((*file)->Find(name).has_value()) there[name] = value;
    }
    EXPECT_GE(there.size(), 7u);
    expected.push_back(WithoutNull(there).dump());
  }
  ASSERT_EQ(expected.size(), 12u);
  EXPECT_THAT(RowsOf(PathOf(GetParam())), ElementsAreArray(expected));
  for (const uint64_t skipped : {1, 4, 5, 7, 11, 12, 13}) {
    EXPECT_THAT(RowsOf(PathOf(GetParam()), {}, skipped),
                ElementsAreArray(expected.begin() + std::min<size_t>(skipped, 12), expected.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, OtherWritersTest,
                         testing::Values("duckdb_v1_snappy", "duckdb_v2_zstd", "arrow_v1_gzip",
                                         "arrow_v2_zstd", "arrow_v2_plain", "arrow_delta",
                                         "hyparquet_flat"));

TEST(RefusedParquetTest, WhatIsNotReadIsRefusedByNameWhereItIsAskedFor) {
  const std::string path = "common/parquet/parquet_rows_corpus/refused.parquet";
  EXPECT_EQ(RowsOf(path, {"text"}).size(), 12u);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"day", "column 'day' has dates, which Muster does not read; write it as text"},
      {"moment", "column 'moment' has times, which Muster does not read"},
      {"price", "column 'price' has decimal numbers, which"},
      {"pairs", "column 'pairs' has maps, which Muster does not read; write a list of structs"},
      {"name", "column 'name' has UUIDs, which"},
      {"days", "column 'days' has dates, which"},
  };
  for (const auto& [name, error] : cases) {
    EXPECT_THAT(RowsOf(path, {name}), ElementsAre(AllOf(HasSubstr(path), HasSubstr(error))));
  }
  EXPECT_THAT(RowsOf("common/parquet/parquet_rows_corpus/brotli.parquet"),
              ElementsAre(HasSubstr("column 'text' has pages compressed by Brotli, which Muster "
                                    "does not read; write the file anew with zstd, snappy, gzip")));
}

class ParquetRowsTest : public testing::Test {
 protected:
  std::vector<std::string> Rows(const std::string& bytes) {
    return RowsOf(folder_.Write("x.parquet", bytes));
  }
  std::string Refusal(const std::string& bytes) { return Rows(bytes).back(); }

  const TempFolder folder_;
};

SchemaElement Group(const std::string& name, int64_t children, Repetition repetition,
                    int converted_type = -1) {
  SchemaElement element;
  element.name = name;
  element.children = children;
  element.repetition = repetition;
  element.converted_type = converted_type;
  return element;
}

SchemaElement Leaf(const std::string& name, int type, Repetition repetition) {
  SchemaElement element;
  element.name = name;
  element.type = type;
  element.repetition = repetition;
  return element;
}

constexpr int kList = 3;

TEST_F(ParquetRowsTest, ListsOfTheOlderTwoLevelsAreRead) {
  // A list of structs without a group of its own for the element, as "array" or by its fields.
  for (const char* name : {"array", "messages_tuple", "bag"}) {
    const std::string bytes = ParquetOf(
        {Group("root", 1, Repetition::kRequired),
         Group("messages", 1, Repetition::kOptional, kList), Group(name, 2, Repetition::kRepeated),
         Leaf("role", kText, Repetition::kRequired), Leaf("content", kText, Repetition::kOptional)},
        {{.repetitions = {0, 1, 0, 0},
          .definitions = {2, 2, 1, 0},
          .values = PlainText("user") + PlainText("bot")},
         {.repetitions = {0, 1, 0, 0}, .definitions = {3, 2, 1, 0}, .values = PlainText("hi")}},
        3);
    EXPECT_THAT(Rows(bytes),
                ElementsAre(R"({"messages":[{"role":"user","content":"hi"},{"role":"bot"}]})",
                            R"({"messages":[]})", "{}"));
  }
  // The repeated field is the element, and a repeated field without any group is a list.
  const std::vector<ParquetPagesForTesting> numbers = {
      {.repetitions = {0, 1, 0},
       .definitions = {1, 1, 0},
       .values = std::string("\1\0\0\0\2\0\0\0", 8)}};
  EXPECT_THAT(Rows(ParquetOf({Group("root", 1, Repetition::kRequired),
                              Group("n", 1, Repetition::kRequired, kList),
                              Leaf("element", kNumber, Repetition::kRepeated)},
                             numbers, 2)),
              ElementsAre(R"({"n":[1,2]})", R"({"n":[]})"));
  EXPECT_THAT(Rows(ParquetOf({Group("root", 1, Repetition::kRequired),
                              Leaf("n", kNumber, Repetition::kRepeated)},
                             numbers, 2)),
              ElementsAre(R"({"n":[1,2]})", R"({"n":[]})"));
}

TEST_F(ParquetRowsTest, FilesThatAreCutOffOrNoneAreNamed) {
  const std::string bytes = ParquetOfTexts({{"text", {"a", std::nullopt, "c"}}});
  EXPECT_THAT(Rows(bytes), ElementsAre(R"({"text":"a"})", "{}", R"({"text":"c"})"));
  EXPECT_THAT(Refusal("PAR1"), HasSubstr("x.parquet is damaged: it has 4 bytes only; write or"));
  EXPECT_THAT(Refusal(bytes.substr(0, bytes.size() - 1)),
              HasSubstr("x.parquet is damaged: it does not end as a Parquet file, so it was cut"));
  EXPECT_THAT(Refusal("PAR2" + bytes.substr(4)), HasSubstr("does not begin as a Parquet file"));
  EXPECT_THAT(Refusal(bytes.substr(0, bytes.size() - 4) + "PARE"),
              HasSubstr("x.parquet has encrypted metadata, which Muster does not read"));
  std::string long_metadata = bytes;
  long_metadata.replace(bytes.size() - 6, 2, "\xff\xff");
  EXPECT_THAT(Refusal(long_metadata), HasSubstr("its metadata should have 4294"));
  std::string wrong_metadata = bytes;
  wrong_metadata[bytes.size() - 9] = 0x7f;
  EXPECT_THAT(Refusal(wrong_metadata), HasSubstr("is damaged: its metadata cannot be read"));
}

TEST_F(ParquetRowsTest, WhatAFileClaimsIsNotBelieved) {
  const std::vector<SchemaElement> schema = {Group("root", 1, Repetition::kRequired),
                                             Leaf("text", kText, Repetition::kOptional)};
  const ParquetPagesForTesting sound = {.definitions = {1, 1},
                                        .values = PlainText("a") + PlainText("b")};
  const auto refusal = [&](const auto& change, int64_t rows = 2) {
    ParquetPagesForTesting page = sound;
    change(page);
    return Refusal(ParquetOf(schema, {page}, rows));
  };
  using Page = ParquetPagesForTesting;
  EXPECT_THAT(refusal([](Page&) {}), R"({"text":"b"})");
  EXPECT_THAT(
      refusal([](Page&) {}, 3),
      HasSubstr("x.parquet: column 'text' is damaged: it has fewer values than the row group "
                "has rows; write or copy the Parquet file again"));
  EXPECT_THAT(refusal([](Page&) {}, 1), HasSubstr("it has values behind the last row"));
  EXPECT_THAT(refusal([](Page& page) { page.values.resize(7); }),
              HasSubstr("the values of a page cannot be read"));
  EXPECT_THAT(refusal([](Page& page) { page.values = "\xff\xff\xff\xff"; }),
              HasSubstr("the values of a page cannot be read"));
  EXPECT_THAT(refusal([](Page& page) {
                page.definitions = {1, 2};
              }),
              HasSubstr("the levels of a page cannot be read"));
  EXPECT_THAT(refusal([](Page& page) { page.count = 3; }, 3),
              HasSubstr("the levels of a page cannot be read"));
  EXPECT_THAT(refusal([](Page& page) { page.encoding = 8; }), HasSubstr("it has no dictionary"));
  EXPECT_THAT(refusal([](Page& page) { page.encoding = 5; }),
              HasSubstr("has values encoded by DELTA_BINARY_PACKED, which Muster does not read"));
  EXPECT_THAT(refusal([](Page& page) { page.encoding = 77; }),
              HasSubstr("has values encoded by an unknown way"));
  EXPECT_THAT(refusal([](Page& page) { page.codec = 5; }), HasSubstr("pages compressed by LZ4"));
  EXPECT_THAT(
      refusal([](Page& page) { page.unpacked_bytes = 300 << 20; }),
      HasSubstr("column 'text' has a page of 314572800 bytes, more than 256 MiB, which Muster "
                "does not read; write the file anew"));
  EXPECT_THAT(refusal([](Page& page) { page.unpacked_bytes = 5; }),
              HasSubstr("it unpacks to more than the 5 bytes that it should"));
  // Zeros are no stream of any compression.
  for (const int codec : {1, 2, 6}) {
    EXPECT_THAT(refusal([&](Page& page) {
                  page.codec = codec;
                  page.unpacked_bytes = 200 << 20;
                }),
                HasSubstr("column 'text' is damaged: a page: "));
  }
  EXPECT_THAT(refusal([](Page& page) { page.values = PlainText("a") + PlainText("\xff"); }),
              HasSubstr("x.parquet:2: column 'text' is not UTF-8; convert it before"));
}

TEST_F(ParquetRowsTest, LevelsThatContradictOneAnotherAreRefused) {
  const auto refusal = [&](const std::vector<int>& repetitions,
                           const std::vector<int>& definitions) {
    std::string values;
    for (const int definition : definitions) values += definition == 3 ? PlainText("x") : "";
    return Refusal(ParquetOf(
        {Group("root", 1, Repetition::kRequired), Group("m", 1, Repetition::kRequired, kList),
         Group("list", 1, Repetition::kRepeated), Group("element", 2, Repetition::kOptional),
         Leaf("a", kText, Repetition::kOptional), Leaf("b", kText, Repetition::kOptional)},
        {{.repetitions = {0, 1}, .definitions = {3, 1}, .values = PlainText("a")},
         {.repetitions = repetitions, .definitions = definitions, .values = values}},
        1));
  };
  EXPECT_THAT(refusal({0, 1}, {3, 1}), R"({"m":[{"a":"a","b":"x"},null]})");
  EXPECT_THAT(refusal({0, 1}, {2, 1}), R"({"m":[{"a":"a"},null]})");
  const auto contradicts = HasSubstr("'m.element.b' is damaged: its levels contradict those of");
  EXPECT_THAT(refusal({0, 0}, {3, 1}), contradicts);
  EXPECT_THAT(refusal({0, 1}, {0, 1}), contradicts);
  EXPECT_THAT(refusal({0, 1}, {3, 3}), contradicts);
  EXPECT_THAT(refusal({1, 1}, {3, 1}), contradicts);
  EXPECT_THAT(refusal({0}, {3}), HasSubstr("it has fewer values"));
  EXPECT_THAT(refusal({0, 1, 1}, {3, 1, 1}), HasSubstr("it has values behind the last row"));
}

TEST_F(ParquetRowsTest, SchemasThatAreNoTreesAreRefused) {
  const ParquetPagesForTesting page = {.count = 1, .values = std::string(4, '\0')};
  const auto refusal = [&](const std::vector<SchemaElement>& schema) {
    return Refusal(ParquetOf(schema, {page}, 1));
  };
  const SchemaElement number = Leaf("n", kNumber, Repetition::kRequired);
  EXPECT_THAT(refusal({Group("root", 1, Repetition::kRequired), number}), R"({"n":0})");
  EXPECT_THAT(refusal({Group("root", 2, Repetition::kRequired), number}),
              HasSubstr("x.parquet is damaged: its schema ends early"));
  EXPECT_THAT(refusal({Group("root", 1, Repetition::kRequired), number, number}),
              HasSubstr("its schema has elements behind its end"));
  EXPECT_THAT(
      refusal({Group("root", 1, Repetition::kRequired), Leaf("n", 9, Repetition::kRequired)}),
      HasSubstr("a column of the unknown type 9"));
  EXPECT_THAT(refusal({Group("root", 1, Repetition::kRequired),
                       Leaf("\xff", kNumber, Repetition::kRequired)}),
              HasSubstr("its schema has a name that is not UTF-8"));
  std::vector<SchemaElement> deep(40, Group("g", 1, Repetition::kRequired));
  deep.push_back(number);
  EXPECT_THAT(refusal(deep), HasSubstr("its schema is more than 32 levels deep"));
}

TEST_F(ParquetRowsTest, ARowHasABound) {
  const std::string large(20 << 20, 'x');
  EXPECT_EQ(Rows(ParquetOfTexts({{"a", {large, large}}})).size(), 2u);
  EXPECT_THAT(Rows(ParquetOfTexts({{"a", {"x", large}}, {"b", {"x", large}}})),
              ElementsAre(R"({"a":"x","b":"x"})",
                          HasSubstr("x.parquet:2: column 'b' makes the row larger than 32 MiB")));
}

}  // namespace
}  // namespace muster
