// The command line itself, against a coordinator with jobs of several names.
#include "client/command_line.h"

#include <grpcpp/grpcpp.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NamedJobs final : public v1::JobService::Service {
 public:
  void Add(const std::string& id, const std::string& name, v1::JobState state) {
    v1::JobStatus& job = jobs_.emplace_back();
    job.set_job_id(id);
    job.mutable_spec()->set_name(name);
    job.set_state(state);
  }

  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsReply* reply) override {
    listed = *request;
    std::vector<v1::JobStatus> jobs = jobs_;
    if (request->newest_first()) std::reverse(jobs.begin(), jobs.end());
    const bool is_id = std::any_of(jobs.begin(), jobs.end(), [&](const v1::JobStatus& job) {
      return job.job_id() == request->job();
    });
    for (const v1::JobStatus& job : jobs) {
      const std::string& called = is_id ? job.job_id() : job.spec().name();
      if (!request->job().empty() && called != request->job()) continue;
      const auto& states = request->states();
      if (!states.empty() && std::count(states.begin(), states.end(), job.state()) == 0) continue;
      if (static_cast<uint32_t>(reply->jobs_size()) == request->page_size()) {
        reply->set_next_page_token("older");
        break;
      }
      *reply->add_jobs() = job;
    }
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::JobStatus* reply) override {
    taken.push_back(request->job_id());
    reply->set_job_id(request->job_id());
    return grpc::Status::OK;
  }
  grpc::Status GetMetrics(grpc::ServerContext*, const v1::GetMetricsRequest*,
                          v1::GetMetricsReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::JobStatus*) override {
    taken.push_back(request->job_id());
    return grpc::Status::OK;
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::GetJobRequest*,
                         v1::DeleteJobReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status DescribeJob(grpc::ServerContext*, const v1::DescribeJobRequest* request,
                           v1::JobStatus* reply) override {
    taken.push_back(request->job_id());
    described = request->description();
    reply->mutable_spec()->set_name("digits");
    return grpc::Status::OK;
  }
  grpc::Status VerifyCheckpoint(grpc::ServerContext*, const v1::CheckpointRequest* request,
                                v1::VerifyCheckpointReply*) override {
    taken.push_back(absl::StrCat(request->job_id(), "@", request->clock()));
    return grpc::Status::OK;
  }
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest* request,
                        grpc::ServerWriter<v1::LogChunk>*) override {
    read = *request;
    return grpc::Status::OK;
  }
  grpc::Status GetCluster(grpc::ServerContext*, const v1::GetClusterRequest*,
                          v1::GetClusterReply* reply) override {
    for (const auto& [id, kind] : {std::pair("server-1", v1::SERVER), {"worker-1", v1::WORKER}}) {
      reply->add_daemons()->set_id(id);
      reply->mutable_daemons()->rbegin()->set_kind(kind);
    }
    return grpc::Status::OK;
  }

  // What commands asked for.
  v1::ListJobsRequest listed;
  v1::ReadLogsRequest read;
  std::string described;
  std::vector<std::string> taken;

 private:
  std::vector<v1::JobStatus> jobs_;
};

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    coordinator_.Add("j1", "digits", v1::SUCCEEDED);
    coordinator_.Add("j2", "digits", v1::RUNNING);
    coordinator_.Add("j3", "digits", v1::FAILED);
    coordinator_.Add("j4", "words", v1::SUCCEEDED);
    coordinator_.Add("j5", "words", v1::CANCELLED);
    coordinator_.Add("j6", "two", v1::PENDING);
    coordinator_.Add("j7", "two", v1::RUNNING);
    coordinator_.Add("j8", "j1", v1::RUNNING);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }

  // What it prints to standard output; fills the others.
  std::string Run(const std::vector<std::string>& words) {
    Session session;
    session.coordinator_address = address_;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    exit_code_ = RunCommandLine(words, session);
    error_ = testing::internal::GetCapturedStderr();
    return testing::internal::GetCapturedStdout();
  }

  // The job that a command took; empty: none.
  std::string Taken(const std::vector<std::string>& words) {
    coordinator_.taken.clear();
    Run(words);
    return coordinator_.taken.empty() ? "" : coordinator_.taken[0];
  }

  // Runs a command of bash; what it prints, errors included.
  std::string Bash(const std::string& script) {
    // As a shell word: it has no quotes of this kind.
    EXPECT_FALSE(absl::StrContains(script, "'"));
    const std::string command = absl::StrCat("bash --norc --noprofile -c '", script, "' 2>&1");
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    while (const size_t read = fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, read);
    EXPECT_EQ(pclose(pipe), 0) << text;
    return text;
  }

  // What bash offers when the tabulator is pressed after these words, as it breaks them.
  std::vector<std::string> Completed(const std::string& words) {
    setenv("MUSTER_COORDINATOR", address_.c_str(), 1);
    const std::string text = Bash(absl::StrCat(
        "source <(client/muster completion bash); COMP_WORDS=(muster ", words,
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _muster; printf \"%s\\n\" \"${COMPREPLY[@]}\""));
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }

  NamedJobs coordinator_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int exit_code_ = 0;
  std::string error_;
};

TEST_F(CommandLineTest, AJobIsTakenByItsIdOrItsName) {
  EXPECT_EQ(Taken({"status", "j3"}), "j3");
  EXPECT_EQ(Taken({"status", "j1"}), "j1") << "an id goes before a name";
  EXPECT_EQ(Taken({"status", "digits"}), "j2") << "the newest that has not ended";
  EXPECT_EQ(Taken({"status", "words"}), "j5") << "the newest";
  EXPECT_EQ(Taken({"status", "two"}), "j7");
  EXPECT_EQ(Taken({"checkpoint", "verify", "words@40"}), "j5@40");
  EXPECT_EQ(Taken({"status", "nobody"}), "");
  EXPECT_EQ(exit_code_, kUsage);
  EXPECT_THAT(error_, HasSubstr("no job has the id or the name \"nobody\""));
}

TEST_F(CommandLineTest, StepsOfARestoredJobCountFromTheFirstJobsStart) {
  for (const char* steps : {"100", "400"}) {
    EXPECT_EQ(Run({"checkpoint", "restore", "j1@400", "--steps", steps}), "");
    EXPECT_EQ(exit_code_, kUsage);
  }
  EXPECT_THAT(error_, HasSubstr("for 400 more steps give --steps 800"));
  Run({"checkpoint", "restore", "j1@400", "--steps", "401"});
  EXPECT_THAT(error_, Not(HasSubstr("more steps"))) << "it is submitted, which this one cannot";
}

TEST_F(CommandLineTest, WhatCannotBeUndoneAsksWhichJobIsMeant) {
  EXPECT_EQ(Taken({"cancel", "digits"}), "j2") << "the others have ended";
  EXPECT_EQ(Taken({"cancel", "words"}), "j5");
  EXPECT_EQ(Taken({"cancel", "two"}), "");
  EXPECT_EQ(exit_code_, kUsage);
  EXPECT_THAT(error_, AllOf(HasSubstr("several jobs are called \"two\""), HasSubstr("j7  RUNNING"),
                            HasSubstr("j6  PENDING")));
  for (const char* name : {"digits", "words"}) {
    EXPECT_EQ(Taken({"delete", name}), "");
    EXPECT_THAT(error_, HasSubstr("several jobs are called"));
    EXPECT_EQ(Taken({"checkpoint", "delete", absl::StrCat(name, "@4")}), "");
    EXPECT_THAT(error_, HasSubstr("several jobs are called"));
  }
  coordinator_.Add("j9", "once", v1::SUCCEEDED);
  EXPECT_EQ(Taken({"delete", "once"}), "j9");
  EXPECT_EQ(Taken({"delete", "j1"}), "j1");
}

TEST_F(CommandLineTest, AJobIsDescribed) {
  EXPECT_EQ(Taken({"describe", "digits", "baseline, lr 0.1"}), "j2");
  EXPECT_EQ(coordinator_.described, "baseline, lr 0.1");
  EXPECT_THAT(Run({"describe", "j2", "two\nlines"}), HasSubstr("j2 (digits) is described"));
  EXPECT_EQ(coordinator_.described, "two\nlines");
  EXPECT_THAT(Run({"describe", "j2", ""}), HasSubstr("has no description any more"));
  EXPECT_EQ(exit_code_, kSuccess);
  EXPECT_EQ(coordinator_.described, "");
  EXPECT_EQ(Taken({"describe", "j2"}), "") << "an empty text must be written";
  EXPECT_EQ(exit_code_, kUsage);
}

TEST_F(CommandLineTest, AListIsAskedForByItsFlags) {
  const std::string all =
      Run({"list", "--state", "running,Failed", "--owner", "ada", "--name", "digits*"});
  EXPECT_EQ(coordinator_.listed.owner(), "ada");
  EXPECT_EQ(coordinator_.listed.name(), "digits*");
  EXPECT_THAT(coordinator_.listed.states(), ElementsAre(v1::RUNNING, v1::FAILED));
  EXPECT_FALSE(coordinator_.listed.newest_first());
  EXPECT_THAT(all, AllOf(HasSubstr("j2"), Not(HasSubstr("older jobs"))));
  EXPECT_EQ(coordinator_.listed.view(), v1::ListJobsRequest::SHORT) << "a table shows no more";
  Run({"--output", "json", "list", "--label", "team=a=b", "--label", "run"});
  EXPECT_EQ(coordinator_.listed.labels_size(), 2);
  EXPECT_EQ(coordinator_.listed.labels().at("team"), "a=b");
  EXPECT_EQ(coordinator_.listed.labels().at("run"), "*");
  EXPECT_NE(coordinator_.listed.view(), v1::ListJobsRequest::SHORT);
  Run({"--output", "json", "list", "--short"});
  EXPECT_EQ(coordinator_.listed.view(), v1::ListJobsRequest::SHORT);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--label", "=a"}, {"--label", "a=b", "--label", "a=c"}}) {
    std::vector<std::string> arguments = {"list"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    Run(arguments);
    EXPECT_THAT(error_, HasSubstr("--label"));
  }
  const std::string some = Run({"list", "--limit", "2", "--page", "p7"});
  EXPECT_EQ(coordinator_.listed.page_token(), "p7");
  EXPECT_LT(some.find("j7"), some.find("j8")) << "the newest comes last";
  EXPECT_THAT(some, AllOf(Not(HasSubstr("j6")), HasSubstr("--limit 2 --page older")));
}

TEST_F(CommandLineTest, APartOfALogIsAskedForByItsFlags) {
  Run({"logs", "j1"});
  EXPECT_FALSE(coordinator_.read.has_slot());
  EXPECT_FALSE(coordinator_.read.has_tail_lines());
  EXPECT_EQ(coordinator_.read.since_ms(), 0);
  Run({"logs", "digits", "--tail", "0", "--slot", "0", "--since", "1h30m", "-f"});
  EXPECT_EQ(coordinator_.read.job_id(), "j2");
  EXPECT_TRUE(coordinator_.read.has_slot());
  EXPECT_TRUE(coordinator_.read.has_tail_lines());
  EXPECT_EQ(coordinator_.read.since_ms(), 5'400'000);
  EXPECT_TRUE(coordinator_.read.follow());
  for (const char* since : {"yesterday", "10", "-5m", "inf"}) {
    Run({"logs", "j1", absl::StrCat("--since=", since)});
    EXPECT_EQ(exit_code_, kUsage) << since;
    EXPECT_THAT(error_, HasSubstr(since));
  }
}

TEST_F(CommandLineTest, AWrongWordIsNamedAndTheRightOneToo) {
  const auto error = [this](const std::vector<std::string>& words) {
    EXPECT_EQ(Run(words), "") << absl::StrJoin(words, " ");
    EXPECT_EQ(exit_code_, kUsage);
    EXPECT_EQ(std::count(error_.begin(), error_.end(), '\n'), 1) << error_;
    return error_;
  };
  EXPECT_THAT(error({"lsit"}), HasSubstr("muster has no command lsit; did you mean list?"));
  EXPECT_THAT(error({"frobnicate"}), HasSubstr("no command frobnicate; `muster help` lists them"));
  EXPECT_THAT(error({"checkpoint", "verfy", "j1"}),
              HasSubstr("muster checkpoint has no command verfy; did you mean verify? `muster help "
                        "checkpoint` lists them"));
  EXPECT_THAT(error({"checkpoint"}), HasSubstr("list, verify, delete or restore"));
  EXPECT_THAT(error({"list", "--sate", "running"}), HasSubstr("did you mean --state?"));
  EXPECT_THAT(error({"list", "--sate=running"}),
              HasSubstr("muster list has no flag --sate; did you mean --state?"));
  EXPECT_THAT(error({"logs", "--tial", "5", "j1"}), HasSubstr("did you mean --tail?"));
  EXPECT_THAT(error({"--cordinator", "x", "list"}), HasSubstr("did you mean --coordinator?"));
  EXPECT_THAT(error({"list", "--state", "runing"}), HasSubstr("did you mean RUNNING?"));
  EXPECT_THAT(error({"export", "j1", "--out", "x", "--format", "hugginface"}),
              HasSubstr("did you mean huggingface? It takes safetensors or huggingface"));
  EXPECT_THAT(error({"--output", "jsn", "list"}), HasSubstr("It takes text or json"));
  EXPECT_THAT(error({"status"}),
              HasSubstr("muster: job is required; `muster help status` shows an example"));
  EXPECT_THAT(error({"status", "j1", "j2"}), HasSubstr("no further argument, but there is \"j2\""));
  EXPECT_THAT(error({"list", "--page", "7"}), HasSubstr("--limit"));
  EXPECT_THAT(error({"list", "--state"}), HasSubstr("muster: --state needs a value; `muster help"));
  EXPECT_THAT(error({"help", "lsit"}), HasSubstr("did you mean list?"));
  EXPECT_THAT(error({"--output", "json", "status"}), HasSubstr("\"code\":\"INVALID_ARGUMENT\""));
}

TEST_F(CommandLineTest, EachCommandsHelpFitsATerminalAndHasAnExample) {
  for (const std::vector<std::string>& command : AllCommands()) {
    std::vector<std::string> words = {"help"};
    words.insert(words.end(), command.begin(), command.end());
    const std::string help = Run(words);
    EXPECT_EQ(exit_code_, kSuccess);
    EXPECT_THAT(help, HasSubstr("Example: ")) << absl::StrJoin(command, " ");
    const std::vector<std::string> lines = absl::StrSplit(help, '\n');
    for (const std::string& line : lines) {
      // Words are never cut.
      const bool one_word = !absl::StrContains(line.substr(line.find_first_not_of(' ') + 1), ' ');
      EXPECT_TRUE(line.size() <= 80 || one_word) << line;
    }
  }
}

TEST_F(CommandLineTest, BashCompletesCommandsAndFlags) {
  std::set<std::string> commands;
  for (const std::vector<std::string>& command : AllCommands()) commands.insert(command[0]);
  const std::vector<std::string> offered = Completed("\"\"");
  EXPECT_EQ(std::set<std::string>(offered.begin(), offered.end()), commands);
  EXPECT_THAT(Completed("stat"), ElementsAre("status"));
  EXPECT_THAT(Completed("checkpoint v"), ElementsAre("verify"));
  EXPECT_THAT(Completed("help checkpoint re"), ElementsAre("restore"));
  EXPECT_THAT(Completed("list --st"), ElementsAre("--state"));
  EXPECT_THAT(Completed("list --coord"), ElementsAre("--coordinator"));
  EXPECT_THAT(Completed("list --state running,pe"), ElementsAre("running,pending"));
  EXPECT_THAT(Completed("list --output = js"), ElementsAre("json"));
  EXPECT_THAT(Completed("export j1 --format h"), ElementsAre("huggingface"));
  EXPECT_THAT(Completed("bench sp"), ElementsAre("sparse"));
  EXPECT_THAT(Completed("list -- --st"), IsEmpty());
  // Names of files, by bash itself.
  EXPECT_THAT(Completed("submit \"\""), IsEmpty());
  EXPECT_THAT(Completed("nonsense st"), IsEmpty());
}

TEST_F(CommandLineTest, BashCompletesJobsAndServersOfTheCluster) {
  coordinator_.Add("j10", "$(touch evil)", v1::RUNNING);
  coordinator_.Add("-j11", "a b", v1::RUNNING);
  EXPECT_THAT(Completed("status \"\""), ElementsAre("j10", "j8", "j1", "j7", "two", "j6", "j5",
                                                    "words", "j4", "j3", "digits", "j2"));
  EXPECT_THAT(Completed("status --collectives w"), ElementsAre("words"));
  EXPECT_THAT(Completed("checkpoint verify di"), ElementsAre("digits"));
  EXPECT_THAT(Completed("drain \"\""), ElementsAre("server-1", "worker-1"));
  // Of the cluster that the line names, and silently where there is none.
  EXPECT_THAT(Completed("--coordinator 127.0.0.1 : 1 status \"\""), IsEmpty());
  EXPECT_THAT(Completed("--data-dir /none status \"\""), IsEmpty());
  EXPECT_THAT(Completed(absl::StrCat("--coordinator=", address_, " status wo")),
              ElementsAre("words"));
}

TEST_F(CommandLineTest, TheScriptsAreWhatTheirShellsRead) {
  EXPECT_EQ(Bash("source <(client/muster completion bash); complete -p muster"),
            "complete -o default -F _muster muster\n");
  EXPECT_THAT(
      Run({"completion", "zsh"}),
      AllOf(HasSubstr("#compdef muster"), HasSubstr("complete zsh"), Not(HasSubstr("PROGRAM"))));
}

}  // namespace
}  // namespace muster
