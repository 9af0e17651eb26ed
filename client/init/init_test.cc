// What `muster init` finds in data, and the jobs that it makes for them.
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/init/csv_guess.h"
#include "client/init/found_data.h"
#include "client/init/starter_job.h"
#include "client/job_text/fill_message.h"
#include "client/job_text/parse_yaml.h"
#include "client/job_text/print_yaml.h"
#include "common/files/temp_folder.h"
#include "common/job/job_validator.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/bpe_trainer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// A table of 30 records.
std::string Table(const std::string& header, const std::vector<std::string>& records) {
  std::string text = header.empty() ? "" : absl::StrCat(header, "\n");
  for (int i = 0; i < 30; ++i) absl::StrAppend(&text, records[i % records.size()], "\n");
  return text;
}

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
  // What is no number to training is none of a numeric column.
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

class InitTest : public ::testing::Test {
 protected:
  // The job for data, read back from what is written of it; the test fails where there is none.
  v1::JobSpec Job(const std::string& path, const std::string& model = "",
                  const LookOptions& options = {}) {
    v1::JobSpec spec;
    const auto data = LookAtData(path, options);
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return spec;
    const auto job = MakeStarterJob(*data, model);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return spec;
    const absl::Status valid = ValidateJob(job->spec);
    EXPECT_TRUE(valid.ok()) << valid << job->spec.DebugString();
    const std::string yaml = PrintYaml(job->spec, job->comments);
    const auto root = ParseYaml(yaml, "job");
    EXPECT_TRUE(root.ok() && FillMessage(*root, "job", spec).ok()) << yaml;
    EXPECT_EQ(spec.DebugString(), job->spec.DebugString());
    // Every comment has its place.
    EXPECT_EQ(job->comments.count("stop"), 1);
    for (const auto& [path, comment] : job->comments) {
      EXPECT_THAT(yaml, HasSubstr(comment.substr(0, comment.find('\n')))) << path;
    }
    return spec;
  }
  std::string Write(const std::string& name, const std::string& content) {
    temp_.Write(name, content);
    return absl::StrCat(folder_, "/", name);
  }
  std::string Error(const std::string& path, const std::string& model = "") {
    const auto data = LookAtData(path);
    if (!data.ok()) return std::string(data.status().message());
    return std::string(MakeStarterJob(*data, model).status().message());
  }
  static std::string Packed(const std::string& path, const std::string& content) {
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path;
  }

  const TempFolder temp_;
  // As the system would print it: the folder for tests may end in a slash.
  const std::string folder_ = std::filesystem::path(temp_.path()).lexically_normal().string();
};

TEST_F(InitTest, TextTrainsALanguageModel) {
  const std::string path = Write("a.txt", std::string(100000, 'x'));
  const v1::JobSpec spec = Job(path);
  EXPECT_EQ(spec.name(), "a");
  EXPECT_EQ(spec.data().sequences().path(), path);
  EXPECT_EQ(spec.model().transformer().context(), 128);
  EXPECT_EQ(Job(folder_).data().sequences().path(), folder_);
  EXPECT_EQ(Job(path, "ngram").data().text().path(), path);
  // Sequences of a short one are so short that there are some of them.
  const v1::JobSpec small = Job(Write("b.txt", std::string(200, 'x')));
  EXPECT_LE(small.model().transformer().context() * (small.batch_size() + 1), 200);
}

TEST_F(InitTest, TablesTrainWhatTheirColumnsAllow) {
  const std::string numbers = Write("n.csv", Table("a,b,y", {"1.5,2,0", "2.5,3,1", "1,1,2"}));
  EXPECT_EQ(Job(numbers).model().mlp().classes(), 3);
  EXPECT_EQ(Job(numbers, "logistic-regression").model().logistic_regression().classes(), 3);
  EXPECT_THAT(Error(numbers, "deep_fm"), HasSubstr("is a table (CSV) of 0 columns of categories"));
  const std::string both = Write("b.csv", Table("c,n,y", {"u,2,0", "v,3,1"}));
  const v1::JobSpec spec = Job(both);
  EXPECT_TRUE(spec.model().has_deep_fm());
  EXPECT_THAT(spec.data().csv().categorical(), ElementsAre("c"));
  EXPECT_THAT(spec.data().csv().numeric(), ElementsAre("n"));
  EXPECT_THAT(Job(both, "MLP").data().csv().categorical(), IsEmpty());
  EXPECT_EQ(MakeStarterJob(*LookAtData(both), "mlp")->comments["data.csv.numeric"],
            "Left out, as mlp reads only numbers: c");
  EXPECT_THAT(
      Error(both, "ngram"),
      HasSubstr("which deep_fm and logistic_regression and mlp and linear_regression read"));
  EXPECT_THAT(Error(both, "deepfm"), HasSubstr("did you mean \"deep_fm\"?"));
  const std::string twice = Write("t.csv", Table("a,n,a,y", {"1,2,3,0", "4,5,6,1"}));
  EXPECT_THAT(Job(twice).data().csv().numeric(), ElementsAre("n"));
  EXPECT_EQ(MakeStarterJob(*LookAtData(twice), "")->comments["data.csv.numeric"],
            "Left out, as their names are empty, occur twice or are not UTF-8: a");
  EXPECT_THAT(Error(Write("r.csv", Table("x,w", {"1.5,a b", "1.5,a b"}))),
              HasSubstr("none of its columns can be predicted"));
  EXPECT_THAT(
      Error(Write("s.csv", Table("x,y", {"1.5,a", "2.5,NA"}))),
      HasSubstr("is a table: column \"y\" looks like the one to predict, but 15 of the 30"));
  EXPECT_EQ(Job(Packed(folder_ + "/p.csv.gz", Table("a,y", {"1.5,0", "2,1"}))).name(), "p");
}

TEST_F(InitTest, ATableOfNumbersToPredict) {
  std::string numbers = "rooms,area,price\n";
  std::string both = "rooms,town,price\n";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&numbers, i % 6, ",", i * 3, ".5,", 100 + i * 10, "\n");
    absl::StrAppend(&both, i % 6, ",", i % 2 == 0 ? "a" : "b", ",", 100 + i * 10, "\n");
  }
  const std::string of_numbers = Write("houses.csv", numbers);
  const auto job = MakeStarterJob(*LookAtData(of_numbers), "");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(PrintYaml(job->spec, job->comments),
            absl::StrCat(
                "name: houses\n"
                "model:\n"
                "  mlp:\n"
                "    hidden: [64]\n"
                "    regression: {}\n"
                "data:\n"
                "  csv:\n"
                "    path: ",
                of_numbers,
                "\n"
                "    # The column to predict, guessed because it comes last; a number with 40\n"
                "    # different values. If they are classes: `muster init --model\n"
                "    # logistic_regression`.\n"
                "    label: price\n"
                "    numeric: [rooms, area]\n"
                "  # A tenth of the data, drawn at random, is kept to evaluate on.\n"
                "  holdout: 0.1\n"
                "  shuffle_holdout: true\n"
                "optimizer:\n"
                "  name: adam\n"
                "  learning_rate: 0.01\n"
                "update:\n"
                "  # Or ALL_REDUCE, which needs no servers.\n"
                "  dense: PARAMETER_SERVER\n"
                "# More workers train faster; each takes a slot of the cluster.\n"
                "workers: 1\n"
                "# Examples of one step, over all workers.\n"
                "batch_size: 2\n"
                "# Train longer once the loss falls.\n"
                "stop:\n"
                "  epochs: 20\n"
                "  # Stops early once 5 evaluations in a row are no better than the best before.\n"
                "  patience: 5\n"
                "# Steps between evaluations on what is held out.\n"
                "evaluation:\n"
                "  every_steps: 18\n"
                "  # How far predictions are off, as the root of the mean square, in the unit of\n"
                "  # the column to predict.\n"
                "  metric: rmse\n"
                "seed: 1\n"));
  const auto of_both = MakeStarterJob(*LookAtData(Write("b.csv", both)), "");
  ASSERT_TRUE(of_both.ok()) << of_both.status();
  EXPECT_TRUE(of_both->spec.model().deep_fm().has_regression());
  EXPECT_EQ(of_both->spec.evaluation().metric(), "rmse");
  EXPECT_TRUE(MakeStarterJob(*LookAtData(of_numbers), "linear_regression")
                  ->spec.model()
                  .has_linear_regression());
  // As classes on demand.
  EXPECT_EQ(Job(of_numbers, "logistic_regression").model().logistic_regression().classes(), 491);
  const auto few = MakeStarterJob(*LookAtData(Write("f.csv", Table("x,y", {"1.5,0", "2.5,1"}))),
                                  "linear_regression");
  EXPECT_EQ(few->spec.evaluation().metric(), "rmse");
  const std::string texts = Write("t.csv", Table("x,y", {"1.5,a", "2.5,b"}));
  EXPECT_THAT(Error(texts, "linear_regression"), HasSubstr("column to predict has no numbers"));
}

TEST_F(InitTest, ATableOfWhichNothingIsLeftSaysWhy) {
  std::string text = "when,who,y\n";
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&text, "2024-01-", i % 28 + 1, ",n", i, ",", i % 3 - 1, "\n");
  }
  EXPECT_THAT(Error(Write("t.csv", text)),
              AllOf(HasSubstr("is a table with no column to learn \"y\" from; Left out, as nearly"),
                    HasSubstr(": who; Left out, as dates or times"), HasSubstr(": when")));
  EXPECT_THAT(MakeStarterJob(*LookAtData(Write("s.csv", Table("x,y", {"1,-1", "2,0", "3,1"}))), "")
                  ->notes[0],
              HasSubstr("with 3 different values. If they are classes: number them from 0."));
}

TEST_F(InitTest, EveryGuessThatLosesSomethingIsNotedAndFitsATerminal) {
  std::string text = "id,when,part,shop,x,y\n";
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&text, i, ",2024-01-", i % 28 + 1, ",", i % 5 == 0 ? "b1" : "7", ",s", i % 150,
                    ",", i, ".5,", i % 12, "\n");
  }
  const auto job = MakeStarterJob(*LookAtData(Write("s.csv", text)), "");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(
      job->notes,
      ElementsAre(
          "The column to predict, guessed by its name; 12 classes. If they are rather "
          "numbers: `muster init --model linear_regression`.",
          "Left out, as nearly each record has a value of its own, such as an id or a name: "
          "id",
          AllOf(HasSubstr("Left out, as dates or times"), HasSubstr(": when")),
          "Taken for categories, as line 2 has a text among its numbers (write NA for a "
          "missing number): part",
          "Most of its 150 categories occur so seldom that they teach little: shop"));
  const std::string yaml = PrintYaml(job->spec, job->comments);
  for (const absl::string_view line : absl::StrSplit(yaml, '\n')) {
    if (!absl::StrContains(line, "path: ")) EXPECT_LE(line.size(), 80) << line;
  }
  EXPECT_THAT(yaml, HasSubstr("# Taken for categories"));
}

TEST_F(InitTest, JobsEvaluateWhileTheyTrainAndStopWithPatience) {
  std::string table = "x,y\n";
  for (int i = 0; i < 40000; ++i) absl::StrAppend(&table, i % 100, ".5,", i % 2, "\n");
  const v1::JobSpec spec = Job(Write("even.csv", table));
  // 36,000 examples, 64 a step, 5 epochs.
  EXPECT_EQ(spec.evaluation().every_steps(), 2812 / 20);
  EXPECT_EQ(spec.stop().patience(), 5);
  EXPECT_EQ(spec.evaluation().max_examples(), 0);
  const v1::JobSpec text = Job(Write("t.txt", std::string(2000000, 'x')), "ngram");
  EXPECT_EQ(text.evaluation().every_steps(), 25);
  EXPECT_EQ(text.evaluation().max_examples(), 10000);
  EXPECT_EQ(Job(folder_ + "/t.txt").evaluation().max_examples(), 256);
  // Nothing is held out.
  const v1::JobSpec few = Job(Write("four.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n"));
  EXPECT_FALSE(few.has_evaluation());
  EXPECT_EQ(few.stop().patience(), 0);
}

TEST_F(InitTest, HoldoutsOfTablesAreRandomAndTellOfRareClasses) {
  const auto comments = [this](const std::string& path) {
    EXPECT_TRUE(Job(path).data().shuffle_holdout());
    return MakeStarterJob(*LookAtData(path), "")->comments;
  };
  std::string table = "x,y\n";
  for (int i = 0; i < 40; ++i) absl::StrAppend(&table, i, ".5,", i % 2, "\n");
  EXPECT_EQ(comments(Write("even.csv", table))["data.holdout"],
            "A tenth of the data, drawn at random, is kept to evaluate on.");
  EXPECT_THAT(comments(Write("rare.csv", table + "1,2\n"))["data.holdout"],
              AllOf(HasSubstr("A class has only 1 of the records"), HasSubstr("Another `seed`")));
  // A tenth of four records is none.
  EXPECT_EQ(Job(Write("five.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n5,a\n")).data().holdout(), 0.1);
  const v1::JobSpec few = Job(Write("four.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n"));
  EXPECT_EQ(few.data().holdout(), 0);
  EXPECT_FALSE(few.data().shuffle_holdout());
}

TEST_F(InitTest, PatternsNameTables) {
  const std::string records = Table("x,n,y", {"u,1,0", "v,2,1"});
  Write("part-1.csv", records);
  Write("part-2.csv", records);
  const std::string pattern = folder_ + "/part-*.csv";
  const v1::JobSpec spec = Job(pattern);
  EXPECT_EQ(spec.name(), "part");
  EXPECT_EQ(spec.data().csv().path(), pattern);
  EXPECT_THAT(spec.data().csv().categorical(), ElementsAre("x"));
  EXPECT_EQ(LookAtData(pattern)->examples, 60);
  EXPECT_THAT(MakeStarterJob(*LookAtData(pattern), "")->notes[0],
              HasSubstr("2 classes in the first of 2 files."));
  EXPECT_EQ(Job(folder_ + "/part-{1,2}.csv").data().csv().path(), folder_ + "/part-{1,2}.csv");
  // A name that looks like a pattern is a file's first.
  const std::string odd = Write("a[1].csv", records);
  EXPECT_EQ(Job(odd).data().csv().path(), odd);
  EXPECT_EQ(LookAtData(odd)->files, 1);
  EXPECT_THAT(Error(folder_ + "/none-*.csv"), HasSubstr("No file fits the pattern"));
  EXPECT_THAT(Error(folder_ + "/{x,part-1.csv}"), HasSubstr("/x, which is not a file"));
  Write("prose.txt", "Some words.\n");
  EXPECT_EQ(Job(folder_ + "/*.txt").data().sequences().path(), folder_ + "/*.txt");
  Write("l.svm", "1 1:1\n0 2:1\n");
  EXPECT_THAT(Error(folder_ + "/*.svm"), HasSubstr("/l.svm, is neither a table nor text"));
}

TEST_F(InitTest, NothingButTextIsTakenForText) {
  const std::string lines = "text\nhello\nworld\n";
  EXPECT_THAT(Error(Write("one.csv", lines)), HasSubstr("is named like a table, but is not one"));
  EXPECT_THAT(Error(Packed(folder_ + "/one.TSV.gz", lines)), HasSubstr("is named like a table"));
  EXPECT_TRUE(Job(Write("one.txt", lines)).data().has_sequences());
  const TempFolder tables;
  const std::string folder = std::filesystem::path(tables.path()).lexically_normal().string();
  const std::string remedy = "is a folder of tables; name them by a pattern: --data '";
  tables.Write("part-1.csv", "a,b\n");
  tables.Write("part-2.csv", "a,b\n");
  EXPECT_THAT(Error(folder), HasSubstr(absl::StrCat(remedy, folder, "/*.csv'")));
  tables.Write("part-3.tsv", "a\tb\n");
  EXPECT_THAT(Error(folder), HasSubstr(absl::StrCat(remedy, folder, "/*'")));
  // Among texts a table is one of them.
  tables.Write("README", "What this is.\n");
  EXPECT_TRUE(Job(folder).data().has_sequences());
  tables.Write("z.png", "\x89PNG\r\n\x1a\n");
  EXPECT_THAT(Error(folder), HasSubstr("/z.png' is a PNG image"));
}

TEST_F(InitTest, DocumentsAreNamedAsInspectNamesThem) {
  const std::string texts = "{\"text\": \"a, b\", \"y\": 1}\n{ \"text\": \"c\", \"y\": 0 }\n";
  const v1::SequenceData named = Job(Write("a.txt", texts)).data().sequences();
  EXPECT_EQ(named.path(), folder_ + "/a.txt");
  EXPECT_EQ(named.tokenizer(), "bytes");
  EXPECT_FALSE(named.has_documents());
  EXPECT_EQ(named.packing(), v1::SequenceData::PACKING_UNSPECIFIED);
  EXPECT_TRUE(Job(Packed(folder_ + "/c.jsonl.gz", texts)).data().has_sequences());
  EXPECT_TRUE(Job(folder_ + "/[ac].*").data().has_sequences());
  EXPECT_TRUE(Job(folder_).data().has_sequences());
  EXPECT_TRUE(Job(Write("d.txt", "{braces}\nand text\n")).data().has_sequences());
  EXPECT_TRUE(Job(Packed(folder_ + "/t.gz", "Some text.\n")).data().has_sequences());
  EXPECT_THAT(Error(folder_ + "/c.jsonl.gz", "ngram"),
              HasSubstr("is documents, which transformer"));
  const std::string pairs = Write("p", "{\"prompt\": \"2\", \"completion\": \"4\"}\n");
  EXPECT_EQ(Job(pairs).data().sequences().packing(), v1::SequenceData::WHOLE_DOCUMENTS);
  LookOptions options;
  options.documents.field = "body";
  const std::string other = Write("o", "{\"body\": \"a\"}\n");
  EXPECT_EQ(Job(other, "", options).data().sequences().documents().field(), "body");
  EXPECT_THAT(Error(other), AllOf(HasSubstr("o:1: the line has none"), HasSubstr("--field NAME"),
                                  HasSubstr("jq -r '[.FIELD, .OTHER] | @csv'")));
  EXPECT_THAT(Error(Write("b.json", "[1,\n2]\n")), HasSubstr("/b.json:1: the file is JSON"));
}

TEST_F(InitTest, ChatsAndTokensNeedWhatBelongsToThem) {
  const std::string chats =
      Write("chats",
            "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
            "\"content\": \"b\"}]\n");
  EXPECT_THAT(Error(chats), AllOf(HasSubstr("chats:1: "), HasSubstr("chat template")));
  const TempFolder model;
  BpeTrainer trainer;
  trainer.Add("some words");
  model.Write("tokenizer.json", WriteBpeJson(*trainer.Train(258)));
  model.Write("chat_template.jinja",
              "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
              "{% if add_generation_prompt %}<assistant>{% endif %}");
  LookOptions options;
  options.tokenizer = model.path();
  const v1::SequenceData named = Job(chats, "", options).data().sequences();
  EXPECT_EQ(named.packing(), v1::SequenceData::WHOLE_DOCUMENTS);
  EXPECT_EQ(named.tokenizer(), std::filesystem::absolute(model.path()).lexically_normal());
  const std::string raw = Write("train.bin", std::string("a\0b\0c\0", 6));
  EXPECT_THAT(Error(raw), HasSubstr("say --raw u16"));
  options.documents.raw = "u16";
  EXPECT_EQ(Job(raw, "", options).data().sequences().documents().raw(), "u16");
  const std::string numpy =
      Write("n.npy", std::string("\x93NUMPY\x01\0\x46\0", 10) +
                         "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }           \n" +
                         std::string("a\0b\0", 4));
  EXPECT_THAT(Error(numpy), AllOf(HasSubstr("is a NumPy array of tokens; name the tokenizer"),
                                  HasSubstr("--tokenizer FOLDER")));
}

TEST_F(InitTest, LibsvmAndImages) {
  const v1::JobSpec spec =
      Job(Write("l.libsvm", Table("# made", {"1 1:0.5 7:1", "0 2:1", "2 3:1e-3"})));
  EXPECT_EQ(spec.model().logistic_regression().classes(), 3);
  EXPECT_FALSE(spec.data().libsvm().zero_based());
  EXPECT_TRUE(Job(Write("z", Table("", {"+1 0:1", "-1 4:1"}))).data().libsvm().zero_based());
  // Tabs, too, and examples without features; but not of these alone.
  EXPECT_TRUE(Job(Write("t", "1\t3:1\t4:2\r\n0\n1 # none\n")).data().has_libsvm());
  EXPECT_TRUE(Job(Write("d", "1\n0\n1\n")).data().has_sequences());
  EXPECT_THAT(Error(Write("m", "-1 1:1\n0 2:1\n")), HasSubstr("labels that are not classes"));
  EXPECT_THAT(Error(Write("f", "0.5 1:1\n0 2:1\n")), HasSubstr("labels that are not classes"));
  // By its name a table, of times.
  EXPECT_TRUE(Job(Write("t.tsv", Table("", {"1\t2:30", "0\t4:50"}))).data().has_csv());
  const std::string images("\0\0\x08\x03\0\0\x01\0\0\0\0\x02\0\0\0\x02", 16);
  const std::string path = Packed(folder_ + "/train-images-idx3-ubyte.gz", images);
  EXPECT_THAT(Error(path), HasSubstr("their labels are missing"));
  Packed(folder_ + "/train-labels-idx1-ubyte.gz",
         std::string("\0\0\x08\x01\0\0\x01\0", 8) + "\x0b");
  EXPECT_EQ(Job(path).model().mlp().classes(), 12);
  EXPECT_EQ(Job(folder_).data().idx().images(), path);
  EXPECT_THAT(Error(folder_ + "/train-labels-idx1-ubyte.gz"), HasSubstr("has IDX labels"));
}

TEST_F(InitTest, WhatCannotBeReadIsRefusedByName) {
  EXPECT_THAT(Error(folder_ + "/none"), HasSubstr("there is no "));
  EXPECT_THAT(Error("/dev/null"), HasSubstr("is neither a file nor a folder"));
  EXPECT_THAT(Error(Write("empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(Error(Write("wide", std::string("\xff\xfe"
                                              "a\0",
                                              4))),
              HasSubstr("is text in UTF-16"));
  EXPECT_THAT(Error(Write("raw", std::string("ab\0\0\0", 5))), HasSubstr("Expected plain text"));
  EXPECT_THAT(Error(Packed(folder_ + "/l.gz", "1 1:1\n0 2:1\n")),
              HasSubstr("is libsvm data compressed by gzip; unpack it first"));
  const TempFolder nothing;
  EXPECT_THAT(Error(nothing.path()), HasSubstr("is a folder without a file that has content"));
}

}  // namespace
}  // namespace muster
