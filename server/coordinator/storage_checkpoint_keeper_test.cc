#include "server/coordinator/storage_checkpoint_keeper.h"

#include <string>

#include "common/base/fingerprint.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class StorageCheckpointKeeperTest : public ::testing::Test {
 protected:
  StorageCheckpointKeeperTest() : keeper_(storage_, "/root") {
    v1::TablesSchema schema;
    schema.set_partitions(2);
    request_.mutable_task()->set_job_id("j1");
    request_.mutable_task()->set_generation(3);
    request_.set_clock(10);
    request_.set_schema(schema.SerializeAsString());
    // Replies of servers come in any order, and may name the whole place.
    AddFile(1, "/root/j1/10/p1", "second");
    AddFile(0, "p0", "first");
  }

  void AddFile(uint32_t partition, const std::string& path, const std::string& bytes) {
    v1::CutFile& file = *request_.add_files();
    file.set_partition(partition);
    file.set_path(path);
    file.set_bytes(bytes.size());
    file.set_checksum(Fingerprint(bytes));
    ASSERT_TRUE(WriteFile(storage_, "/root/j1/10/p" + std::to_string(partition), bytes).ok());
  }

  MemoryStorage storage_;
  StorageCheckpointKeeper keeper_;
  v1::CommitCheckpointRequest request_;
};

TEST_F(StorageCheckpointKeeperTest, WritesTheManifest) {
  const auto folder = keeper_.Complete(request_, absl::FromUnixMillis(1234));
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(*folder, "/root/j1/10");
  const v1::CheckpointManifest manifest = *ReadManifest(storage_, *folder);
  EXPECT_EQ(manifest.job_id(), "j1");
  EXPECT_EQ(manifest.generation(), 3);
  EXPECT_EQ(manifest.clock(), 10);
  EXPECT_EQ(manifest.created_unix_ms(), 1234);
  ASSERT_EQ(manifest.files_size(), 2);
  EXPECT_EQ(manifest.files(0).path(), "p0");
  EXPECT_EQ(manifest.files(1).path(), "p1");
  EXPECT_TRUE(VerifyCheckpoint(storage_, *folder).ok());
}

TEST_F(StorageCheckpointKeeperTest, AMissingOrTruncatedFileIsDataLoss) {
  ASSERT_TRUE(WriteFile(storage_, "/root/j1/10/p1", "sec").ok());
  const absl::Status truncated = keeper_.Complete(request_, absl::UnixEpoch()).status();
  EXPECT_EQ(truncated.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(truncated.message()), HasSubstr("job j1 at clock 10"));
  ASSERT_TRUE(storage_.DeleteRecursively("/root/j1/10/p1").ok());
  EXPECT_EQ(keeper_.Complete(request_, absl::UnixEpoch()).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_FALSE(ReadManifest(storage_, "/root/j1/10").ok());
}

TEST_F(StorageCheckpointKeeperTest, RefusesASchemaThatIsNone) {
  request_.set_schema("\xff\xff\xff");
  EXPECT_EQ(keeper_.Complete(request_, absl::UnixEpoch()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(StorageCheckpointKeeperTest, RemovesOneOrAll) {
  const std::string folder = *keeper_.Complete(request_, absl::UnixEpoch());
  EXPECT_TRUE(keeper_.RemoveCheckpoint(folder).ok());
  EXPECT_FALSE(*storage_.Exists(folder));
  ASSERT_TRUE(WriteFile(storage_, "/root/j1/12/p0", "x").ok());
  EXPECT_TRUE(keeper_.RemoveJob("j1").ok());
  EXPECT_FALSE(*storage_.Exists("/root/j1"));
  EXPECT_TRUE(keeper_.RemoveJob("j1").ok());
}

TEST_F(StorageCheckpointKeeperTest, ExportingADamagedCheckpointFails) {
  const std::string folder = *keeper_.Complete(request_, absl::UnixEpoch());
  // These files are no partition files.
  EXPECT_EQ(keeper_.Export(folder, [](absl::string_view) { return absl::OkStatus(); }).code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
