#include "server/coordinator/checkpoints/storage_checkpoint_archive.h"

#include <sys/resource.h>

#include <csignal>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/partition_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job_service.pb.h"
#include "proto/schema.pb.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class StorageCheckpointArchiveTest : public ::testing::Test {
 protected:
  StorageCheckpointArchiveTest() : archive_(storage_, "/root"), request_(Cut(10, std::nullopt)) {}

  // Writes the files of a cut.
  v1::CommitCheckpointRequest Cut(uint64_t clock, std::optional<uint64_t> base) {
    v1::CommitCheckpointRequest request;
    v1::TablesSchema schema;
    schema.set_partitions(2);
    request.mutable_task()->set_job_id("j1");
    request.mutable_task()->set_generation(3);
    request.set_clock(clock);
    request.set_schema(schema.SerializeAsString());
    const std::string folder = CheckpointFolder("/root", "j1", clock);
    // Replies of servers come in any order, and may name the whole place.
    for (uint32_t partition : {1, 0}) {
      v1::PartitionFileHeader header;
      header.set_job_id("j1");
      header.set_partition(partition);
      header.set_clock(clock);
      if (base.has_value()) header.set_base_clock(*base);
      const std::string name = "p" + std::to_string(partition);
      auto writer = PartitionFileWriter::Create(storage_, folder, name, header);
      EXPECT_TRUE(writer.ok()) << writer.status();
      const auto info = (*writer)->Finish();
      EXPECT_TRUE(info.ok()) << info.status();
      v1::CutFile& file = *request.add_files();
      file.set_partition(partition);
      file.set_path(partition == 1 ? JoinUri(folder, name) : name);
      file.set_bytes(info->bytes);
      file.set_checksum(info->checksum);
    }
    return request;
  }

  MemoryStorage storage_;
  StorageCheckpointArchive archive_;
  v1::CommitCheckpointRequest request_;
};

TEST_F(StorageCheckpointArchiveTest, WritesTheManifest) {
  request_.set_data_preparation("preparation");
  const auto completed = archive_.Complete(request_, absl::FromUnixMillis(1234));
  ASSERT_TRUE(completed.ok()) << completed.status();
  const std::string folder = completed->folder;
  EXPECT_EQ(folder, "/root/j1/10");
  EXPECT_FALSE(completed->base_clock.has_value());
  const v1::CheckpointManifest manifest = *ReadManifest(storage_, folder);
  EXPECT_EQ(manifest.job_id(), "j1");
  EXPECT_EQ(manifest.generation(), 3);
  EXPECT_EQ(manifest.clock(), 10);
  EXPECT_EQ(manifest.created_unix_ms(), 1234);
  EXPECT_EQ(manifest.data_preparation(), "preparation");
  EXPECT_EQ(archive_.DataPreparation(folder).value(), "preparation");
  EXPECT_EQ(archive_.DataPreparation("/root/j1/11").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(manifest.files_size(), 2);
  EXPECT_EQ(manifest.files(0).path(), "p0");
  EXPECT_EQ(manifest.files(1).path(), "p1");
  EXPECT_TRUE(VerifyCheckpoint(storage_, folder).ok());
}

TEST_F(StorageCheckpointArchiveTest, AMissingOrTruncatedFileIsDataLoss) {
  ASSERT_TRUE(ReplaceFile(storage_, "/root/j1/10/p1", "sec").ok());
  const absl::Status truncated = archive_.Complete(request_, absl::UnixEpoch()).status();
  EXPECT_EQ(truncated.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(truncated.message()), HasSubstr("job j1 at clock 10"));
  ASSERT_TRUE(storage_.DeleteRecursively("/root/j1/10/p1").ok());
  EXPECT_EQ(archive_.Complete(request_, absl::UnixEpoch()).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_FALSE(ReadManifest(storage_, "/root/j1/10").ok());
}

TEST_F(StorageCheckpointArchiveTest, RanksWriteOneFileEach) {
  v1::TablesSchema schema;
  schema.set_partitions(8);
  request_.set_schema(schema.SerializeAsString());
  EXPECT_TRUE(absl::IsInvalidArgument(archive_.Complete(request_, absl::UnixEpoch()).status()))
      << "files of partitions are missing";
  request_.set_rank_files(3);
  const absl::Status missing = archive_.Complete(request_, absl::UnixEpoch()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("2 files for 8 partitions and 3 ranks"));
  request_.set_rank_files(2);
  const auto completed = archive_.Complete(request_, absl::UnixEpoch());
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(ReadManifest(storage_, completed->folder)->rank_files(), 2);
  EXPECT_EQ(archive_.Verify(completed->folder)->damage_size(), 0);
}

TEST_F(StorageCheckpointArchiveTest, RefusesASchemaThatIsNone) {
  request_.set_schema("\xff\xff\xff");
  EXPECT_EQ(archive_.Complete(request_, absl::UnixEpoch()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(StorageCheckpointArchiveTest, RemovesOneOrAll) {
  const std::string folder = archive_.Complete(request_, absl::UnixEpoch())->folder;
  EXPECT_TRUE(archive_.RemoveCheckpoint(folder).ok());
  EXPECT_FALSE(*storage_.Exists(folder));
  ASSERT_TRUE(WriteFile(storage_, "/root/j1/12/p0", "x").ok());
  EXPECT_TRUE(archive_.RemoveJob("j1").ok());
  EXPECT_FALSE(*storage_.Exists("/root/j1"));
  EXPECT_TRUE(archive_.RemoveJob("j1").ok());
}

TEST_F(StorageCheckpointArchiveTest, DescribesAndVerifies) {
  const std::string folder = archive_.Complete(request_, absl::FromUnixMillis(1234))->folder;
  const v1::CheckpointStatus status = *archive_.Describe(folder);
  EXPECT_EQ(status.clock(), 10);
  EXPECT_EQ(status.files(), 2);
  EXPECT_EQ(status.bytes(), request_.files(0).bytes() + request_.files(1).bytes());
  EXPECT_FALSE(status.has_base_clock());
  EXPECT_EQ(status.created_unix_ms(), 1234);
  const v1::VerifyCheckpointReply intact = *archive_.Verify(folder);
  EXPECT_EQ(intact.clock(), 10);
  EXPECT_EQ(intact.files(), 3) << "the manifest, too";
  EXPECT_EQ(intact.damage_size(), 0);
  std::string bytes = *ReadFile(storage_, "/root/j1/10/p0");
  bytes[0] ^= 1;
  ASSERT_TRUE(ReplaceFile(storage_, "/root/j1/10/p0", bytes).ok());
  ASSERT_TRUE(storage_.DeleteRecursively("/root/j1/10/p1").ok());
  const v1::VerifyCheckpointReply damaged = *archive_.Verify(folder);
  ASSERT_EQ(damaged.damage_size(), 2);
  EXPECT_THAT(damaged.damage(0), HasSubstr("/root/j1/10/p0 has checksum"));
  EXPECT_THAT(damaged.damage(1), HasSubstr("/root/j1/10/p1 is missing"));
  EXPECT_EQ(archive_.Verify("/root/j1/9").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(archive_.Describe("/root/j1/9").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StorageCheckpointArchiveTest, LeftoversGo) {
  ASSERT_TRUE(archive_.Complete(request_, absl::UnixEpoch()).ok());
  for (const char* name : {"7/p0", "10/another", "15/p0"}) {
    ASSERT_TRUE(WriteFile(storage_, JoinUri("/root/j1", name), "left").ok());
  }
  ASSERT_TRUE(archive_.RemoveLeftovers("j1", {.kept = {10}, .reached = 10, .generation = 3}).ok());
  EXPECT_FALSE(*storage_.Exists("/root/j1/7"));
  EXPECT_FALSE(*storage_.Exists("/root/j1/10/another"));
  EXPECT_TRUE(*storage_.Exists("/root/j1/15/p0")) << "it may be under way";
  EXPECT_TRUE(VerifyCheckpoint(storage_, "/root/j1/10").ok());
}

// Of a coordinator that died before it could record it, or of a checkpoint that is damaged.
TEST_F(StorageCheckpointArchiveTest, AManifestThatDoesNotCountGoesBeforeTheNext) {
  ASSERT_TRUE(archive_.Complete(request_, absl::FromUnixMillis(1)).ok());
  ASSERT_TRUE(archive_.Complete(request_, absl::FromUnixMillis(2)).ok());
  EXPECT_EQ(ReadManifest(storage_, "/root/j1/10")->created_unix_ms(), 2);
  // Not before it is known that the next can be.
  request_.mutable_files(0)->set_path("p9");
  EXPECT_EQ(archive_.Complete(request_, absl::UnixEpoch()).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadManifest(storage_, "/root/j1/10")->created_unix_ms(), 2);
}

TEST_F(StorageCheckpointArchiveTest, FilesOfACutThatIsGivenUpAreRemovedByName) {
  for (const char* name :
       {"partition-0-generation-3-a", "partition-1-generation-3-b", "MANIFEST"}) {
    ASSERT_TRUE(WriteFile(storage_, JoinUri("/root/j1/20", name), "x").ok());
  }
  EXPECT_TRUE(archive_
                  .RemoveFiles("j1", 20,
                               {"partition-0-generation-3-a",
                                "/root/j1/20/partition-1-generation-3-b", "partition-9-gone"})
                  .ok());
  EXPECT_EQ(storage_.List("/root/j1/20")->size(), 1);
  for (const char* name : {"MANIFEST", "", ".", "..", "../10/p0", "partition-0/../../10", "/etc"}) {
    EXPECT_EQ(archive_.RemoveFiles("j1", 20, {name}).code(), absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_TRUE(*storage_.Exists("/root/j1/20/MANIFEST"));
}

// A limit on the size of files stands for a full disk.
TEST_F(StorageCheckpointArchiveTest, AManifestThatCannotBeWrittenGivesTheCheckpointUp) {
  LocalStorage disk;
  const std::string root = JoinUri(::testing::TempDir(), "keeper_without_room");
  ASSERT_TRUE(disk.DeleteRecursively(root).ok());
  for (const v1::CutFile& file : request_.files()) {
    const std::string name = file.path().substr(file.path().rfind('/') + 1);
    const std::string bytes = *ReadFile(storage_, JoinUri("/root/j1/10", name));
    ASSERT_TRUE(WriteFile(disk, JoinUri(root, JoinUri("j1/10", name)), bytes).ok());
  }
  request_.mutable_files(0)->set_path("p1");
  StorageCheckpointArchive archive(disk, root);
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = before;
  limited.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const absl::Status full = archive.Complete(request_, absl::UnixEpoch()).status();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(full.code(), absl::StatusCode::kFailedPrecondition) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("job j1 at clock 10 cannot be completed"));
  EXPECT_TRUE(archive.Complete(request_, absl::UnixEpoch()).ok());
  ASSERT_TRUE(disk.DeleteRecursively(root).ok());
}

TEST_F(StorageCheckpointArchiveTest, ADeltaNamesWhatItGoesOnFrom) {
  const v1::CommitCheckpointRequest delta = Cut(12, 10);
  const absl::Status alone = archive_.Complete(delta, absl::UnixEpoch()).status();
  EXPECT_EQ(alone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(alone.message()), HasSubstr("goes on from that at clock 10"));
  EXPECT_THAT(std::string(alone.message()), HasSubstr("take the next one whole"));
  EXPECT_FALSE(*storage_.Exists("/root/j1/12/MANIFEST"));
  ASSERT_TRUE(archive_.Complete(request_, absl::UnixEpoch()).ok());
  const auto completed = archive_.Complete(delta, absl::UnixEpoch());
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->base_clock, 10u);
  EXPECT_EQ(archive_.Describe(completed->folder)->base_clock(), 10u);
  EXPECT_EQ(archive_.Verify(completed->folder)->files(), 6) << "its base's, too";
}

// A storage whose files are too much for this process.
class HungryStorage final : public CheckpointStorage {
 public:
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view) const override {
    throw std::bad_alloc();
  }
  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view) override {
    return absl::UnimplementedError("only read");
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view) const override {
    return absl::UnimplementedError("only read");
  }
  absl::StatusOr<bool> Exists(absl::string_view) const override { return true; }
  absl::Status DeleteRecursively(absl::string_view) override {
    return absl::UnimplementedError("only read");
  }
  absl::Status SyncFolder(absl::string_view) override {
    return absl::UnimplementedError("only read");
  }
};

TEST(StorageCheckpointArchiveMemoryTest, ACheckpointTooLargeForMemoryIsAnsweredByName) {
  HungryStorage storage;
  const StorageCheckpointArchive archive(storage, "/root");
  for (const absl::Status& status :
       {archive.Describe("/root/j1/10").status(), archive.Verify("/root/j1/10").status(),
        archive.Export("/root/j1/10", ExportedValues::kWeights,
                       [](absl::string_view) { return absl::OkStatus(); })}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/root/j1/10"));
  }
}

TEST_F(StorageCheckpointArchiveTest, ExportingADamagedCheckpointFails) {
  const std::string folder = archive_.Complete(request_, absl::UnixEpoch())->folder;
  std::string bytes = *ReadFile(storage_, "/root/j1/10/p0");
  bytes.back() ^= 1;
  ASSERT_TRUE(ReplaceFile(storage_, "/root/j1/10/p0", bytes).ok());
  EXPECT_EQ(archive_
                .Export(folder, ExportedValues::kWeights,
                        [](absl::string_view) { return absl::OkStatus(); })
                .code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
