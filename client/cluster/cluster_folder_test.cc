#include "client/cluster/cluster_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

ClusterFolder NewFolder(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  return ClusterFolder(path);
}

TEST(ClusterFolderTest, OneSupervisorAtATime) {
  const ClusterFolder folder = NewFolder("lock");
  EXPECT_FALSE(folder.IsRunning());
  ASSERT_TRUE(folder.Prepare().ok());
  auto lock = folder.TakeLock();
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(folder.IsRunning());
  EXPECT_TRUE(absl::IsAlreadyExists(folder.TakeLock().status()));
  lock->reset();
  EXPECT_FALSE(folder.IsRunning());
  EXPECT_TRUE(folder.AwaitStop(absl::ZeroDuration()).ok());
}

TEST(ClusterFolderTest, TellsNeverStartedStoppedAndRunningApart) {
  const ClusterFolder folder = NewFolder("read");
  EXPECT_TRUE(absl::IsNotFound(folder.Read().status()));
  ASSERT_TRUE(folder.Prepare().ok());
  ASSERT_TRUE(folder
                  .Write({.coordinator_address = "127.0.0.1:7",
                          .supervisor_pid = 42,
                          .servers = 2,
                          .workers = 3,
                          .tls = {"/a.pem", "/c.pem", "/c.key"}})
                  .ok());
  EXPECT_TRUE(absl::IsUnavailable(folder.Read().status()));
  const auto lock = folder.TakeLock();
  ASSERT_TRUE(lock.ok());
  const auto cluster = folder.Read();
  ASSERT_TRUE(cluster.ok());
  EXPECT_EQ(cluster->coordinator_address, "127.0.0.1:7");
  EXPECT_EQ(cluster->supervisor_pid, 42);
  EXPECT_EQ(cluster->workers, 3);
  EXPECT_EQ(cluster->tls.authority, "/a.pem");
  EXPECT_EQ(cluster->tls.certificate, "/c.pem");
  EXPECT_EQ(cluster->tls.key, "/c.key");
  std::ofstream(folder.path() + "/cluster.json") << "{\"coordi";
  EXPECT_TRUE(absl::IsDataLoss(folder.Read().status()));
}

TEST(ClusterFolderTest, RemembersPorts) {
  const ClusterFolder folder = NewFolder("ports");
  EXPECT_EQ(folder.ReadPorts().coordinator, 0);
  ASSERT_TRUE(folder.Prepare().ok());
  ASSERT_TRUE(folder.WritePorts({.coordinator = 7001, .page = 7002}).ok());
  EXPECT_EQ(folder.ReadPorts().coordinator, 7001);
  EXPECT_EQ(folder.ReadPorts().page, 7002);
  folder.Forget();
  EXPECT_EQ(folder.ReadPorts().page, 7002) << "the next cluster takes it";
  for (const char* damaged : {"{\"coord", "[7]", "{\"page\": 70000}", "{\"page\": \"7002\"}"}) {
    std::ofstream(folder.path() + "/ports.json") << damaged;
    EXPECT_EQ(folder.ReadPorts().page, 0) << damaged;
  }
}

TEST(ClusterFolderTest, RemembersTheCommandForAlerts) {
  const ClusterFolder folder = NewFolder("alerts");
  EXPECT_EQ(folder.ReadAlertCommand(), "");
  ASSERT_TRUE(folder.Prepare().ok());
  ASSERT_TRUE(folder.WriteAlertCommand("echo 'a\nb' >> told").ok());
  folder.Forget();
  EXPECT_EQ(folder.ReadAlertCommand(), "echo 'a\nb' >> told");
  ASSERT_TRUE(folder.WriteAlertCommand("").ok());
  EXPECT_EQ(folder.ReadAlertCommand(), "");
}

TEST(ClusterFolderTest, FindsTheClustersThatRun) {
  const std::string home = NewFolder("home").path();
  setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(RunningClusters(), std::vector<std::string>());
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<ClusterFolder::Lock>> locks;
  for (const char* name : {"b", "a", "c"}) {
    const ClusterFolder folder = NewFolder(std::string("runs_") + name);
    ASSERT_TRUE(folder.Prepare().ok());
    auto lock = folder.TakeLock();
    ASSERT_TRUE(lock.ok());
    locks.push_back(*std::move(lock));
    paths.push_back(folder.path());
    ASSERT_TRUE(SetCurrentClusterFolder(folder.path()).ok());
  }
  EXPECT_EQ(CurrentClusterFolder(), paths[2]);
  EXPECT_EQ(RunningClusters(), (std::vector<std::string>{paths[1], paths[0], paths[2]}));
  locks[1].reset();
  EXPECT_EQ(RunningClusters(), (std::vector<std::string>{paths[0], paths[2]}));
}

TEST(ClusterFolderTest, SaysWhatCannotBeMade) {
  const absl::Status status = ClusterFolder("/proc/nowhere").Prepare();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("/proc/nowhere"), absl::string_view::npos);
}

}  // namespace
}  // namespace muster
