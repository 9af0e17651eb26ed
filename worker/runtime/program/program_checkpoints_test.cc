#include "worker/runtime/program/program_checkpoints.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/local_storage.h"
#include "common/checkpoint/manifest.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using Share = ProgramCheckpoints::Share;

// A coordinator that answers commits as it is told.
class AnsweringCoordinator final : public CoordinatorClient {
 public:
  absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest) override {
    return v1::RendezvousReply();
  }
  absl::StatusOr<v1::ReportProgressReply> ReportProgress(v1::ReportProgressRequest) override {
    return v1::ReportProgressReply();
  }
  absl::Status ReportCollectives(v1::ReportCollectivesRequest) override { return absl::OkStatus(); }
  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(v1::ReportEvaluationRequest) override {
    return v1::ReportEvaluationReply();
  }
  absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest) override { return v1::AdjustReply(); }
  absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest) override {
    return v1::VerifyStepReply();
  }
  absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request, std::stop_token) override {
    committed = std::move(request);
    return answer;
  }
  absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t, absl::Duration) override {
    return v1::ShardMap();
  }

  absl::Status answer;
  v1::CommitCheckpointRequest committed;
};

class ProgramCheckpointsTest : public testing::Test {
 protected:
  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  size_t FilesAt(uint64_t step) const {
    const fs::path folder(CheckpointFolder(root_.path(), "j1", step));
    if (!fs::exists(folder)) return 0;
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  }

  const TempFolder root_;
  AnsweringCoordinator coordinator_;
  ProgramCheckpoints checkpoints_{
      {.root = root_.path(), .job_id = "j1", .generation = 2, .slot = 3}, coordinator_};
};

TEST_F(ProgramCheckpointsTest, GivesFilesNamesOfTheirOwnAndShowsThemUnderTheProgramsNames) {
  const auto folder = checkpoints_.Begin(7);
  ASSERT_TRUE(folder.ok()) << folder.status();
  Write(*folder + "/model.pt", "weights");
  Write(*folder + "/sub/state", "state");
  const absl::Status status = checkpoints_.Commit(7, Share::kPart, {}, {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(coordinator_.committed.clock(), 7u);
  EXPECT_EQ(coordinator_.committed.program_part(), v1::CommitCheckpointRequest::PART);
  ASSERT_EQ(coordinator_.committed.files_size(), 2);
  EXPECT_EQ(coordinator_.committed.files(0).name(), "model.pt");
  EXPECT_EQ(coordinator_.committed.files(0).bytes(), 7u);
  EXPECT_EQ(coordinator_.committed.files(1).name(), "sub/state");
  EXPECT_EQ(FilesAt(7), 2u);
  const fs::path committed(CheckpointFolder(root_.path(), "j1", 7));
  for (const auto& entry : fs::directory_iterator(committed)) {
    const fs::perms writable =
        fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
    EXPECT_EQ(entry.status().permissions() & writable, fs::perms::none) << entry.path();
  }

  v1::CheckpointManifest manifest;
  manifest.set_job_id("j1");
  manifest.set_clock(7);
  manifest.set_program(true);
  for (const v1::CutFile& file : coordinator_.committed.files()) {
    v1::CheckpointFile& stored = *manifest.add_files();
    stored.set_partition(manifest.files_size() - 1);
    stored.set_path(file.path());
    stored.set_bytes(file.bytes());
    stored.set_checksum(file.checksum());
    stored.set_name(file.name());
  }
  LocalStorage storage;
  const std::string checkpoint = CheckpointFolder(root_.path(), "j1", 7);
  ASSERT_TRUE(WriteManifest(storage, checkpoint, manifest).ok());
  EXPECT_TRUE(VerifyCheckpoint(storage, checkpoint).ok());
  const TempFolder shown;
  const absl::Status showing = ShowCheckpoint(checkpoint, shown.path());
  ASSERT_TRUE(showing.ok()) << showing;
  std::string text;
  std::ifstream(shown.path() + "/sub/state") >> text;
  EXPECT_EQ(text, "state");
}

TEST_F(ProgramCheckpointsTest, NamesServersFilesBesideItsOwnAndShowsThemToNoProgram) {
  auto folder = checkpoints_.Begin(7);
  ASSERT_TRUE(folder.ok()) << folder.status();
  Write(*folder + "/own", "own");
  const std::string committed = CheckpointFolder(root_.path(), "j1", 7);
  for (const char* name : {"partition-0-x", "partition-1-x"}) Write(JoinUri(committed, name), name);
  const ServedCut cut = {
      .schema = "schema",
      .files = {{.path = "partition-0-x", .bytes = 13, .checksum = 5},
                {.path = JoinUri(committed, "partition-1-x"), .bytes = 13, .checksum = 6}}};
  coordinator_.answer = absl::InvalidArgumentError("refused");
  EXPECT_EQ(checkpoints_.Commit(7, Share::kPart, cut, {}), coordinator_.answer);
  EXPECT_EQ(FilesAt(7), 2u) << "a refused commit leaves servers' files to the coordinator";
  const v1::CommitCheckpointRequest& request = coordinator_.committed;
  EXPECT_EQ(request.schema(), "schema");
  ASSERT_EQ(request.files_size(), 3);
  EXPECT_EQ(request.files(0).name(), "own");
  EXPECT_EQ(request.files(1).name(), "muster-servers/partition-0");
  EXPECT_EQ(request.files(2).name(), "muster-servers/partition-1");
  EXPECT_EQ(request.files(2).checksum(), 6u);

  folder = checkpoints_.Begin(8);
  ASSERT_TRUE(folder.ok()) << folder.status();
  Write(*folder + "/muster-servers/partition-0", "not a server's");
  EXPECT_THAT(std::string(checkpoints_.Commit(8, Share::kPart, {}, {}).message()),
              HasSubstr("where Muster keeps what servers wrote"));

  v1::CheckpointManifest manifest;
  manifest.set_job_id("j1");
  manifest.set_clock(7);
  manifest.set_program(true);
  v1::CheckpointFile& file = *manifest.add_files();
  file.set_path("partition-0-x");
  file.set_name("muster-servers/partition-0");
  file.set_bytes(13);
  LocalStorage storage;
  ASSERT_TRUE(WriteManifest(storage, committed, manifest).ok());
  const TempFolder shown;
  ASSERT_TRUE(ShowCheckpoint(committed, shown.path()).ok());
  EXPECT_TRUE(fs::is_empty(shown.path()));
}

TEST_F(ProgramCheckpointsTest, KeepsWhatMayBeCommittedAndRemovesWhatIsNot) {
  const struct {
    absl::Status answer;
    size_t left;
  } cases[] = {{absl::InvalidArgumentError("a name twice"), 0},
               {absl::FailedPreconditionError("the disk is full"), 0},
               {absl::CancelledError("the program has ended"), 1},
               {absl::AbortedError("fenced"), 1}};
  uint64_t step = 0;
  for (const auto& [answer, left] : cases) {
    const auto folder = checkpoints_.Begin(++step);
    ASSERT_TRUE(folder.ok()) << folder.status();
    Write(*folder + "/model.pt", "weights");
    coordinator_.answer = answer;
    EXPECT_EQ(checkpoints_.Commit(step, Share::kWhole, {}, {}), answer);
    EXPECT_EQ(FilesAt(step), left) << answer;
  }
}

TEST_F(ProgramCheckpointsTest, RefusesWhatIsNoCheckpoint) {
  EXPECT_THAT(std::string(checkpoints_.Begin(0).status().message()), HasSubstr("step is 0"));
  EXPECT_THAT(std::string(checkpoints_.Commit(1, Share::kPart, {}, {}).message()),
              HasSubstr("no checkpoint was begun at step 1"));
  auto folder = checkpoints_.Begin(2);
  ASSERT_TRUE(folder.ok());
  EXPECT_THAT(std::string(checkpoints_.Commit(1, Share::kPart, {}, {}).message()),
              HasSubstr("but one at step 2"));
  fs::create_symlink("/etc/passwd", *folder + "/link");
  EXPECT_THAT(std::string(checkpoints_.Commit(2, Share::kPart, {}, {}).message()),
              HasSubstr("no regular file"));
  folder = checkpoints_.Begin(3);
  ASSERT_TRUE(folder.ok());
  const std::string elsewhere = root_.path() + "/elsewhere";
  Write(elsewhere, "weights");
  fs::create_hard_link(elsewhere, *folder + "/model.pt");
  EXPECT_THAT(std::string(checkpoints_.Commit(3, Share::kPart, {}, {}).message()),
              HasSubstr("a hard link"));
  folder = checkpoints_.Begin(4);
  ASSERT_TRUE(folder.ok());
  checkpoints_.Drop();
  EXPECT_EQ(FilesAt(2) + FilesAt(3) + FilesAt(4), 0u);
}

}  // namespace
}  // namespace muster
