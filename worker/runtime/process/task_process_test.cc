// The test's own binary is the child: its arguments say how it behaves.
#include "worker/runtime/process/task_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/text/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/process/framed_message.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kChild[] = "--child";

// What the child does with its order.
int RunChild(const std::string& behaviour) {
  absl::StatusOr<std::string> bytes = ReadFrame(kControlDescriptor, 1 << 20);
  v1::TaskOrder order;
  if (!bytes.ok() || !order.ParseFromString(*bytes)) return 90;
  if (behaviour == "result") {
    std::printf("output of slot %u\n", order.slot());
    std::fprintf(stderr, "and an error\n");
    std::fflush(nullptr);
    v1::TaskReport report;
    report.set_job_id(order.job_id());
    report.set_state(v1::TaskReport::ENDED);
    report.set_code(3);
    report.set_message("batch_size is 0");
    return WriteFrame(kControlDescriptor, report.SerializeAsString()).ok() ? 0 : 91;
  }
  if (behaviour == "descriptors") {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::atoi(entry.path().filename().c_str());
      // The iteration itself holds one.
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
      if (fd > kControlDescriptor && target.find("/fd") == std::string::npos) {
        std::printf("open: %d -> %s\n", fd, target.c_str());
      }
    }
    std::printf("threads %s\n", std::getenv("OMP_NUM_THREADS"));
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, nullptr, &blocked);
    std::printf("term blocked %d\n", sigismember(&blocked, SIGTERM));
    return 0;
  }
  if (behaviour == "slow text") {
    // Each byte of a character on its own, and one that never is completed.
    for (const char byte : std::string("a\xe2\x82\xac\xf0\x9f\x98\x80z\xe2\x82")) {
      if (write(STDOUT_FILENO, &byte, 1) != 1) return 92;
      // Until the reader has it: the pipe is empty.
      int unread = 1;
      while (unread > 0 && ioctl(STDOUT_FILENO, FIONREAD, &unread) == 0) sched_yield();
    }
    return 0;
  }
  if (behaviour == "stop") {
    for (int sign = 0; sign < 3; ++sign) {
      if (!WriteFrame(kControlDescriptor, "").ok()) return 91;
    }
    raise(SIGSTOP);
  }
  if (behaviour == "signs") {
    for (int sign = 0; sign < 3; ++sign) {
      if (!WriteFrame(kControlDescriptor, "").ok()) return 91;
    }
    v1::TaskReport report;
    report.set_state(v1::TaskReport::ENDED);
    report.set_code(4);
    return WriteFrame(kControlDescriptor, report.SerializeAsString()).ok() ? 0 : 91;
  }
  if (behaviour == "crash") std::abort();
  if (behaviour == "wait") {
    // Until the control socket closes.
    ReadFrame(kControlDescriptor, 1).IgnoreError();
    return 0;
  }
  if (behaviour == "end in grace" || behaviour == "end with socket") {
    char byte = 0;
    if (read(kControlDescriptor, &byte, 1) != 1 || byte != kStopByte) return 93;
    if (behaviour == "end with socket" && read(kControlDescriptor, &byte, 1) != 0) return 94;
    v1::TaskReport report;
    report.set_state(v1::TaskReport::ENDED);
    return WriteFrame(kControlDescriptor, report.SerializeAsString()).ok() ? 0 : 91;
  }
  return 17;
}

class TaskProcessTest : public ::testing::Test {
 protected:
  std::unique_ptr<TaskProcess> Start(const std::string& behaviour,
                                     absl::optional<absl::Duration> grace = absl::nullopt,
                                     absl::Duration silence = absl::InfiniteDuration()) {
    v1::TaskOrder order;
    order.set_job_id("job");
    order.set_generation(2);
    order.set_slot(5);
    order.set_incarnation(7);
    TaskProcessOptions options;
    options.arguments = {kChild, behaviour};
    options.environment = {"OMP_NUM_THREADS=3"};
    options.grace = grace;
    options.silence = silence;
    options.output = [this](absl::string_view text) {
      absl::StrAppend(&output_, text);
      pieces_.emplace_back(text);
    };
    options.ended = [this](const v1::TaskReport& report) {
      report_ = report;
      ended_.Notify();
    };
    return TaskProcess::Start(order, std::move(options)).value();
  }

  // Written by the process's thread, read after ended_.
  std::string output_;
  std::vector<std::string> pieces_;
  v1::TaskReport report_;
  absl::Notification ended_;
};

TEST_F(TaskProcessTest, ReturnsTheResultAndTheOutput) {
  auto process = Start("result");
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::ENDED);
  EXPECT_EQ(report_.job_id(), "job");
  EXPECT_EQ(report_.code(), 3);
  EXPECT_EQ(report_.message(), "batch_size is 0");
  EXPECT_THAT(output_, HasSubstr("output of slot 5\n"));
  EXPECT_THAT(output_, HasSubstr("and an error\n"));
}

TEST_F(TaskProcessTest, OutputComesInWholeCharacters) {
  auto process = Start("slow text");
  ended_.WaitForNotification();
  EXPECT_EQ(output_, "a\xe2\x82\xac\xf0\x9f\x98\x80z\xe2\x82\n");
  // All but the last, which the end leaves as it is; then it ends the line.
  ASSERT_GE(pieces_.size(), 2u);
  EXPECT_EQ(pieces_.back(), "\n");
  pieces_.pop_back();
  EXPECT_EQ(pieces_.back(), "\xe2\x82");
  pieces_.pop_back();
  for (const std::string& piece : pieces_) EXPECT_TRUE(IsUtf8(piece)) << piece;
}

TEST_F(TaskProcessTest, InheritsNothingButItsOwnDescriptors) {
  // Not close-on-exec, as a careless library's might be.
  const int careless = open("/dev/null", O_RDONLY);
  ASSERT_GE(careless, 0);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  auto process = Start("descriptors");
  ended_.WaitForNotification();
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  close(careless);
  EXPECT_EQ(output_, "threads 3\nterm blocked 0\n");
}

TEST_F(TaskProcessTest, ADeathWithoutAResultNamesTheSignal) {
  auto process = Start("crash");
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::DIED);
  EXPECT_EQ(report_.job_id(), "job");
  EXPECT_EQ(report_.generation(), 2);
  EXPECT_EQ(report_.slot(), 5);
  EXPECT_EQ(report_.incarnation(), 7);
  EXPECT_THAT(report_.message(), HasSubstr("signal 6 (Aborted)"));
}

TEST_F(TaskProcessTest, ADeathWithoutAResultNamesTheStatus) {
  auto process = Start("leave");
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::DIED);
  EXPECT_THAT(report_.message(), HasSubstr("ended with status 17"));
}

TEST_F(TaskProcessTest, KillEndsIt) {
  auto process = Start("wait");
  process->Kill();
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::DIED);
  EXPECT_THAT(report_.message(), HasSubstr("signal 9 (Killed)"));
  process->Kill();
}

TEST_F(TaskProcessTest, AStoppedProcessIsSilentAndIsKilled) {
  auto process = Start("stop", absl::nullopt, absl::Milliseconds(10));
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::DIED);
  EXPECT_THAT(report_.message(), HasSubstr("no sign of life for 10ms"));
}

TEST_F(TaskProcessTest, TheResultFollowsSignsOfLife) {
  auto process = Start("signs");
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::ENDED);
  EXPECT_EQ(report_.code(), 4);
}

TEST_F(TaskProcessTest, DestructionLeavesNoProcess) {
  auto process = Start("wait");
  const pid_t pid = process->pid();
  process.reset();
  EXPECT_TRUE(ended_.HasBeenNotified());
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(TaskProcessTest, DestructionGivesATaskItsGrace) {
  auto process = Start("end in grace", absl::Hours(1));
  process.reset();
  EXPECT_EQ(report_.state(), v1::TaskReport::ENDED) << report_.message();
}

TEST_F(TaskProcessTest, AfterItsGraceATaskSeesTheSocketEndBeforeItIsKilled) {
  // Its grace is over at once.
  auto process = Start("end with socket", -absl::InfiniteDuration());
  process->Kill();
  ended_.WaitForNotification();
  EXPECT_EQ(report_.state(), v1::TaskReport::ENDED) << report_.message();
}

TEST_F(TaskProcessTest, AProgramThatIsNotThereIsAnError) {
  TaskProcessOptions options;
  options.program = "/no/such/program";
  absl::Status status = TaskProcess::Start(v1::TaskOrder(), std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/program: No such file"));
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], muster::kChild) == 0) return muster::RunChild(argv[2]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
