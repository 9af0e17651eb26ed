// `muster init` finds out what data are, and makes jobs for them.
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/init/found_data.h"
#include "client/init/starter_job.h"
#include "client/init/table_for_testing.h"
#include "common/files/temp_folder.h"
#include "common/job/validation/job_validator.h"
#include "common/job_text/fill_message.h"
#include "common/job_text/parse_yaml.h"
#include "common/job_text/print_yaml.h"
#include "common/parquet/parquet_for_testing.h"
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
  EXPECT_THAT(Error(numbers, "deep_fm"), HasSubstr("is a table of 0 columns of categories"));
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

TEST_F(InitTest, LibffmTrainsWhatItsFieldsAllow) {
  const v1::JobSpec fields = Job(Write("a.ffm", "1 0:3:1 1:7:1\n0 1:7:1 0:4:1\n1 0:3:1\n"));
  EXPECT_TRUE(fields.model().has_deep_fm());
  EXPECT_THAT(fields.data().libffm().path(), HasSubstr("a.ffm"));
  for (const char* text :
       {"1 0:3:0.5\n0 1:7:1\n", "1 0:3:1 0:4:1\n0 1:7:1\n", "2 0:3:1\n0 1:7:1\n"}) {
    EXPECT_TRUE(Job(Write("b.ffm", text)).model().has_logistic_regression()) << text;
  }
  EXPECT_TRUE(
      Job(Write("c.ffm", "-1 0:3:1\n1 1:7:1\n"), "logistic_regression").data().has_libffm());
}

TEST_F(InitTest, ParquetIsDocumentsOrATable) {
  std::vector<std::optional<std::string>> label, number, color, text;
  for (int i = 0; i < 30; ++i) {
    label.push_back(i % 3 == 0 ? "yes" : "no");
    number.push_back(std::to_string(i * 7919 % 100));
    color.push_back(i % 2 == 0 ? "red, light" : "blue");
    text.push_back("a text");
  }
  const std::string table =
      Write("t.parquet", ParquetOfTexts({{"n", number}, {"color", color}, {"label", label}}));
  const v1::JobSpec spec = Job(table);
  EXPECT_EQ(spec.data().csv().label(), "label");
  EXPECT_THAT(spec.data().csv().numeric(), ElementsAre("n"));
  EXPECT_THAT(spec.data().csv().categorical(), ElementsAre("color"));
  EXPECT_FALSE(spec.data().csv().no_header());
  EXPECT_EQ(spec.data().csv().separator(), "");
  EXPECT_TRUE(Job(Write("d.parquet", ParquetOfTexts({{"id", number}, {"text", text}})))
                  .data()
                  .has_sequences());
  LookOptions options;
  options.label = "label";
  EXPECT_TRUE(
      Job(Write("p.parquet", ParquetOfTexts({{"text", color}, {"label", label}})), "", options)
          .data()
          .has_csv());
  EXPECT_THAT(Error(Write("o.parquet", ParquetOfTexts({{"one", number}}))),
              HasSubstr("is a Parquet file, but neither documents nor a table"));
  EXPECT_THAT(Error(Write("cut.parquet", "PAR1 cut off")), HasSubstr("it was cut off"));
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
