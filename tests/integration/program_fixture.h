#ifndef MUSTER_TESTS_INTEGRATION_PROGRAM_FIXTURE_H_
#define MUSTER_TESTS_INTEGRATION_PROGRAM_FIXTURE_H_

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/process_cluster.h"

namespace muster {

// The lines by which a program talks to its task.
inline constexpr char kProgramTalks[] = R"(
import json, os, signal, socket, sys, time

def call(name, **fields):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["MUSTER_TASK"])
    request = dict(fields, call=name, token=os.environ["MUSTER_TASK_TOKEN"])
    connection.sendall(json.dumps(request).encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n"):
        part = connection.recv(65536)
        if not part:
            os._exit(9)
        answer += part
    return json.loads(answer)

def must(name, **fields):
    answer = call(name, **fields)
    assert answer["ok"], answer
    return answer

rank = int(os.environ["RANK"])
restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
)";

// Counts to 20 from the last checkpoint, and keeps one after each fifth step: `count` of all ranks.
inline constexpr char kProgramCounts[] = R"(
begin = must("resume")
count = 0
if begin["folder"]:
    for other in range(int(os.environ["WORLD_SIZE"])):
        count = int(open(f"{begin['folder']}/sub/count-{other}").read())
    assert count == begin["step"], (count, begin)
print("goes on from", count)
while count < 20:
    count += 1
    at_step(count)
    must("report", step=count, metrics={"loss": 1 / count}, examples=8)
    if count % 5 == 0:
        folder = must("begin_checkpoint", step=count)["folder"]
        os.mkdir(f"{folder}/sub")
        open(f"{folder}/sub/count-{rank}", "w").write(str(count))
        must("commit_checkpoint", step=count)
print("counted to", count)
)";

// Jobs on a cluster of two workers, which all tests of a suite share.
class ProgramTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto cluster = ProcessCluster::Start(
        {.servers = 0, .workers = 2, .slots_per_worker = 2, .allow_programs = true});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = cluster->release();
  }
  static void TearDownTestSuite() { delete cluster_; }

  static v1::JobSpec Job(const std::vector<std::string>& command, uint32_t workers = 2) {
    v1::JobSpec spec;
    spec.set_name("program");
    v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
    for (const std::string& argument : command) program.add_command(argument);
    program.set_memory_bytes(uint64_t{1} << 30);
    program.set_max_restarts(0);
    spec.set_workers(workers);
    return spec;
  }
  static v1::JobSpec Shell(const std::string& script, uint32_t workers = 2) {
    return Job({"sh", "-c", script}, workers);
  }
  // `at_step` is the body of a function of the step, which kProgramCounts calls.
  static v1::JobSpec Python(const std::string& script, uint32_t workers = 2) {
    return Job({"python3", "-c", absl::StrCat(kProgramTalks, script)}, workers);
  }
  static v1::JobSpec Counting(const std::string& at_step) {
    v1::JobSpec spec =
        Python(absl::StrCat("def at_step(step):\n  ", at_step, "\n", kProgramCounts));
    spec.mutable_model()->mutable_program()->set_max_restarts(3);
    return spec;
  }

  static std::string Submit(const v1::JobSpec& spec) {
    const auto id = cluster_->Submit(spec);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or("");
  }
  // Runs a job to its end.
  static v1::JobStatus Run(const v1::JobSpec& spec) { return Watch(Submit(spec)); }
  // Watches a job to its end, and reads its log then.
  static v1::JobStatus Watch(const std::string& id) {
    v1::JobStatus status;
    const absl::Status watched = cluster_->jobs().Watch(
        id, [](const v1::JobStatus&) {}, status);
    EXPECT_TRUE(watched.ok()) << watched;
    last_log_ = Log(id);
    return status;
  }
  static int CountOf(const std::string& text) {
    return static_cast<int>(std::vector<std::string>(absl::StrSplit(last_log_, text)).size()) - 1;
  }
  static std::string Log(const std::string& id) {
    std::string log;
    v1::ReadLogsRequest whole;
    whole.set_job_id(id);
    EXPECT_TRUE(cluster_->jobs()
                    .Logs(whole, [&](absl::string_view text) { absl::StrAppend(&log, text); })
                    .ok());
    return log;
  }
  // Blocks until the job's log has the text.
  static void AwaitLog(const std::string& id, const std::string& text) {
    const auto there = cluster_->Await(
        id, [&](const v1::JobStatus&) { return Log(id).find(text) != std::string::npos; });
    ASSERT_TRUE(there.ok()) << there.status();
  }
  static std::vector<std::string> Events(const std::string& id) {
    v1::ListEventsReply reply;
    EXPECT_TRUE(cluster_->jobs().Events(id, reply).ok());
    std::vector<std::string> texts;
    for (const v1::JobEvent& event : reply.events()) texts.push_back(event.text());
    return texts;
  }

  // Returns the processes whose environment says that they are of the job.
  static std::vector<pid_t> ProcessesOf(const std::string& id) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream file(entry.path() / "environ");
      const std::string environment{std::istreambuf_iterator<char>(file),
                                    std::istreambuf_iterator<char>()};
      if (environment.find(absl::StrCat("MUSTER_JOB=", id, std::string(1, '\0'))) !=
          std::string::npos) {
        found.push_back(std::stoi(name));
      }
    }
    return found;
  }
  static void AwaitNoProcess(const std::string& id) {
    while (!ProcessesOf(id).empty()) absl::SleepFor(absl::Milliseconds(10));
  }

  static inline ProcessCluster* cluster_ = nullptr;
  // The log of the job that Run ran last.
  static inline std::string last_log_;
};

}  // namespace muster

#endif  // MUSTER_TESTS_INTEGRATION_PROGRAM_FIXTURE_H_
