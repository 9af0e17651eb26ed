// What a user does with a table: trains a model of it, and has it predict the labels of others.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<std::string>>;

class PredictTest : public testing::Test {
 protected:
  PredictTest() {
    const CommandResult up =
        Muster("up --servers 1 --workers 2 --data-dir " + folder_.path() + "/cluster");
    EXPECT_EQ(up.exit_code, 0) << up.output;
  }
  ~PredictTest() override { Muster("down --data-dir " + folder_.path() + "/cluster"); }

  // Submits and waits; the id.
  std::string Train(const v1::JobSpec& spec) const {
    const CommandResult result = Muster(
        absl::StrCat("submit ", folder_.Write("job.textproto", spec.DebugString()), " --watch"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output.substr(0, result.output.find('\n'));
  }

  // A table of the columns size, city, price and kind.
  std::string WriteTable(const std::string& name, int records) const {
    std::string text = "size,city,price,kind\n";
    for (int i = 0; i < records; ++i) {
      const int size = i * 37 % 100, city = i * 11 % 7;
      absl::StrAppend(&text, size, ",city ", city, ",", size * 3 + city * 20, ",",
                      size + 8 * city > 70 ? "house" : "flat", "\n");
    }
    return folder_.Write(name, text);
  }

  v1::JobSpec Job(const std::string& table, const std::string& model,
                  const std::string& label) const {
    return ParseJobOrDie(absl::StrCat(
        "name: 'table' workers: 2 batch_size: 40 seed: 3 model { ", model,
        " } data { csv { path: '", table, "' label: '", label,
        "' numeric: 'size' categorical: 'city' } holdout: 0.2 } ",
        "optimizer { name: 'adam' learning_rate: 0.05 } ",
        "update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER durability: CHECKPOINT } ",
        "stop { steps: 60 } checkpoint { every_steps: 20 keep: 3 } evaluation { every_steps: 20 "
        "}"));
  }

  static Rows Read(const std::string& path) {
    Rows rows;
    const std::string text = BytesOfFile(path);
    EXPECT_THAT(text, EndsWith("\n"));
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      rows.push_back(absl::StrSplit(line, ','));
    }
    return rows;
  }

  static double Evaluate(const std::string& job, const std::string& table,
                         const std::string& metric) {
    const CommandResult result = Muster(
        absl::StrCat("evaluate ", job, " --data ", table, " --metric ", metric, " --output json"));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return nlohmann::json::parse(result.output, nullptr, false)["value"].get<double>();
  }

  void ExpectRefused(const std::string& arguments, const std::string& why) const {
    const CommandResult result = Muster("predict " + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments << ": " << result.output;
    EXPECT_THAT(result.output, HasSubstr(why)) << arguments;
  }

  const TempFolder folder_;
};

TEST_F(PredictTest, ClassesOfATableAreThoseOfAnEvaluation) {
  const std::string job =
      Train(Job(WriteTable("table.csv", 600), "deep_fm { embedding_dim: 4 hidden: 8 }", "kind"));
  const std::string other = WriteTable("other.csv", 1234);
  const std::string out = folder_.path() + "/predicted.csv";
  const std::string predict = absl::StrCat("predict ", job, " --data ", other, " --out ", out);
  CommandResult result = Muster(predict);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output, out + ": 1,234 rows\n");
  const Rows rows = Read(out);
  ASSERT_EQ(rows.size(), 1235);
  EXPECT_THAT(rows[0], ElementsAre("size", "city", "price", "kind", "predicted", "probability_flat",
                                   "probability_house"));
  int right = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    right += rows[i][3] == rows[i][4];
    EXPECT_NEAR(std::strtod(rows[i][5].c_str(), nullptr) + std::strtod(rows[i][6].c_str(), nullptr),
                1, 1e-6);
  }
  EXPECT_DOUBLE_EQ(right / 1234.0, Evaluate(job, other, "accuracy"));
  EXPECT_GT(right, 1000);

  result = Muster(predict);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr(out + " is there already"), HasSubstr("--force")));
  const std::string before = BytesOfFile(out);
  result = Muster(absl::StrCat("predict ", job, "@20 --data ", other, " --out ", out,
                               " --force --output json"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(nlohmann::json::parse(result.output, nullptr, false),
            (nlohmann::json{{"job_id", job}, {"file", out}, {"examples", "1234"}}));
  EXPECT_NE(BytesOfFile(out), before) << "weights of another clock";
  result =
      Muster(absl::StrCat("predict ", job, "@best --data ", other, " --out ", out, " --force"));
  EXPECT_EQ(result.exit_code, 0) << result.output;

  // A table without labels, and with a city that no training example has.
  const std::string unlabelled = folder_.Write("new.csv", "city,size\ncity 3,50\nelsewhere,2\n");
  result = Muster(absl::StrCat("predict ", job, " --data ", unlabelled, " --out ", out, ".new"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Read(out + ".new").size(), 3);

  const std::string to = " --out " + folder_.path() + "/none.csv";
  ExpectRefused(job + " --data /no/such.csv" + to, "there is no file /no/such.csv");
  ExpectRefused(job + " --data '/no/such*.csv'" + to, "/no/such*.csv");
  ExpectRefused(absl::StrCat(job, "@7 --data ", other, to), "7");
  ExpectRefused(absl::StrCat("no-such-job --data ", other, to), "no-such-job");
  ExpectRefused(absl::StrCat(job, " --data ", folder_.Write("a.csv", "siz,city\n1,b\n"), to),
                "has no column 'size'");
  ExpectRefused(absl::StrCat(job, " --data ", folder_.Write("b.csv", "size,city\n1,b\nx,b\n"), to),
                "b.csv:3");
  ExpectRefused(absl::StrCat(job, " --data ", out, to), "column 'predicted' already");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/none.csv"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
  }
}

TEST_F(PredictTest, NumbersOfATableAreThoseOfAnEvaluation) {
  const std::string job = Train(Job(WriteTable("table.csv", 600), "linear_regression {}", "price"));
  const std::string other = WriteTable("other.csv", 300);
  const std::string out = folder_.path() + "/predicted.csv";
  const CommandResult result = Muster(absl::StrCat("predict table --data ", other, " --out ", out));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const Rows rows = Read(out);
  ASSERT_EQ(rows.size(), 301);
  EXPECT_THAT(rows[0], ElementsAre("size", "city", "price", "kind", "predicted"));
  double squared_errors = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    squared_errors += std::pow(
        std::strtod(rows[i][4].c_str(), nullptr) - std::strtod(rows[i][2].c_str(), nullptr), 2);
  }
  const double rmse = Evaluate(job, other, "rmse");
  EXPECT_NEAR(std::sqrt(squared_errors / 300), rmse, 1e-5 * rmse);
}

TEST_F(PredictTest, JobsOfOtherKindsAreRefusedByName) {
  const std::string table = WriteTable("table.csv", 10);
  const std::string job = Train(SmallJob());
  const std::string arguments = absl::StrCat(" --data ", table, " --out ", folder_.path(), "/x");
  ExpectRefused(job + arguments, absl::StrCat("job ", job, " learns from synthetic data"));
  v1::JobSpec text = ParseJobOrDie(absl::StrCat(
      "workers: 1 batch_size: 4 model { transformer { layers: 1 width: 8 heads: 1 context: 8 } } ",
      "data { sequences { path: '", table, "' tokenizer: 'bytes' } } ",
      "optimizer { name: 'sgd' learning_rate: 0.1 } ",
      "update { dense: PARAMETER_SERVER } stop { steps: 2 }"));
  const std::string language = Train(text);
  ExpectRefused(language + arguments,
                absl::StrCat("job ", language,
                             " trains a transformer, whose predictions are text: "
                             "`muster generate` writes it"));
}

}  // namespace
}  // namespace muster
