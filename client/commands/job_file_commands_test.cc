// The commands that read or write job files, and what is said of words that a command line has no
// use for.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/commands/shown_for_testing.h"
#include "client/job/job_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = R"(name: digits
model: {mlp: {hidden: [16], classes: 10}}
data: {synthetic_classification: {examples: 1000, features: 8, classes: 10}, holdout: 0.2}
optimizer: {name: sgd, learning_rate: 0.1}
update: {dense: all-reduce, bucket_bytes: 1MiB}
workers: 2
batch_size: 64
stop: {steps: 10}
)";

class RecordingCoordinator final : public v1::JobService::Service {
 public:
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobReply* reply) override {
    submitted.push_back(request->spec());
    reply->set_job_id("j1");
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*,
                      v1::JobStatus* reply) override {
    reply->set_state(v1::RUNNING);
    return grpc::Status::OK;
  }

  std::vector<v1::JobSpec> submitted;
};

// Options and commands as main puts them together.
void AddAll(CLI::App& app, Session& session) {
  app.fallthrough();
  const std::map<std::string, Session::Output> outputs = {{"json", Session::Output::kJson}};
  app.add_option("--output", session.output)->transform(CLI::CheckedTransformer(outputs));
  for (auto add : {AddInit, AddValidate, AddPlan, AddSubmit, AddCompare, AddProve}) {
    add(app, session);
  }
}

class JobFileCommandsTest : public ::testing::Test {
 protected:
  JobFileCommandsTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(file_) << kJob;
  }

  Shown Run(const std::vector<std::string>& words, const std::string& input = "") {
    CLI::App app("", "muster");
    Session session;
    session.coordinator_address = address_;
    AddAll(app, session);
    std::istringstream stream(input);
    std::streambuf* const usual = std::cin.rdbuf(stream.rdbuf());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    Shown shown;
    shown.exit_code = session.exit_code;
    shown.out = testing::internal::GetCapturedStdout();
    shown.error = testing::internal::GetCapturedStderr();
    std::cin.rdbuf(usual);
    return shown;
  }

  const std::string folder_ = testing::TempDir() + "/job_files";
  const std::string file_ = folder_ + "/job.yaml";
  std::string address_;
};

TEST_F(JobFileCommandsTest, ValidateSaysWhatTheJobIsOrWhatIsWrong) {
  const Shown good = Run({"validate", file_});
  EXPECT_EQ(good.exit_code, kSuccess) << good.error;
  EXPECT_EQ(good.out, "OK: digits: mlp, 314 dense parameters; 2 workers, by all-reduce\n");
  EXPECT_EQ(good.error, "");
  EXPECT_EQ(Run({"validate", "--set", "workers=4", file_, "--set", "name=other"}).out,
            "OK: other: mlp, 314 dense parameters; 4 workers, by all-reduce\n");
  const Shown json = Run({"validate", file_, "--output", "json"});
  EXPECT_THAT(json.out, HasSubstr("\"result\": \"OK\""));
  // Errors of the file, of a field's value, and of what the fields mean together.
  for (const auto& [assignment, error] : std::vector<std::pair<std::string, std::string>>{
           {"wokers=1", "did you mean \"workers\"?"},
           {"batch_size=many", "expected a whole number"},
           {"batch_size=1", "at least one example for each of its data ranks, which are 2"},
           {"optimizer.name=sdg", "it must be one of sgd"},
           {"initial_weights=./none", "holds no complete checkpoint"}}) {
    const Shown bad = Run({"validate", file_, "--set", assignment});
    EXPECT_EQ(bad.exit_code, kUsage) << assignment;
    EXPECT_THAT(bad.error, HasSubstr(error)) << assignment;
    EXPECT_EQ(bad.out, "");
  }
}

TEST_F(JobFileCommandsTest, ValidateNamesDataThatIsNotHere) {
  const Shown shown = Run({"validate", "-"},
                          "model: {ngram: {orders: 2, embedding_dim: 4, hidden: 8}}\n"
                          "data: {text: {path: /none/text}}\nworkers: 1\nbatch_size: 8\n"
                          "optimizer: {name: sgd, learning_rate: 0.1}\nstop: {steps: 1}");
  EXPECT_EQ(shown.exit_code, kSuccess);
  EXPECT_THAT(shown.out, HasSubstr("OK: the job: ngram"));
  EXPECT_EQ(shown.error,
            "muster: the job reads /none/text, which is not on this machine; the workers' machines "
            "need it\n");
}

TEST_F(JobFileCommandsTest, AColumnThatATableDoesNotHaveIsNamedBeforeTheJobIsSubmitted) {
  std::ofstream(folder_ + "/table.csv") << "species,length\n0,1.5\n1,2.5\n";
  const std::string file = folder_ + "/table.yaml";
  std::ofstream(file) << "model: {mlp: {hidden: [4], classes: 2}}\n"
                         "data: {csv: {path: table.csv, label: specis, numeric: [length]}}\n"
                         "workers: 1\nbatch_size: 1\n"
                         "optimizer: {name: sgd, learning_rate: 0.1}\nstop: {steps: 1}";
  for (const char* command : {"validate", "plan", "submit"}) {
    const Shown bad = Run({command, file});
    EXPECT_EQ(bad.exit_code, kUsage) << command;
    EXPECT_THAT(bad.error, HasSubstr("table.csv' has no column 'specis' among the 2 of its header; "
                                     "did you mean \"species\"?"))
        << command;
  }
  const Shown good = Run({"validate", file, "--set", "data.csv.label=species"});
  EXPECT_EQ(good.exit_code, kSuccess) << good.error;
}

TEST_F(JobFileCommandsTest, AnExampleWithoutItsDataSaysWhereToLookForIt) {
  const std::string file = folder_ + "/example.yaml";
  std::ofstream(file) << "# Its text is somewhere.\n"
                         "model: {ngram: {orders: 2, embedding_dim: 4, hidden: 8}}\n"
                         "data: {text: {path: none.txt}}\nworkers: 1\nbatch_size: 8\n"
                         "optimizer: {name: sgd, learning_rate: 0.1}\nstop: {steps: 1}";
  EXPECT_THAT(Run({"validate", file}).error,
              AllOf(HasSubstr("/job_files/none.txt, which is not on this machine"),
                    HasSubstr("the comment at the top of " + file +
                              " may say where to get it; "
                              "`--data PATH` names other data")));
  EXPECT_EQ(Run({"validate", file, "--data", file}).error, "");
}

TEST_F(JobFileCommandsTest, ShortNamesOfFieldsAreFoundAndSaid) {
  const Shown shown = Run({"validate", file_, "--set", "lr=0.3", "--set", "workers=4"});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_EQ(shown.error, "muster: --set lr=0.3 sets optimizer.learning_rate\n");
  EXPECT_EQ(Run({"plan", "--effective", file_, "--set", "batch=32"}).error,
            "muster: --set batch=32 sets batch_size\n");
  const Shown ambiguous = Run({"validate", file_, "--set", "every_steps=1"});
  EXPECT_EQ(ambiguous.exit_code, kUsage);
  EXPECT_EQ(ambiguous.error,
            "muster: --set every_steps=1: \"every_steps\" may be evaluation.every_steps or "
            "checkpoint.every_steps or adaptive_batch.every_steps or balance.every_steps; name one "
            "of them\n");
}

TEST_F(JobFileCommandsTest, SubmitReadsStandardInputAndChangesFields) {
  RecordingCoordinator coordinator;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&coordinator);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
  const Shown shown = Run(
      {"submit", "-", "--set", "optimizer.learning_rate=3e-4", "--set", "model.mlp.hidden=[8, 4]"},
      kJob);
  EXPECT_EQ(shown.out, "j1\n") << shown.error;
  ASSERT_EQ(coordinator.submitted.size(), 1u);
  const v1::JobSpec& spec = coordinator.submitted[0];
  EXPECT_EQ(spec.optimizer().learning_rate(), 3e-4f);
  EXPECT_THAT(spec.model().mlp().hidden(), ::testing::ElementsAre(8, 4));
  EXPECT_EQ(spec.update().bucket_bytes(), 1 << 20);
  EXPECT_EQ(spec.update().dense(), v1::UpdateSpec::ALL_REDUCE);
  const Shown bad = Run({"submit", "-"}, "name: a\nwokers: 3\n");
  EXPECT_EQ(bad.exit_code, kUsage);
  EXPECT_EQ(bad.error,
            "muster: standard input:2:1: a job has no field \"wokers\"; did you mean "
            "\"workers\"?\n");
  EXPECT_EQ(coordinator.submitted.size(), 1u);
}

TEST_F(JobFileCommandsTest, PlanPrintsTheWholeJobWhichIsAJobAgain) {
  const Shown shown = Run({"plan", "--effective", file_});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("weight_decay: 0\n"), HasSubstr("keep: 2\n"),
                               HasSubstr("first_bucket_bytes: 1048576\n")));
  v1::JobSpec read, given;
  ASSERT_TRUE(ParseJob(shown.out, "effective", read).ok());
  ASSERT_TRUE(ParseJob(kJob, "given.yaml", given).ok());
  // What the job says is still there.
  v1::JobSpec both = read;
  both.mutable_model()->mutable_mlp()->clear_hidden();
  both.MergeFrom(given);
  EXPECT_EQ(both.DebugString(), read.DebugString());
  EXPECT_EQ(Run({"plan", "--effective", "-"}, shown.out).out, shown.out);
  const Shown json = Run({"plan", "--effective", file_, "--output", "json"});
  v1::JobSpec from_json;
  ASSERT_TRUE(ParseJob(json.out, "a.json", from_json).ok()) << json.out;
  EXPECT_EQ(from_json.optimizer().learning_rate(), 0.1f);
  EXPECT_THAT(Run({"plan", file_}).out, HasSubstr("Memory of each worker"));
}

TEST_F(JobFileCommandsTest, PlanDrawsAPipeline) {
  const std::string out = folder_ + "/pipeline.svg";
  std::filesystem::remove(out);
  std::vector<std::string> words = {
      "plan", file_, "--schedule", "--set", "workers=2", "--set", "parallelism.pipeline=2"};
  const Shown shown = Run(words);
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("LAYER_WISE, 2 stages"), HasSubstr("stage 1  ")));
  words.insert(words.end(), {"--out", out, "--output", "json"});
  EXPECT_THAT(Run(words).out, HasSubstr("\"schedule\": \"LAYER_WISE\""));
  std::ifstream svg(out);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(svg), {}), HasSubstr("<svg xmlns="));
  // Nothing is replaced unasked.
  EXPECT_THAT(Run(words).error, HasSubstr("pipeline.svg is there already"));
  EXPECT_THAT(Run({"plan", file_, "--schedule"}).error, HasSubstr("parallelism.pipeline is 1"));
}

TEST_F(JobFileCommandsTest, InitWritesAJobThatValidates) {
  const std::string data = folder_ + "/flowers.csv";
  std::ofstream(data) << "length,width,species\n1.5,2,a\n2.5,3,b\n3.5,1,c\n1,1,a\n2,2,b\n3,3,c\n"
                         "1.5,2,a\n2.5,3,b\n3.5,1,c\n1,1,a\n2,2,b\n3,3,c\n";
  const std::string out = folder_ + "/flowers.yaml";
  std::filesystem::remove(out);
  const Shown shown = Run({"init", "--data", data, "--model", "mlp", "--out", out});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("flowers.yaml: a job to start from; `muster submit "));
  const std::string predict = "`muster predict flowers --data FILE --out predicted.csv` then ";
  EXPECT_THAT(shown.out, HasSubstr("` trains it\n" + predict));
  EXPECT_THAT(Run({"validate", out}).out, HasSubstr("OK: flowers: mlp, "));
  // Nothing is replaced unasked, and no text by the job that would read it.
  const Shown again = Run({"init", "--data", data, "--out", out});
  EXPECT_EQ(again.exit_code, kUsage);
  EXPECT_THAT(again.error, HasSubstr("flowers.yaml is there already, and no file is replaced"));
  EXPECT_THAT(Run({"validate", out}).out, HasSubstr("OK: flowers: mlp, "));
  EXPECT_EQ(Run({"init", "--data", data, "--model", "logistic_regression", "--force", "--out", out})
                .exit_code,
            kSuccess);
  EXPECT_THAT(Run({"validate", out}).out, HasSubstr("OK: flowers: logistic_regression, "));
  EXPECT_THAT(Run({"init", "--data", out, "--force", "--out", out}).error,
              HasSubstr("is the text to read"));
  EXPECT_THAT(Run({"init", "--data", data, "--out", folder_ + "/a.json"}).error,
              HasSubstr("the name has to end in .yaml"));
  const Shown guessed = Run({"init", "--data", data});
  const std::string& printed = guessed.out;
  EXPECT_EQ(guessed.error, "muster: " + data +
                               " is taken for a table.\n"
                               "  - The column to predict, guessed by its name; 3 classes.\n");
  EXPECT_THAT(printed, HasSubstr("    # The column to predict, guessed by its name; 3 classes.\n"
                                 "    label: species\n"));
  EXPECT_THAT(printed, HasSubstr("\n# `muster submit FILE` trains it;\n# " + predict));
  EXPECT_EQ(Run({"validate", "-"}, printed).exit_code, kSuccess);
}

TEST_F(JobFileCommandsTest, InitSaysOnTheTerminalWhatItLeavesOut) {
  const std::string data = folder_ + "/sales.csv";
  std::ofstream file(data);
  file << "when,shop,price,sold\n";
  for (int i = 0; i < 60; ++i) {
    file << "2024-01-" << i % 28 + 1 << "," << (i % 3 == 0 ? "NA" : "a") << "," << i << ".5,"
         << i * 7 << "\n";
  }
  file.close();
  const Shown shown = Run({"init", "--data", data});
  EXPECT_EQ(shown.exit_code, kSuccess) << shown.error;
  EXPECT_EQ(shown.error,
            "muster: " + data +
                " is taken for a table.\n"
                "  - The column to predict, guessed because it comes last; a number with 60\n"
                "    different values. If they are classes: `muster init --model\n"
                "    logistic_regression`.\n"
                "  - Left out, as dates or times (a column of numbers, such as the weekday or the\n"
                "    days since a date, can be learned from): when\n");
  EXPECT_THAT(shown.out, AllOf(HasSubstr("regression: {}"), HasSubstr("categorical: [shop]"),
                               HasSubstr("metric: rmse")));
  const Shown other = Run({"init", "--data", data, "--predict", "shop"});
  EXPECT_EQ(other.exit_code, kUsage);
  EXPECT_THAT(other.error, HasSubstr("--predict names column \"shop\", but 20 of the 60 records"));
  const std::string text = folder_ + "/words.txt";
  std::ofstream(text) << "Some words.\n";
  EXPECT_THAT(Run({"init", "--data", text, "--predict", "shop"}).error,
              HasSubstr("--predict names a column to predict, but " + text + " is no table"));
}

}  // namespace
}  // namespace muster
