#include "common/files/open_regular_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const std::string& path, absl::StatusCode code, const std::string& what) {
  const auto file = OpenRegularFile(path);
  EXPECT_EQ(file.status().code(), code) << path << ": " << file.status();
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(path));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(what));
}

TEST(OpenRegularFileTest, OpensARegularFileThatProgramsDoNotInherit) {
  const TempFolder folder;
  const auto file = OpenRegularFile(folder.Write("file", "12345"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size, 5u);
  EXPECT_EQ(fcntl(file->descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  close(file->descriptor);
}

// Without O_NONBLOCK the test would wait here for ever.
TEST(OpenRegularFileTest, DoesNotWaitForThePipesWriter) {
  const TempFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ExpectRefused(path, absl::StatusCode::kInvalidArgument, "a named pipe");
}

TEST(OpenRegularFileTest, RefusesWhatHasNoContentThatStays) {
  const TempFolder folder;
  ExpectRefused(folder.path(), absl::StatusCode::kInvalidArgument, "a folder");
  ExpectRefused("/dev/zero", absl::StatusCode::kInvalidArgument, "a device");
  ExpectRefused("/proc/self/status", absl::StatusCode::kInvalidArgument, "of the kernel");
  ExpectRefused("", absl::StatusCode::kInvalidArgument, "empty");
  ExpectRefused(folder.path() + "/absent", absl::StatusCode::kNotFound, "cannot open");
}

}  // namespace
}  // namespace muster
