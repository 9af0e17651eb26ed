// What a user does with jobs and their checkpoints, command by command, on a cluster of the test's
// own.

#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/bytes_of_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/muster_command.h"
#include "tests/integration/processes_with.h"
#include "tests/integration/written_job.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

using Result = CommandResult;

// On the running cluster: a file that is sorted by label, whose end has one class only. A job goes
// on with smaller batches. Then the file grows, and is not what the job was trained on any more.
void TrainOnASortedFile() {
  const std::string path = ::testing::TempDir() + "/sorted.csv";
  std::ofstream file(path);
  file << "x,y\n";
  for (int i = 0; i < 100; ++i) file << i % 7 << "," << (i < 50 ? 0 : 1) << "\n";
  file.close();
  v1::JobSpec spec = SmallJob();
  spec.mutable_model()->mutable_logistic_regression();
  v1::CsvData& csv = *spec.mutable_data()->mutable_csv();
  csv.set_path(path);
  csv.set_label("y");
  csv.add_numeric("x");
  spec.mutable_data()->set_holdout(0.2);
  spec.mutable_stop()->set_steps(20);
  spec.mutable_evaluation()->set_metric("auc");
  spec.mutable_evaluation()->set_every_steps(10);
  Result result = Muster(absl::StrCat("submit ", WriteJob("sorted.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("auc none"));
  const std::string id = result.output.substr(0, result.output.find('\n'));
  EXPECT_THAT(Muster("events " + id).output,
              HasSubstr("auc has no value: AUC is undefined for 20"));
  result = Muster("evaluate --metric auc " + id);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("auc has no value (AUC is undefined for 20 positive and 0"));
  EXPECT_THAT(result.output, HasSubstr(", loss "));
  result = Muster("evaluate --metric auc --output json " + id);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto measured = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(measured.is_object()) << result.output;
  ASSERT_TRUE(measured.contains("value")) << result.output;
  EXPECT_TRUE(measured["value"].is_null());
  EXPECT_THAT(measured["no_value"].get<std::string>(), HasSubstr("20 positive"));

  // 20 steps of 32 were 8 passes over 80 examples; the ninth takes 10 steps of 8.
  ASSERT_EQ(spec.batch_size(), 32);
  spec.set_resume_from(id);
  spec.set_batch_size(8);
  spec.mutable_stop()->clear_steps();
  spec.mutable_stop()->set_epochs(9);
  result = Muster(absl::StrCat("submit ", WriteJob("smaller.textproto", spec), " --watch"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("step 30/30"));

  std::ofstream(path, std::ios::app) << "3,0\n3,1\n3,0\n3,1\n3,0\n";
  for (const std::string& command :
       {"evaluate " + id, absl::StrCat("checkpoint restore ", id, " --steps 40 --watch")}) {
    result = Muster(command);
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_THAT(result.output, HasSubstr("it had 80 training and 20 held-out examples, slot "));
    EXPECT_THAT(result.output, HasSubstr(" has 84 training and 21 held-out examples"));
  }
  result = Muster(absl::StrCat("evaluate ", id, " --data ", path));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("over 105 examples"));
}

// Runs on the running cluster, where the job has ended.
void FindByLabelAndReadHistory(const std::string& id) {
  EXPECT_THAT(Muster("list --label run=7 --label team").output, HasSubstr(id));
  EXPECT_THAT(Muster("list --label run=8").output, HasSubstr("no such job"));
  Result result = Muster("status " + id);
  EXPECT_THAT(result.output, HasSubstr("run=7, team=vision"));
  EXPECT_THAT(result.output, HasSubstr("times of all steps"));
  const std::string runs = ::testing::TempDir() + "/runs";
  result = Muster(absl::StrCat("tensorboard ", id, " --follow --output json --out ", runs));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto written = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(written.contains("folder")) << result.output;
  const std::string read = ::testing::TempDir() + "/read.txt";
  EXPECT_EQ(std::system(absl::StrCat("/usr/bin/python3 client/tensorboard/read_events.py ",
                                     written["folder"].get<std::string>(), " > ", read)
                            .c_str()),
            0);
  const std::string points = BytesOfFile(read);
  for (const char* tag : {"train/loss 100 ", "slot/1/compute ", "slot/0/step "}) {
    EXPECT_THAT(points, HasSubstr(tag));
  }
}

TEST(JobCommandsTest, AJobsWholeLife) {
  const std::string folder = ::testing::TempDir() + "/cluster";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  const mode_t umask_before = umask(0);
  Result result = Muster("up --servers 2 --workers 2 --data-dir " + folder);
  umask(umask_before);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(Muster("up --data-dir " + folder).exit_code, 1);

  const std::string job = WriteJob("job.textproto", SmallJob());
  result =
      Muster(absl::StrCat("submit ", job, " --set labels.team=vision --set labels.run=7 --watch"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("SUCCEEDED"));
  EXPECT_THAT(result.output, HasSubstr(" (last step)"));
  const std::string id = result.output.substr(0, result.output.find('\n'));

  EXPECT_THAT(Muster("list").output, HasSubstr(id));
  const auto status =
      nlohmann::json::parse(Muster("status --output json " + id).output, nullptr, false);
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status["state"], "SUCCEEDED");
  EXPECT_THAT(Muster("status " + id).output, HasSubstr("accuracy"));
  EXPECT_EQ(Muster("watch " + id).exit_code, 0);
  EXPECT_THAT(Muster("events " + id).output, HasSubstr("succeeded"));
  EXPECT_EQ(Muster("logs " + id).exit_code, 0);
  EXPECT_THAT(Muster("cluster").output, HasSubstr("server-1"));
  EXPECT_THAT(Muster("metrics").output, HasSubstr("muster_"));
  result = Muster("evaluate " + id);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("accuracy"));
  const std::string out = ::testing::TempDir() + "/weights.safetensors";
  EXPECT_EQ(Muster(absl::StrCat("export ", id, " --out ", out)).exit_code, 0);
  EXPECT_GT(std::filesystem::file_size(out), 4u * (20 * 32 + 32 + 32 * 4 + 4));
  FindByLabelAndReadHistory(id);
  TrainOnASortedFile();

  v1::JobSpec diverging = SmallJob();
  diverging.mutable_optimizer()->set_learning_rate(1e30f);
  result = Muster(absl::StrCat("submit ", WriteJob("bad.textproto", diverging), " --watch"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("diverged"));
  EXPECT_EQ(Muster("status no-such-job").exit_code, 2);
  const std::string failed = result.output.substr(0, result.output.find('\n'));
  result = Muster("evaluate " + failed);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("has ended as FAILED and has no checkpoint"));

  result = Muster("cancel " + id);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("has already ended as SUCCEEDED at step 100"));
  result = Muster("delete no-such-job");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("no-such-job"));
  EXPECT_THAT(result.output, HasSubstr("muster list"));
  v1::JobSpec steering = SmallJob();
  steering.set_name("two\nlines");
  result = Muster("submit " + WriteJob("steering.textproto", steering));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("control character U+000A"));

  v1::JobSpec endless = SmallJob();
  endless.mutable_stop()->set_steps(100000000);
  result = Muster("submit " + WriteJob("endless.textproto", endless));
  ASSERT_EQ(result.exit_code, 0);
  const std::string endless_id(absl::StripSuffix(result.output, "\n"));
  EXPECT_EQ(Muster("delete " + endless_id).exit_code, 1);
  EXPECT_THAT(Muster("cancel " + endless_id).output, HasSubstr("CANCELLED"));
  EXPECT_EQ(Muster("watch " + endless_id).exit_code, 3);
  EXPECT_EQ(Muster("cancel " + endless_id).exit_code, 0) << "a repeat";
  EXPECT_EQ(Muster("delete " + endless_id).exit_code, 0);
  EXPECT_EQ(Muster("delete " + endless_id).exit_code, 2);

  EXPECT_EQ(Muster("down --data-dir " + folder).exit_code, 0);
  EXPECT_EQ(ProcessesWith(folder), 0);
  // The coordinator's and the servers' data, logs and checkpoints are for their user alone.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    EXPECT_EQ(static_cast<mode_t>(entry.status().permissions()) & 0077, 0u) << entry.path();
  }
  EXPECT_EQ(Muster("list").exit_code, 4);
  // What was done is still known after a restart.
  ASSERT_EQ(Muster("up --data-dir " + folder).exit_code, 0);
  EXPECT_THAT(Muster("list").output, HasSubstr(id));
  EXPECT_EQ(Muster("down").exit_code, 0);
}

std::string Exported(const std::string& checkpoint) {
  const std::string out = absl::StrCat(::testing::TempDir(), "/exported");
  const Result written = Muster(absl::StrCat("export ", checkpoint, " --force --out ", out));
  EXPECT_EQ(written.exit_code, 0) << written.output;
  const std::string bytes = BytesOfFile(out);
  // The header in front of the values names the job.
  uint64_t header = 0;
  if (bytes.size() < sizeof(header)) return "";
  std::memcpy(&header, bytes.data(), sizeof(header));
  return bytes.substr(sizeof(header) + header);
}

// On the running cluster: a job that is evaluated on other data than it learns, so that its best
// weights are not its last. They are those that the same job has if it ends there.
void KeepTheBest(v1::UpdateSpec::Road road) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_data()->clear_holdout();
  *spec.mutable_validation() = spec.data();
  spec.mutable_validation()->mutable_synthetic_classification()->set_seed(99);
  spec.mutable_update()->set_dense(road);
  spec.mutable_update()->set_sparse(road);
  spec.mutable_evaluation()->set_metric("loss");
  spec.mutable_evaluation()->set_every_steps(5);
  // Where an evaluation comes before the commit of a better one, its checkpoint is made, too, and
  // would be among the last.
  spec.mutable_checkpoint()->set_keep(1);
  Result result = Muster(absl::StrCat("submit ", WriteJob("best.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string id = result.output.substr(0, result.output.find('\n'));
  const std::string best = id + "@best";
  EXPECT_THAT(result.output, HasSubstr(absl::StrCat("`muster export ", best, " --out FILE`")));
  const auto status =
      nlohmann::json::parse(Muster("status --output json " + id).output, nullptr, false);
  ASSERT_TRUE(status.contains("best"));
  const std::string clock = status["best"]["clock"];
  for (const auto& evaluation : status["evaluations"]) {
    EXPECT_GE(evaluation["value"], status["best"]["value"]);
  }
  EXPECT_THAT(Muster("status " + id).output, HasSubstr(absl::StrCat("clock ", clock, ", loss ")));
  EXPECT_THAT(Muster("checkpoint list " + id).output, HasSubstr(clock + " best"));

  spec.mutable_stop()->set_steps(std::stoul(clock));
  spec.clear_evaluation();
  result = Muster(absl::StrCat("submit ", WriteJob("until.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string until = result.output.substr(0, result.output.find('\n'));
  EXPECT_EQ(Exported(best), Exported(until));
  EXPECT_NE(Exported(best), Exported(id));

  EXPECT_THAT(Muster("evaluate " + best).output, HasSubstr(", at clock " + clock));
  EXPECT_THAT(Muster("checkpoint verify " + best).output, HasSubstr(absl::StrCat(id, "@", clock)));
  result = Muster(absl::StrCat("checkpoint restore ", best, " --watch"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  result = Muster("watch " + best);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("`watch` takes a job: leave @CLOCK or @best out"));
  result = Muster("export --out none " + id + "@last");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("write JOB@CLOCK, as in j1@40, JOB@best for"));
  result = Muster("checkpoint delete " + best);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the checkpoint at " + clock));
  EXPECT_THAT(Muster("checkpoint list " + id).output, HasSubstr("100 best"));
}

TEST(JobCommandsTest, CheckpointsAreListedVerifiedDeletedAndGoneOnFrom) {
  const std::string folder = ::testing::TempDir() + "/checkpoints";
  const absl::Cleanup down = [&] { Muster("down --data-dir " + folder); };
  ASSERT_EQ(
      Muster("up --collectives-transport tcp --collectives-connections 2 --data-dir " + folder)
          .exit_code,
      0);
  v1::JobSpec spec = SmallJob();
  spec.mutable_checkpoint()->set_every_steps(50);
  Result result = Muster(absl::StrCat("submit ", WriteJob("kept.textproto", spec), " --watch"));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string id = result.output.substr(0, result.output.find('\n'));

  EXPECT_THAT(Muster("logs " + id).output, HasSubstr(" go by tcp"));
  // An argument of theirs; the supervisor has it as part of one.
  EXPECT_GT(ProcessesWith(std::string(1, '\0') + "--collectives-connections=2"), 0);
  EXPECT_THAT(Muster("checkpoint list " + id).output, HasSubstr("full"));
  const auto list =
      nlohmann::json::parse(Muster("checkpoint list --output json " + id).output, nullptr, false);
  ASSERT_TRUE(list.is_object());
  ASSERT_EQ(list["checkpoints"].size(), 2u);
  EXPECT_EQ(list["checkpoints"][0]["clock"], "50");
  EXPECT_EQ(list["checkpoints"][0]["files"], 4);
  EXPECT_EQ(Muster("checkpoint list no-such-job").exit_code, 2);

  result = Muster("checkpoint verify " + id);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(id + "@100: 5 files"));
  EXPECT_THAT(result.output, HasSubstr("intact"));
  EXPECT_EQ(Muster(absl::StrCat("checkpoint verify ", id, "@7")).exit_code, 2);
  EXPECT_EQ(Muster(absl::StrCat("checkpoint verify ", id, "@x")).exit_code, 2);

  for (const std::string clock : {"50", "100"}) {
    const auto measured = nlohmann::json::parse(
        Muster(absl::StrCat("evaluate ", id, "@", clock, " --output json")).output, nullptr, false);
    ASSERT_TRUE(measured.is_object());
    EXPECT_EQ(measured["clock"], clock);
    EXPECT_EQ(measured["metric"], "accuracy");
    EXPECT_FALSE(measured.contains("training_seconds"));
  }
  EXPECT_THAT(Muster("evaluate --output json " + id).output, HasSubstr("\"clock\":\"100\""));
  EXPECT_THAT(Muster("evaluate " + id).output, HasSubstr(", at clock 100"));
  result = Muster(absl::StrCat("evaluate ", id, "@7"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("it has those at 50, 100"));
  const std::string last = Exported(id);
  EXPECT_EQ(Exported(id + "@100"), last);
  EXPECT_NE(Exported(id + "@50"), last);
  result = Muster(absl::StrCat("export ", id, "@7 --out ", ::testing::TempDir(), "/none"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("it has those at 50, 100"));

  EXPECT_EQ(Muster("checkpoint restore " + id).exit_code, 2) << "all its steps are made";
  result = Muster(absl::StrCat("checkpoint restore ", id, "@50 --watch"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string again = result.output.substr(0, result.output.find('\n'));
  EXPECT_NE(again, id);
  EXPECT_THAT(Muster("checkpoint list " + again).output, HasSubstr(again + "/CLOCK\n"));
  EXPECT_EQ(Muster("evaluate " + again).exit_code, 0) << "a job that went on from another";
  result = Muster(absl::StrCat("checkpoint restore ", id, " --steps 120 --watch"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("SUCCEEDED"));

  // A byte that a disk lost is found, by the file's name.
  const std::string uri = list["checkpoints"][0]["uri"];
  std::string path = uri.substr(uri.find('/'));
  if (absl::StartsWith(path, "//")) path = path.substr(2);
  std::string damaged;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().filename() != "MANIFEST") damaged = entry.path().string();
  }
  ASSERT_NE(damaged, "");
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    const char byte = static_cast<char>(~file.get());
    file.seekp(0);
    ASSERT_TRUE(file.put(byte));
  }
  result = Muster(absl::StrCat("checkpoint verify ", id, "@50"));
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr(damaged.substr(damaged.rfind('/'))));
  EXPECT_THAT(result.output, HasSubstr("1 damaged"));

  EXPECT_EQ(Muster("checkpoint delete " + id).exit_code, 2) << "which one?";
  result = Muster(absl::StrCat("checkpoint delete ", id, "@50"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_FALSE(std::filesystem::exists(path));
  result = Muster(absl::StrCat("checkpoint delete ", id, "@50"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("nothing to delete"));
  EXPECT_EQ(Muster("checkpoint").exit_code, 2);

  KeepTheBest(v1::UpdateSpec::PARAMETER_SERVER);
  KeepTheBest(v1::UpdateSpec::ALL_REDUCE);
}

}  // namespace
}  // namespace muster
