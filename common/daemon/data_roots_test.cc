#include "common/daemon/data_roots.h"

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DataRootsTest, WhoListensToOtherMachinesNamesFolders) {
  for (const char* listen :
       {"0.0.0.0:7071", "[::]:7071", "host-a:1", "10.0.0.1:0", "127.example:1"}) {
    const absl::Status status = RootsOfDaemon(listen, {}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << listen;
    EXPECT_THAT(std::string(status.message()), HasSubstr(listen));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--data-root"));
    EXPECT_NE(RootsOfDaemon(listen, {::testing::TempDir()}).value(), nullptr);
  }
  for (const char* listen : {"127.0.0.1:0", "localhost:7071", "[::1]:1"}) {
    EXPECT_EQ(RootsOfDaemon(listen, {}).value(), nullptr) << listen;
    EXPECT_NE(RootsOfDaemon(listen, {::testing::TempDir()}).value(), nullptr);
  }
  EXPECT_FALSE(RootsOfDaemon("127.0.0.1:0", {::testing::TempDir() + "/absent"}).ok());
}

TEST(DataRootsTest, TheFlagIsRepeatedAndHandedOn) {
  std::vector<std::string> folders;
  CLI::App app;
  AddDataRootFlag(app, folders);
  // In the order in which the library takes them off.
  app.parse(std::vector<std::string>{"--data-root=/b", "--data-root=/a"});
  EXPECT_THAT(folders, ElementsAre("/a", "/b"));
  EXPECT_THAT(DataRootArguments(folders), ElementsAre("--data-root=/a", "--data-root=/b"));
}

}  // namespace
}  // namespace muster
