#include "client/job/initial_weights.h"

#include <filesystem>
#include <string>

#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// As the system would print it: the folder for tests may end in a slash.
std::string PathOf(const TempFolder& folder) {
  return std::filesystem::path(folder.path()).lexically_normal().string();
}

TEST(InitialWeightsTest, JobsAndUrisStayAsTheyAre) {
  EXPECT_EQ(*ResolveInitialWeights("j3-abc"), "j3-abc");
  EXPECT_EQ(*ResolveInitialWeights(""), "");
  EXPECT_EQ(*ResolveInitialWeights("file:///on/servers"), "file:///on/servers");
}

TEST(InitialWeightsTest, FoldersOfCheckpointsBecomeAbsolute) {
  const TempFolder folder;
  LocalStorage storage;
  std::filesystem::create_directory(folder.path() + "/w");
  ASSERT_TRUE(WriteManifest(storage, folder.path() + "/w", v1::CheckpointManifest()).ok());
  const std::string relative = std::filesystem::relative(folder.path()).string();
  for (const std::string& name :
       {folder.path() + "/w", folder.path() + "/w/", folder.path() + "/x/../w/", relative + "/w",
        "./" + relative + "/./w/"}) {
    const auto resolved = ResolveInitialWeights(name);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(*resolved, PathOf(folder) + "/w");
  }
}

TEST(InitialWeightsTest, AFolderWithoutACheckpointIsRefused) {
  const TempFolder folder;
  const absl::Status status = ResolveInitialWeights(folder.path() + "/none").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none\", but " + PathOf(folder)));
}

}  // namespace
}  // namespace muster
