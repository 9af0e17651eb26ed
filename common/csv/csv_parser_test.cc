#include "common/csv/csv_parser.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Records = std::vector<std::vector<std::string>>;

// All records, or the error.
absl::StatusOr<Records> Parse(absl::string_view text, char separator = ',') {
  const std::string path = "f.csv";
  CsvParser parser(text, path, separator);
  Records records;
  std::vector<std::string> fields = {"left", "over", "from", "before"};
  while (true) {
    const absl::StatusOr<bool> more = parser.Next(fields);
    if (!more.ok()) return more.status();
    if (!*more) return records;
    records.push_back(fields);
  }
}

TEST(CsvParserTest, CutsFieldsAndRecords) {
  EXPECT_THAT(Parse("a,b\n1,2\n").value(),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
  EXPECT_THAT(Parse("a,b\r\n1,2").value(),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
  EXPECT_THAT(Parse(",\n,,\n").value(), ElementsAre(ElementsAre("", ""), ElementsAre("", "", "")));
  EXPECT_THAT(Parse(" a , b ").value(), ElementsAre(ElementsAre(" a ", " b ")));
  EXPECT_THAT(Parse("").value(), ElementsAre());
}

TEST(CsvParserTest, SkipsBlankLines) {
  EXPECT_THAT(Parse("\n\r\na\n\n\nb\n\n").value(), ElementsAre(ElementsAre("a"), ElementsAre("b")));
}

TEST(CsvParserTest, SpacesAroundQuotesDoNotCount) {
  EXPECT_THAT(Parse("1, \"New York\" ,\t\"a, b\"  \n \"c\"\r\n").value(),
              ElementsAre(ElementsAre("1", "New York", "a, b"), ElementsAre("c")));
  EXPECT_THAT(Parse("\"a\"\t\t\"b\"\n", '\t').value(), ElementsAre(ElementsAre("a", "", "b")))
      << "a separator is none of them";
}

TEST(CsvParserTest, CutsAtTheSeparatorAskedForAlone) {
  EXPECT_THAT(Parse("a;1,5;\"b;c\"\n", ';').value(), ElementsAre(ElementsAre("a", "1,5", "b;c")));
  EXPECT_THAT(Parse("\t x\t\"\"\r\n", '\t').value(), ElementsAre(ElementsAre("", " x", "")));
  EXPECT_THAT(Parse("a|\"b\"|c", '|').value(), ElementsAre(ElementsAre("a", "b", "c")));
}

TEST(CsvParserTest, QuotedFieldsHoldCommasLineEndsAndQuotes) {
  EXPECT_THAT(Parse("\"a,b\",\"c\nd\"\r\n\"say \"\"hi\"\"\",\"\"\n").value(),
              ElementsAre(ElementsAre("a,b", "c\nd"), ElementsAre("say \"hi\"", "")));
  EXPECT_THAT(Parse("\"\"\"\"").value(), ElementsAre(ElementsAre("\"")));
}

TEST(CsvParserTest, TellsTheTextOfARecordWithoutItsLineEnd) {
  const std::string path = "f.csv";
  CsvParser parser("a,b\r\n\n \"x\ny\" , 2 \r\n\"q\"\"\",\"z\"\r\nlast,\r", path);
  std::vector<std::string> fields;
  std::vector<std::string> texts;
  while (parser.Next(fields).value()) texts.emplace_back(parser.text());
  EXPECT_THAT(texts, ElementsAre("a,b", " \"x\ny\" , 2 ", "\"q\"\"\",\"z\"", "last,\r"));
}

TEST(CsvParserTest, TellsTheLineAndByteThatARecordBeginsOn) {
  const std::string path = "f.csv";
  CsvParser parser("a\n\"x\ny\"\n\nb\n", path);
  std::vector<std::string> fields;
  std::vector<int64_t> lines;
  std::vector<size_t> offsets;
  while (parser.Next(fields).value()) {
    lines.push_back(parser.line());
    offsets.push_back(parser.offset());
  }
  EXPECT_THAT(lines, ElementsAre(1, 2, 5));
  EXPECT_THAT(offsets, ElementsAre(0, 2, 9));
}

TEST(CsvParserTest, NamesTheLineOfABadQuote) {
  const auto open = Parse("a,b\n1,\"2\n3,4\n");
  EXPECT_EQ(open.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(open.status().message()),
              AllOf(HasSubstr("f.csv:2: "), HasSubstr("never closed")));
  const auto inside = Parse("a,b\n1,5\" disk\n");
  EXPECT_EQ(inside.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(inside.status().message()),
              AllOf(HasSubstr("f.csv:2: "), HasSubstr("inside field 2, after 1 character;")));
  const auto after = Parse("a,b\n\"1\" x,2\n");
  EXPECT_EQ(after.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(after.status().message()),
              AllOf(HasSubstr("f.csv:2: "), HasSubstr("closing quote of field 1;")));
}

}  // namespace
}  // namespace muster
