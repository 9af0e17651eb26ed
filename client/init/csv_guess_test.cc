#include "client/init/csv_guess.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/init/table_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(CsvGuessTest, FindsLabelNumbersAndCategories) {
  const auto guess = GuessCsv(Table("id,sex,age,\"fare, paid\",survived,note",
                                    {"1,m,22,7.25,0,a", "2,f,38.5,71.3,1,b", "3,f,,7,1,c"}));
  ASSERT_TRUE(guess.has_value());
  EXPECT_EQ(guess->separator, ',');
  EXPECT_TRUE(guess->header);
  EXPECT_EQ(guess->label, "survived");
  EXPECT_EQ(guess->label_reason, "by its name");
  EXPECT_EQ(guess->classes, 2);
  EXPECT_THAT(guess->numeric, ElementsAre("id", "age", "fare, paid"));
  EXPECT_THAT(guess->categorical, ElementsAre("sex", "note"));
  EXPECT_EQ(guess->records, 30);
}

TEST(CsvGuessTest, LeavesOutColumnsThatNameTheRecords) {
  std::string text = ",passenger_id,name,x,class\n";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&text, i, ",", 1000 + i, ",n", i, ",", i, ".5,", i % 3 == 0 ? "a" : "b", "\n");
  }
  const auto guess = GuessCsv(text);
  ASSERT_TRUE(guess.has_value());
  EXPECT_THAT(guess->left_out, ElementsAre(Pair(ColumnUse::kTellsRecordsApart,
                                                ElementsAre("passenger_id", "name"))));
  EXPECT_THAT(guess->not_nameable, ElementsAre(""));
  EXPECT_THAT(guess->numeric, ElementsAre("x"));
  EXPECT_EQ(guess->label, "class");
}

TEST(CsvGuessTest, MissingValuesMakeNoColumnCategorical) {
  const auto guess = GuessCsv(Table("a,b,c,d,e,y", {"1.5,7,?,u,NA,0", "NA,NaN,2.5,-,2,1",
                                                    "2,null,3.5,v,3,0", "-,None,,n/a,4,1"}));
  ASSERT_TRUE(guess.has_value());
  EXPECT_THAT(guess->numeric, ElementsAre("a", "c", "e"));
  EXPECT_THAT(guess->categorical, ElementsAre("d"));
  // Nothing differs but that some are missing.
  EXPECT_THAT(guess->left_out, ElementsAre(Pair(ColumnUse::kSameEverywhere, ElementsAre("b"))));
  EXPECT_THAT(guess->texts_among_numbers, IsEmpty());
}

TEST(CsvGuessTest, LeavesOutWhatTheseModelsCannotLearnFrom) {
  std::string text = "when,clock,said,price,part,x,y\n";
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&text, "2024-0", i % 9 + 1, "-", i % 28 + 1, ",", i % 24, ":30:00,it was ", i,
                    " of them that came,$", i, ".50,", i % 5 == 0 ? "b1" : absl::StrCat(i % 5), ",",
                    i, ".5,", i % 2, "\n");
  }
  const auto guess = GuessCsv(text);
  ASSERT_TRUE(guess.has_value());
  EXPECT_THAT(guess->left_out, ElementsAre(Pair(ColumnUse::kTimes, ElementsAre("when", "clock")),
                                           Pair(ColumnUse::kFreeText, ElementsAre("said")),
                                           Pair(ColumnUse::kOtherNumbers, ElementsAre("price"))));
  EXPECT_THAT(guess->numeric, ElementsAre("x"));
  EXPECT_THAT(guess->categorical, ElementsAre("part"));
  EXPECT_THAT(guess->texts_among_numbers, ElementsAre(Pair("part", 2)));
}

TEST(CsvGuessTest, TimesAndNumbersInOtherNotations) {
  const auto use = [](const std::string& value) {
    CsvColumn column;
    column.name = "c";
    for (size_t line = 1; line <= 5; ++line) column.Add(value, line);
    column.Add("", 6);
    column.Add("other", 7);
    // Few others make no difference.
    for (size_t line = 8; line < 20; ++line) column.Add(value, line);
    return column.Use();
  };
  for (const char* time :
       {"2024-01-31", "31.1.2024", "1/31/24", "2024-01-31 10:20", "2024-01-31T10:20:30.5Z",
        "2024-01-31T10:20:30+01:00", "9:30", "09:30:15 PM"}) {
    EXPECT_EQ(use(time), ColumnUse::kTimes) << time;
  }
  for (const char* number : {"$5", "7,25", "1,234.5", "12 %", "-5€", "1'000"}) {
    EXPECT_EQ(use(number), ColumnUse::kOtherNumbers) << number;
  }
  for (const char* category : {"20-29", "10+", "5kg", "1.2.3.4", "a/b/c", "$", "%", "3rd", "+"}) {
    EXPECT_EQ(use(category), ColumnUse::kCategorical) << category;
  }
}

TEST(CsvGuessTest, ManyWholeNumbersAreNumbersToPredict) {
  const auto guess = [](int different, int step) {
    std::string text = "x,y\n";
    for (int i = 0; i < 1800; ++i) absl::StrAppend(&text, i, ".5,", i % different * step, "\n");
    return *GuessCsv(text);
  };
  EXPECT_TRUE(guess(901, 1).label_is_number);
  // They can be classes, for those who ask.
  EXPECT_EQ(guess(901, 1).classes, 901);
  EXPECT_EQ(guess(901, 1).different_labels, 901);
  EXPECT_TRUE(guess(1500, 1).label_is_number);
  EXPECT_EQ(guess(1500, 1).classes, 0);
  EXPECT_FALSE(guess(26, 1).label_is_number);
  EXPECT_TRUE(guess(26, 1).label_can_be_number);
  EXPECT_EQ(guess(26, 1).classes, 26);
  // Hundreds would have outputs that no label has.
  EXPECT_TRUE(guess(5, 100).label_is_number);
}

TEST(CsvGuessTest, FindsTheLabelByNamesAndPlaces) {
  const auto guess = [](const std::string& header, const std::vector<std::string>& records,
                        const std::string& label = "") {
    const auto found = GuessCsv(Table(header, records), label);
    return absl::StrCat(found->label, "|", found->label_reason, "|", found->label_refused);
  };
  const std::vector<std::string> records = {"1,5.5,2.5", "0,6,3.5", "1,5,8.5"};
  EXPECT_EQ(guess("a,b,c", records), "c|because it comes last|");
  EXPECT_EQ(guess("a,Target,c", records), "Target|by its name|");
  EXPECT_EQ(guess("", records), "1|because it comes first|");
  EXPECT_EQ(guess("a,b,c", records, "b"), "b|as --predict says|");
  EXPECT_EQ(guess("a,bee,c", records, "be"),
            "||--predict is \"be\", but no column has this name; did you mean \"bee\"?");
  EXPECT_EQ(
      guess("a,c", {"1,x", "2,y", "3,"}, "c"),
      "||--predict names column \"c\", but 10 of the 30 records looked at have no value in it, "
      "line 4 the first; drop these records");
  EXPECT_EQ(guess("class,c", {"x,1", "y,2", "NA,5"}),
            "||column \"class\" looks like the one to predict, but 10 of the 30 records looked at "
            "have no value in it, line 4 the first; drop these records, or name another column: "
            "--predict COLUMN");
  EXPECT_EQ(guess("class,c", {"x,1", "2,2", "y,3"}),
            "c|because it comes last (not \"class\", as line 2 has a text in it, and others have "
            "numbers)|");
  EXPECT_EQ(guess("a,b", {"x,1", "y,?", "x,2"}),
            "a|because it comes first (not \"b\", as 10 of the 30 records looked at have no value "
            "in it, line 3 the first)|");
  EXPECT_EQ(
      guess("a,b", {"1,x", "2,20-29"}, "b"),
      "||--predict names column \"b\", but labels are whole numbers from 0, -1 and +1, or texts "
      "of at most 64 bytes of UTF-8 that do not begin like a number");
  EXPECT_EQ(guess("a,b", {"1,x", "2,x"}, "b"),
            "||--predict names column \"b\", but all records have the same value in it");
}

TEST(CsvGuessTest, OtherSeparatorsAndNoHeader) {
  const auto guess = GuessCsv(Table("", {"5.1;3,5;setosa", "7.0;3,2;versicolor", "6.3;3,3;vi"}));
  ASSERT_TRUE(guess.has_value());
  EXPECT_EQ(guess->separator, ';');
  EXPECT_FALSE(guess->header);
  EXPECT_EQ(guess->label, "3");
  EXPECT_EQ(guess->label_reason, "because it comes last");
  EXPECT_EQ(guess->classes, 3);
  EXPECT_THAT(guess->numeric, ElementsAre("1"));
  EXPECT_EQ(GuessCsv(Table("a\tb\ty", {"1\t2\t0", "2\t1\t1"}))->separator, '\t');
}

TEST(CsvGuessTest, CountsClassesAsReadersDo) {
  EXPECT_EQ(GuessCsv(Table("x,y", {"1.5,0", "2.5,4"}))->classes, 5);
  EXPECT_EQ(GuessCsv(Table("x,y", {"1.5,1", "2.5,4"}))->classes, 4);
  EXPECT_EQ(GuessCsv(Table("x,y", {"1.5,-1", "2.5,1", "2.5,+1"}))->classes, 2);
  // Labels are renumbered where they begin at 1 alone.
  EXPECT_EQ(GuessCsv(Table("x,quality", {"1.5,3", "2.5,8", "2.5,5"}))->classes, 9);
  EXPECT_EQ(GuessCsv(Table("x,y", {"1.5,2", "2.5,3"}))->classes, 4);
}

TEST(CsvGuessTest, LabelsAreWhatTrainingTakes) {
  const auto label = [](const std::vector<std::string>& values) {
    std::vector<std::string> records;
    for (const std::string& value : values) records.push_back(absl::StrCat("1.5,", value));
    return GuessCsv(Table("x,y", records))->label;
  };
  EXPECT_EQ(label({"", "1"}), "");
  EXPECT_EQ(label({"1", "1.0"}), "");
  EXPECT_EQ(label({"1", "none"}), "");
  EXPECT_EQ(label({"yes", "nan"}), "");
  EXPECT_EQ(label({"0-19", "20-29"}), "");
  EXPECT_EQ(label({"a", "\xf6"}), "");
  EXPECT_EQ(label({"a", std::string(65, 'b')}), "");
  EXPECT_EQ(label({"a", std::string(64, 'b')}), "y");
  EXPECT_EQ(label({"young", "20+ or so"}), "y");
  EXPECT_EQ(label({"+", "-"}), "y");
  // Numbers that are no classes are numbers to predict.
  for (const std::vector<std::string>& numbers :
       {std::vector<std::string>{"1.0", "1.5", "2"}, {"-1", "0", "1"}, {"-1", "1", "2"}}) {
    const auto found =
        GuessCsv(Table("x,y", {"1.5," + numbers[0], "1.5," + numbers[1], "1.5," + numbers[2]}));
    EXPECT_EQ(found->label, "y");
    EXPECT_TRUE(found->label_is_number);
    EXPECT_EQ(found->classes, 0);
  }
  // A column is not numeric if training would not take its values as numbers.
  const auto guess = GuessCsv(Table("h,b,y", {"0x1F,1e39,0", "0x2,2,1"}));
  EXPECT_THAT(guess->categorical, ElementsAre("h", "b"));
  EXPECT_EQ(guess->texts_among_numbers.at("b"), 2);
  // Each record has a text of its own: no classes.
  std::string text = "x,name\n";
  for (int i = 0; i < 40; ++i) absl::StrAppend(&text, i, ".5,n", i, "\n");
  EXPECT_EQ(GuessCsv(text)->label, "x");
  EXPECT_THAT(GuessCsv(text, "name")->label_refused,
              HasSubstr("\"name\", but it has 40 different texts in 40 records"));
}

TEST(CsvGuessTest, LeavesOutColumnsThatAJobCannotName) {
  const auto guess = GuessCsv(Table("a,b,a,y,\xf6,y", {"1,2,3,0,7,0", "4,5,6,1,7,1"}));
  ASSERT_TRUE(guess.has_value());
  EXPECT_THAT(guess->not_nameable, ElementsAre("a", "y", "\\xf6"));
  EXPECT_EQ(guess->label, "");
  EXPECT_THAT(guess->numeric, ElementsAre("b"));
  EXPECT_THAT(guess->left_out, IsEmpty());
}

TEST(CsvGuessTest, CountsTheRecordsOfTheRarestClass) {
  EXPECT_EQ(GuessCsv(Table("x,y", {"1.5,a", "2.5,b", "2.5,b"}))->fewest_records, 10);
}

TEST(CsvGuessTest, ReadsRecordsAsTrainingDoes) {
  const std::string table =
      Table("x, \"note\" ,y", {"1.5,\"two\nlines, \"\"quoted\"\"\",0", "2.5,b,1", "?,c,1"});
  auto guess = GuessCsv(table);
  ASSERT_TRUE(guess.has_value());
  EXPECT_EQ(guess->records, 30);
  EXPECT_EQ(guess->label, "y");
  EXPECT_THAT(guess->numeric, ElementsAre("x"));
  EXPECT_THAT(guess->categorical, ElementsAre("note"));
  // Training would stop at such a line, and name it. Here later records count.
  guess = GuessCsv(absl::StrCat(table, "3.5,5\" wide,1\n4.5,b,x\n4.5,b,0\n"), "y");
  ASSERT_TRUE(guess.has_value());
  EXPECT_EQ(guess->records, 32);
  EXPECT_THAT(guess->label_refused, HasSubstr("line 43 has a text in it"));
  EXPECT_FALSE(GuessCsv("a,\"b\n1,2\n").has_value()) << "the quote is never closed";
}

TEST(CsvGuessTest, ProseIsNoTable) {
  EXPECT_FALSE(GuessCsv("One line, and another.\nThe next, with more, of them.\nNone.\n"));
  EXPECT_FALSE(GuessCsv("a,b\n"));
  EXPECT_FALSE(GuessCsv(""));
}

}  // namespace
}  // namespace muster
