// What `muster evaluate` says of a classifier, on both roads and however its layers are divided.

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/integration/written_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string WriteTable(const std::string& name, const std::string& rows) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << "x,sign\n" << rows;
  return path;
}

// Learns the sign of a number, which is easy.
v1::JobSpec SignJob() {
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    absl::StrAppend(&rows, (i % 2 == 0 ? 1 : -1) * (1 + i % 5),
                    i % 2 == 0 ? ",plus\n" : ",minus\n");
  }
  v1::JobSpec spec = ParseJobOrDie(R"pb(
    model { mlp { hidden: 8 classes: 2 } }
    data {
      csv { label: "sign" numeric: "x" }
      holdout: 0.2
    }
    optimizer { name: "adam" learning_rate: 0.05 }
    update { partitions: 4 }
    workers: 2
    batch_size: 16
    micro_batches: 2
    stop { steps: 60 }
    seed: 7
  )pb");
  spec.mutable_data()->mutable_csv()->set_path(WriteTable("signs.csv", rows));
  return spec;
}

// Four of minus, one of which looks like plus, and three of plus, one of which looks like minus. Of
// the twelve pairs, the model has eight in the right order.
std::string MislabelledTable() {
  return WriteTable("mislabelled.csv",
                    "-3,minus\n3,minus\n2,plus\n-2.5,minus\n2.5,plus\n-2,minus\n-2.2,plus\n");
}

// Returns what a command prints with --output json.
nlohmann::json Json(const std::string& command) {
  const CommandResult result = Muster(command + " --output json");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  nlohmann::json json = nlohmann::json::parse(result.output, nullptr, false);
  EXPECT_TRUE(json.is_object()) << result.output;
  return json.is_object() ? json : nlohmann::json::object();
}

struct Division {
  std::string name;
  v1::UpdateSpec::Road road;
  uint32_t tensor = 1;
  uint32_t pipeline = 1;
};

// Trains a job of each division on the cluster, and evaluates it on the table.
void ExpectCountsOfATable(const std::vector<Division>& divisions, const std::string& table) {
  for (const Division& division : divisions) {
    SCOPED_TRACE(division.name);
    v1::JobSpec spec = SignJob();
    spec.set_name(division.name);
    spec.mutable_update()->set_dense(division.road);
    spec.mutable_update()->set_sparse(division.road);
    if (division.road == v1::UpdateSpec::ALL_REDUCE) spec.mutable_update()->clear_partitions();
    spec.mutable_parallelism()->set_tensor(division.tensor);
    spec.mutable_parallelism()->set_pipeline(division.pipeline);
    CommandResult result =
        Muster(absl::StrCat("submit ", WriteJob("signs.textproto", spec), " --watch"));
    ASSERT_EQ(result.exit_code, 0) << result.output;

    const std::string evaluate = absl::StrCat("evaluate ", division.name, " --data ", table);
    result = Muster(evaluate);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("accuracy 0.7143, auc 0.6667, loss "));
    EXPECT_THAT(result.output, HasSubstr("over 7 examples, at clock 60\n"
                                         "\n"
                                         "class  examples  precision  recall      f1\n"
                                         "minus         4     0.7500  0.7500  0.7500\n"
                                         "plus          3     0.6667  0.6667  0.6667\n"
                                         "\n"
                                         "a row for each true class, a column for each predicted "
                                         "one:\n"
                                         "       minus  plus\n"
                                         "minus      3     1\n"
                                         "plus       1     2\n"));
    nlohmann::json json = Json(evaluate + " --metric loss");
    EXPECT_EQ(json["metric"], "loss");
    EXPECT_EQ(json["value"], json["loss"]);
    EXPECT_DOUBLE_EQ(json["auc"].get<double>(), 2.0 / 3);
    EXPECT_EQ(json["confusion"], nlohmann::json::parse("[[3, 1], [1, 2]]"));
    EXPECT_EQ(json["classes"][1]["label"], "plus");
    EXPECT_EQ(json["classes"][1]["examples"], 3);
    EXPECT_DOUBLE_EQ(json["classes"][1]["recall"].get<double>(), 2.0 / 3);
  }
}

// Averages that hardly leave the initial weights do worse than the weights.
TEST(EvaluationTest, AveragesTakeTheWeightsPlace) {
  const std::string folder = ::testing::TempDir() + "/cluster";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --servers 1 --workers 2 --data-dir " + folder).exit_code, 0);
  v1::JobSpec spec = SignJob();
  for (const std::string name : {"averaged", "plain"}) {
    spec.set_name(name);
    spec.mutable_optimizer()->set_average_decay(name == "averaged" ? 0.9999f : 0);
    const CommandResult result =
        Muster(absl::StrCat("submit ", WriteJob("averages.textproto", spec), " --watch"));
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  const double loss = Json("evaluate averaged")["loss"].get<double>();
  EXPECT_EQ(Json("evaluate plain")["loss"].get<double>(), loss);
  EXPECT_GT(Json("evaluate averaged --averaged")["loss"].get<double>(), loss + 0.1);
  const std::string table = WriteTable("unlabelled.csv", "1,plus\n-1,minus\n");
  const std::string out = absl::StrCat(::testing::TempDir(), "/averages");
  const std::string predict = absl::StrCat(" --data ", table, " --out ", out, ".csv");
  EXPECT_EQ(Muster("predict averaged --averaged" + predict).exit_code, 0);
  EXPECT_EQ(Muster("export averaged --averaged --out " + out + ".safetensors").exit_code, 0);
  for (const std::string command : {"evaluate plain", "export plain --out none.safetensors"}) {
    const CommandResult refused = Muster(command + " --averaged");
    EXPECT_NE(refused.exit_code, 0) << command;
    EXPECT_THAT(refused.output, HasSubstr("kept no averages")) << command;
  }
  const CommandResult file = Muster("generate --averaged --prompt a " + out + ".safetensors");
  EXPECT_NE(file.exit_code, 0);
  EXPECT_THAT(file.output, HasSubstr("--averaged takes the averages that a job kept"));
}

TEST(EvaluationTest, CountsOfATableOnBothRoadsHoweverAModelIsDividedExhaustive) {
  const std::string folder = ::testing::TempDir() + "/cluster";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --servers 2 --workers 2 --data-dir " + folder).exit_code, 0);
  ExpectCountsOfATable({{"servers-pipeline", v1::UpdateSpec::PARAMETER_SERVER, 1, 2},
                        {"all-reduce", v1::UpdateSpec::ALL_REDUCE},
                        {"tensor", v1::UpdateSpec::ALL_REDUCE, 2}},
                       MislabelledTable());
}

TEST(EvaluationTest, CountsOfATableOnBothRoadsHoweverAModelIsDivided) {
  const std::string folder = ::testing::TempDir() + "/cluster";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --servers 2 --workers 2 --data-dir " + folder).exit_code, 0);
  const std::string table = MislabelledTable();
  ExpectCountsOfATable({{"servers", v1::UpdateSpec::PARAMETER_SERVER},
                        {"servers-tensor", v1::UpdateSpec::PARAMETER_SERVER, 2},
                        {"pipeline", v1::UpdateSpec::ALL_REDUCE, 1, 2}},
                       table);
  // What the job held out is evaluated as in detail as other data; its own evaluations are not.
  EXPECT_THAT(Muster("evaluate servers").output,
              HasSubstr("over 8 examples, at clock 60\n\nclass"));
  EXPECT_THAT(Muster("status --output json servers").output, Not(HasSubstr("\"confusion\"")));

  v1::JobSpec spec = SignJob();
  spec.set_name("line");
  spec.mutable_model()->mutable_logistic_regression();
  const CommandResult result =
      Muster(absl::StrCat("submit ", WriteJob("line.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const std::string metric : {"auc", "binned_auc"}) {
    nlohmann::json json = Json(absl::StrCat("evaluate line --data ", table, " --metric ", metric));
    EXPECT_EQ(json["auc"], json["value"]) << metric;
    EXPECT_NEAR(json["auc"].get<double>(), 2.0 / 3, metric == "auc" ? 1e-9 : 0.15);
    EXPECT_EQ(json["confusion"], nlohmann::json::parse("[[3, 1], [1, 2]]"));
  }
}

TEST(EvaluationTest, OneClassHasNoAucAndModelsOfNumbersHaveNoClasses) {
  const std::string folder = ::testing::TempDir() + "/one";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(Muster("up --servers 1 --workers 2 --data-dir " + folder).exit_code, 0);
  v1::JobSpec spec = SignJob();
  spec.set_name("signs");
  spec.set_micro_batches(1);
  CommandResult result =
      Muster(absl::StrCat("submit ", WriteJob("one.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string evaluate =
      absl::StrCat("evaluate signs --data ", WriteTable("plus.csv", "2,plus\n3,plus\n"));
  result = Muster(evaluate);
  EXPECT_THAT(result.output, HasSubstr("accuracy 1.0000, loss "));
  EXPECT_THAT(result.output, HasSubstr("minus         0          -       -       -\n"
                                       "plus          2     1.0000  1.0000  1.0000\n"));
  nlohmann::json json = Json(evaluate);
  ASSERT_TRUE(json.contains("auc")) << json;
  EXPECT_TRUE(json["auc"].is_null());
  EXPECT_TRUE(json["classes"][0]["precision"].is_null());

  spec.set_name("numbers");
  spec.mutable_model()->mutable_mlp()->clear_classes();
  spec.mutable_model()->mutable_mlp()->mutable_regression();
  spec.mutable_data()->mutable_csv()->set_label("x");
  spec.mutable_data()->mutable_csv()->set_numeric(0, "y");
  spec.mutable_data()->mutable_csv()->set_path(absl::StrCat(::testing::TempDir(), "/numbers.csv"));
  std::ofstream numbers(spec.data().csv().path());
  numbers << "x,y\n";
  for (int i = 0; i < 40; ++i) numbers << i << "," << 2 * i << "\n";
  numbers.close();
  result = Muster(absl::StrCat("submit ", WriteJob("numbers.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  for (const std::string metric : {"rmse", "mae", "r2"}) {
    result = Muster("evaluate numbers --metric " + metric);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr(metric + " "));
    EXPECT_THAT(result.output, Not(HasSubstr("class")));
  }
  EXPECT_THAT(Muster("evaluate numbers --output json").output, Not(HasSubstr("confusion")));
}

}  // namespace
}  // namespace muster
